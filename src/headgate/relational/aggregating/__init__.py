"""Aggregates of columns: of which accumulators each is made, how these are merged, and the result.

The registry of them is `relational.aggregates`. They are computed by Arrow and numpy, never row by row.
"""
