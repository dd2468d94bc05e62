"""Values of an older shape: whether they can be read as today's type, and how.

How values of today's shape are written stands in `codecs`.
"""
