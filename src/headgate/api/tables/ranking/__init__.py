"""Plans of rows in an order: the first rows of each key, and aggregates over the rows before a row. Never the
operators that run them, which are in `runtime/worker/operators/columns/updating/`.
"""
