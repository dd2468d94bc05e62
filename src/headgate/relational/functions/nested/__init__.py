"""The rules of SQL functions of arrays, maps and structs, a module for each subject.

Functions with a lambda, and those that make rows of elements, are not here.
"""
