"""The chunks of session windows on disk: parts of sessions, by key group, in the order of hashes of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.keys.keygroups_vectorised import groups_of_hashes
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import hashes_of_rows
from headgate.runtime.worker.operators.columns.session_grouping import InOrder, SessionGrouping
from headgate.runtime.worker.operators.columns.sorting import order_of_numbers
from headgate.runtime.worker.operators.columns.spilled.spill import Spill
from headgate.runtime.worker.operators.columns.spilled.stored_hashes import StoredHashes

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.session_grouping import Hashes

_PLACE: Final = 0
"""All chunks lie at one place: a session has none of its own."""
_FOR_SNAPSHOT: Final = 1
"""The place of copies of what is in memory, which are there only while a snapshot is taken."""


class StoredSessions:
    """The sessions in the chunks of `spill`, of which several may be parts of one; true while there are any.
    `limit`: bytes that may be held in memory to find them.
    """

    def __init__(self, spill: Spill, grouping: SessionGrouping, limit: int) -> None:
        self._spill, self._chunks, self._columns = spill, spill.chunks, spill.columns
        self._grouping, self._known = grouping, StoredHashes(limit)

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def groups(self) -> list[int]:
        return self._chunks.groups_at([_PLACE])

    def write(self, found: InOrder) -> None:
        self._spill.write(found.table, _PLACE)
        for group, places in self._by_group(found.hashes):
            self._known.added(group, found.hashes[places])

    def split(self, found: InOrder) -> dict[int, InOrder]:
        """Return sessions by key group, ascending by group."""
        return {
            group: InOrder(found.table.take(pa.array(places)), found.hashes[places])
            for group, places in self._by_group(found.hashes)
        }

    def _by_group(self, hashes: Hashes) -> Iterator[tuple[int, Int64s]]:
        if not len(hashes):
            return
        groups = groups_of_hashes(hashes, self._columns.max_parallelism).astype(np.int64)
        order = order_of_numbers(groups)
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for start, stop in pairwise([*starts.tolist(), len(order)]):
            yield int(groups[order[start]]), order[start:stop]

    def read(self, group: int, more: InOrder | None) -> InOrder:
        """Return the sessions of a key group, merged with `more` of them; they stay stored as they were."""
        tables = self._spill.tables(group, [_PLACE])
        hashes = [hashes_of_rows(table, self._columns.keys) for table in tables]
        if more is not None:
            tables.append(self._columns.in_order(more.table))
            hashes.append(more.hashes)
        return self._grouping.in_order(pa.concat_tables(tables), np.concatenate(hashes))

    def replace(self, group: int, found: InOrder) -> None:
        """Store `found` in place of all that is stored of a key group, of which something is."""
        pieces = [self._columns.piece(group, _PLACE, found.table)] if len(found.hashes) else []
        self._chunks.replace(group, _PLACE, len(self._chunks.sizes(group, _PLACE)), pieces)
        self._known.replaced(group, found.hashes)

    def take_out(self, hashes: Hashes, until: int) -> list[pa.Table]:
        """Remove and return sessions that begin by `until` (ms) and whose key has one of the hashes
        (ascending). The tables have the column `PANE`.
        """
        stored, found = set(self.groups()), list[pa.Table]()
        for group, places in self._by_group(hashes):
            if group in stored and len(wanted := self._known.found(group, hashes[places])):
                found += self._taken_out(group, wanted, until)
        return found

    def _taken_out(self, group: int, wanted: Hashes, until: int) -> Sequence[pa.Table]:
        whole = self.read(group, None)
        hit = pc.is_in(pa.array(whole.hashes), pa.array(wanted)).to_numpy(zero_copy_only=False)
        hit &= whole.table.column(PANE).to_numpy() <= until
        if not hit.any():
            self._known.replaced(group, whole.hashes)
            return ()
        self.replace(group, whole.where(~hit))
        return (whole.table.filter(pa.array(hit)),)

    # -- snapshots

    def write_copies(self, found: InOrder) -> None:
        """Store copies of what is in memory, for a snapshot."""
        self._spill.write(found.table, _FOR_SNAPSHOT)

    def drop_copies(self) -> None:
        self._chunks.drop([_FOR_SNAPSHOT])

    def restored(self) -> None:
        """Move restored copies of sessions that were in memory to the chunks of the other sessions."""
        for group in self._chunks.groups_at([_FOR_SNAPSHOT]):
            tables = self._spill.tables(group, [_FOR_SNAPSHOT])
            self._chunks.add(self._columns.piece(group, _PLACE, table) for table in tables)
        self.drop_copies()
        self._known.forget(self.groups())
