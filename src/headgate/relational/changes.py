"""Changelogs: tables whose rows are corrected, as the changes that made them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

CHANGE: Final = "__change"
"""Name of the last column of a changelog, which says what a row does to the table: a number of `Change`."""


class Change(IntEnum):
    """What a row of a changelog does. Of a row that changes the old values go before the new ones."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def adds(self) -> bool:
        """Whether the row is in the table afterwards; otherwise one like it is not there any more."""
        return self in (Change.INSERT, Change.UPDATE_AFTER)


SIGNS: Final = ("+I", "-U", "+U", "-D")
"""How a change is written, by its number."""
