"""The numbers of traces: each says which tracing of the job it belongs to."""

from __future__ import annotations

from typing import Final

_TRACINGS: Final = 1 << 10
_BITS: Final = 48


def trace_number(tracing: int, visit: int) -> int:
    """Return the number of a trace that begins with a visit of this number.

    Example:
        >>> is_of(trace_number(3, 12345), 3), is_of(trace_number(3, 12345), 4)
        (True, False)
    """
    return tracing % _TRACINGS << _BITS | visit & (1 << _BITS) - 1


def is_of(trace: int, tracing: int) -> bool:
    """Return whether a trace of this number belongs to the tracing of that number."""
    return trace >> _BITS == tracing % _TRACINGS
