"""Joins by event time: their rows by key and time, and what watermarks make of them.

What is kept until the end of a window is one folder up, what is kept for good in `updating`.
"""
