"""Aggregates of columns: the accumulators of each, how they are merged, and how they become the result.

The registry of them is `relational.aggregates`. They are computed by Arrow and numpy, never row by row.
"""
