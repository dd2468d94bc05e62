"""The rules of functions of arrays, maps and structs, a file for each subject.

Functions with a lambda, and those that make rows of elements, are not here.
"""
