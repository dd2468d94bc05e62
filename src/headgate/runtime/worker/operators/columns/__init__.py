"""Operators of tables: they compute with Arrow batches by the rules of `relational`, never row by row.

What a plan means, and how it becomes these operators, lies in `relational` and `api.tables`.
"""
