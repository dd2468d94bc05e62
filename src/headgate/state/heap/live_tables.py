"""Where the heap backend keeps one state: a table in layers, and the handle that works on its dict."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from headgate.common.layered import MISSING as MISSING
from headgate.common.layered import LayeredTable


class HeapTable(LayeredTable):
    """The entries of one state."""

    __slots__ = ()

    def load(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Put restored entries, while there is no snapshot."""
        self.entries.update(zip(keys, values, strict=True))

    def follow(self, handle: Any) -> None:
        """Keep the attribute `table` of a handle at `entries`, for as long as the table lives.

        Generated loops take it from there once per run, and nothing takes the place of `entries`
        during one.
        """

        def use(entries: Any) -> None:
            handle.table = entries

        self.on_change = use
        use(self.entries)
