"""Tables: what a program computes with columns; each call resolves its names and types at once.

A table becomes nodes of the program when it is aggregated or left; nothing here evaluates an expression.
"""
