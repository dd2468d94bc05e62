"""State without windows and the log of its changes: a checkpoint stores what has changed since the last one.

A checkpoint refers to files of earlier ones and adds one. A file may be referred to (it is sealed) once it is
known that the checkpoint that wrote it is complete, and that no other was taken since, which might write it
anew and remove it. At a snapshot:

| | `_sealed` | `_unsealed` |
| --- | --- | --- |
| the last one is the newest complete one, and its changes are in a file | its files | what changed since |
| it is not, or they are in the metadata | stays | what it was, and what changed since |
| it is, and all was replaced since | none | none |
| everything is written | none | none |

So what changed is kept in memory until it is sealed, and nothing has to be taken back after an abort.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from headgate.runtime.worker.operators.columns.kept_windows import WindowsView
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood
from headgate.runtime.worker.operators.columns.window_state import PendingWindows
from headgate.state.backend import PendingSnapshot
from headgate.state.chunk_log.pending_log import Fresh, PendingLog
from headgate.state.rocksdb.chunk_bytes import ChunkKey, Piece, placed_in
from headgate.state.rocksdb.chunk_layout import ColumnChunks
from headgate.state.rocksdb.native_chunks import native_chunks
from headgate.state.rocksdb.value_versions import Versions
from headgate.state.snapshots import FileRange, StateHandle
from headgate.state.stored.native_restore import NamedStates

if TYPE_CHECKING:
    from headgate.state.targets import Target

Tables: TypeAlias = Callable[[], Iterator[pa.Table]]
"""Makes tables, in the thread that writes a snapshot."""

_LOG: Final = 0
"""The place of chunks that say what changed, oldest first."""
_WAITING: Final = 1
"""The place of chunks with what came since the last mark; each snapshot writes them anew."""

_ANYWHERE: Final = ChunkKey(0, 0, 0)
"""Stands for the key of a chunk whose rows say their places."""

ROWS_MIN: Final = 1 << 12
"""State of fewer rows is stored whole: files for it are not worth the while."""
FILES_MAX: Final = 1_000
"""After so many files everything is written anew: every checkpoint names all of them."""
SPARE_ROWS: Final = 1 << 16
"""The log may have twice the rows of the state, and so many more, before it is written anew."""


class LoggedState:
    """State in memory, `kept`, and its log. `columns` are those of chunks; `pending` gives a snapshot of what
    is in memory, for savepoints and small state. `groups`: first and last key group.
    """

    def __init__(
        self,
        kept: KeptForGood,
        name: str,
        target: Target,
        groups: tuple[int, int],
        columns: ChunkColumns,
        pending: Callable[[], PendingWindows],
    ) -> None:
        self._target, self._groups, self._columns, self._pending = target, groups, columns, pending
        self._layout = ColumnChunks(Versions(name, target))
        self._reported: dict[int, Mapping[str, StateHandle]] = {}
        self._number = self._last = 0
        self.replace(kept)

    def replace(self, kept: KeptForGood) -> None:
        """Keep `kept` from now on, of which the log has nothing."""
        self.kept = kept
        self._begin_anew()
        self._last = 0  # the files of earlier checkpoints say what was kept before
        kept.begin_log()

    def _begin_anew(self) -> None:
        self._sealed: Mapping[str, StateHandle] = {}
        self._unsealed: list[pa.Table] = []
        self._rows = 0  # in the log

    def snapshot(self, checkpoint: int, completed: int | None) -> PendingSnapshot:
        """Take a snapshot. `completed`: newest complete checkpoint, to whose files it may refer; 0: to none;
        None: a savepoint.
        """
        if completed is None:
            return self._pending()
        self._seal(completed)
        self._last = checkpoint
        changes = [table for table in self.kept.take_log() if table.num_rows]
        self._unsealed += changes
        self._rows += sum(table.num_rows for table in changes)
        if self.kept.count < ROWS_MIN:
            self._begin_anew()
            return self._pending()
        since = self.kept.since()
        if self._is_worn:
            self._begin_anew()
            self._rows = self.kept.count
            fresh = self.kept.settled()
        else:
            fresh = partial(iter, list(self._unsealed))
        return self._pending_log(checkpoint, fresh, partial(iter, since))

    def _pending_log(self, checkpoint: int, fresh: Tables, since: Tables) -> PendingLog:
        self._number += 1
        pieces = partial(self._pieces, fresh, _LOG), partial(self._pieces, since, _WAITING)
        return PendingLog(
            checkpoint,
            self._target,
            self._layout,
            self._groups,
            self._columns.max_parallelism,
            self._sealed,
            Fresh(self._number, *pieces),
            self._reported.__setitem__,
        )

    def _seal(self, completed: int) -> None:
        stored = self._reported.get(completed) if completed == self._last else None
        # A file in the metadata would be in that of every later checkpoint.
        if stored and isinstance(list(stored.values())[-1], FileRange):
            self._sealed, self._unsealed = stored, []
        for number in [number for number in list(self._reported) if number <= completed]:
            del self._reported[number]

    @property
    def _is_worn(self) -> bool:
        return (
            not self._sealed
            or len(self._sealed) >= FILES_MAX
            or self._rows > 2 * self.kept.count + SPARE_ROWS
        )

    def _pieces(self, tables: Tables, place: int) -> Iterator[Piece]:
        for table in tables():
            yield from self._columns.whole_pieces(table, place)

    def views_of(self, key: Hashable) -> list[WindowsView]:
        """Return views of all that is kept, for a query of `key`."""
        return self.kept.at_snapshot()


def logged_tables(
    states: Sequence[NamedStates],
    kept: KeptForGood,
    name: str,
    target: Target,
    groups: tuple[int, int],
    columns: ChunkColumns,
) -> Iterator[pa.Table]:
    """Yield what logs of state `name` say of `groups` (first, last), in tables that `kept` restores in their
    order. Chunks of different key groups are put together, as a key is only in those of its group.
    """
    for state in states:
        changes, waiting = _by_turn(
            native_chunks([state], name, target, groups, columns.max_parallelism), columns
        )
        yield from _together(changes, kept)
        yield from waiting


def _by_turn(
    chunks: Iterable[tuple[ChunkKey, pa.RecordBatch]], columns: ChunkColumns
) -> tuple[list[pa.Table], list[pa.Table]]:
    # The first chunks of all key groups, then their second ones: of changes, and of what waits.
    found: dict[tuple[int, int], list[pa.Table]] = {}
    turns: dict[tuple[int, int], int] = {}
    for at, batch in chunks:
        assert placed_in(batch.schema)  # as chunks of this state are written
        place = at.place, turns.get((at.group, at.place), 0)
        turns[at.group, at.place] = place[1] + 1
        found.setdefault(place, []).append(columns.table(at, batch))
    tables = {place: pa.concat_tables(found[place]) for place in sorted(found)}
    changes, waiting = (
        [table for (at, _), table in tables.items() if at == each] for each in (_LOG, _WAITING)
    )
    return changes, waiting


def _together(tables: Sequence[pa.Table], kept: KeptForGood) -> Iterator[pa.Table]:
    part: list[pa.Table] = []
    for table in tables:
        part.append(table)
        if sum(each.num_rows for each in part) >= SPARE_ROWS:
            yield kept.compacted(pa.concat_tables(part))
            part = []
    if part:
        yield kept.compacted(pa.concat_tables(part))
