"""Lines of JSON that are decoded once more when a column is made of them, for few rows of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.connectors.files.json_decoder import Records

    Places = NDArray[np.int64]


class LateLines:
    """Some lines of blocks of text, in order; see :class:`headgate.records.late_columns.Lines`.

    Arguments:
        blocks: the blocks' bytes.
        which: of each line, the index of its block.
        starts: of each line, where it begins in its block; `stops`: where it ends, without its line feed.
        of: how many lines there were before some of them were picked.
    """

    __slots__ = ("_blocks", "_rows", "_starts", "_stops", "_which", "of")

    def __init__(self, blocks: list[bytes], which: Places, starts: Places, stops: Places, of: int) -> None:
        self._blocks, self._which, self._starts, self._stops, self.of = blocks, which, starts, stops, of
        self._rows: Records | None = None

    def __len__(self) -> int:
        return len(self._starts)

    def slice(self, start: int, stop: int) -> LateLines:
        picked = slice(start, stop)
        which, starts, stops = self._which[picked], self._starts[picked], self._stops[picked]
        return LateLines(self._blocks, which, starts, stops, len(starts))

    def take(self, places: Places) -> LateLines:
        return LateLines(
            self._blocks, self._which[places], self._starts[places], self._stops[places], self.of
        )

    def joined(self, others: Sequence[LateLines]) -> LateLines:
        parts = [self, *others]
        blocks: list[bytes] = []
        which: list[Places] = []
        for part in parts:
            which.append(part._which + len(blocks))
            blocks += part._blocks
        starts, stops = [part._starts for part in parts], [part._stops for part in parts]
        return LateLines(
            blocks,
            np.concatenate(which),
            np.concatenate(starts),
            np.concatenate(stops),
            sum(part.of for part in parts),
        )

    def rows(self, decode: Callable[[bytes], Records]) -> Records:
        """Return what `decode` makes of the lines' text; it is called once for all columns of these lines."""
        if self._rows is None:
            borders = zip(self._which.tolist(), self._starts.tolist(), self._stops.tolist())
            self._rows = decode(b"\n".join([self._blocks[at][start:stop] for at, start, stop in borders]))
        return self._rows


def lines_of(data: bytes, feeds: Places) -> LateLines:
    """Return the lines of one block; `feeds` are the places of its line feeds, but for a last one."""
    starts = np.empty(len(feeds) + 1, np.int64)
    starts[0], starts[1:] = 0, feeds + 1
    stops = np.append(feeds, len(data) - data.endswith(b"\n"))
    return LateLines([data], np.zeros(len(starts), np.int64), starts, stops, len(starts))
