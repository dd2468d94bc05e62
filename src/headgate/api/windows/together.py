"""Records of a batch that are added to their windows together: all of one key and window at once.

A batch has several records for most of the windows that it touches. Their state is then read and written
once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.records.packed_rows import PackedRows

Adder: TypeAlias = "Callable[[tuple[int, int], int, int], bool]"
"""Adds records, from a place to before another, to a window of the current key. Returns whether it is new."""


class Together(Protocol):
    """Records, ordered so that those of one key and window follow each other, in their order of arrival.

    Attributes:
        times: the event time of each, in ms, as a numpy array.
        reading: iterates over the records, or values of them, that are being added; for errors.
    """

    times: Int64s
    reading: Iterator[Any]

    def rows(self) -> Sequence[Any]:
        """Return the records as Python objects; the sequence is not to be changed."""

    def column(self, name: str) -> list[Any] | None:
        """Return the values of field `name` of all records; None if they are no columns, or have no such."""

    def packed(self) -> PackedRows | None:
        """Return the records packed, if all of them are rows with the same fields; else None."""
