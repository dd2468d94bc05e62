"""Patterns: `Pattern` for keyed streams, and values of other rows of a match for ``Table.match()``.

``F.col("A.price")`` and ``F.last("A.price")`` are of the last row of variable A, ``F.first("A.price")`` of
its first one, and aggregates such as ``F.avg("A.price")`` are of all its rows so far.
"""

from headgate.api.patterns.match_columns import first as first
from headgate.api.patterns.match_columns import last as last
from headgate.api.patterns.pattern import Pattern as Pattern

__all__ = ["Pattern", "first", "last"]
