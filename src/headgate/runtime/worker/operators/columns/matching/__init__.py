"""Operators that find patterns in the rows of each key, and the rows that they keep.

The machine that follows a pattern is `relational.patterns.matcher`; rows stay in Arrow tables here.
"""
