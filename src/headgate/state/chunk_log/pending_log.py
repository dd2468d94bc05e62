"""A snapshot of a log: the files that are stored already, and a new one with what changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from headgate.common.errors import InternalError
from headgate.state.backend import EntryFilter, NewSection, NewWriter, Part, StateFiles
from headgate.state.chunk_log.log_file import COLUMN_LOG, WAITING, log_bytes, log_name
from headgate.state.rocksdb.chunk_bytes import Piece
from headgate.state.rocksdb.chunk_layout import ColumnChunks
from headgate.state.rocksdb.native_files import native_files
from headgate.state.snapshots import KeyedStateHandle, StateHandle, size_of
from headgate.state.stored.blob import BlobWriter
from headgate.state.targets import Target

_NUMBERS: Final = 1 << 32
"""Chunks of a file have numbers from the file's on; so many are free."""


class Fresh(NamedTuple):
    """What a snapshot writes: `pieces` make the file of number `number`, `waiting` the other one."""

    number: int
    pieces: Callable[[], Iterator[Piece]]
    waiting: Callable[[], Iterator[Piece]]


@dataclass(slots=True)
class PendingLog:
    """A log at a snapshot point, to be stored in the background. `sealed`: name -> handle of files that are
    stored already; `report` is told the checkpoint and all its files, the new one last, when it is durable.
    Implements `PendingSnapshot`.
    """

    checkpoint: int
    target: Target
    layout: ColumnChunks
    groups: tuple[int, int]
    max_parallelism: int
    sealed: Mapping[str, StateHandle]
    fresh: Fresh
    report: Callable[[int, Mapping[str, StateHandle]], None]
    keep: EntryFilter | None = field(default=None)

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        try:
            return self._store(uid, files)
        finally:
            self.release()

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        raise InternalError("a savepoint is made of what is in memory; please report this")

    def release(self) -> None:
        self.fresh = Fresh(self.fresh.number, partial(iter, ()), partial(iter, ()))

    def _store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        for handle in self.sealed.values():
            if not files.share(handle, None):
                raise InternalError(
                    f"a checkpoint may not refer to {handle}, which this attempt wrote; please report this"
                )
        name, kind = self.layout.versions.name, self.layout.versions.current
        writer = BlobWriter(self.groups, self.max_parallelism)
        writer.add(NewSection(name, self.target.schema, self.target.serializer.encode_many), ())
        number = self.fresh.number * _NUMBERS
        sections: list[Iterable[Part]] = [
            writer.parts(),
            log_bytes(self.fresh.pieces(), number, kind),
            log_bytes(self.fresh.waiting(), number, kind),
        ]
        blob, changes, waiting = files.write_sections(uid, sections, inline=True)
        stored = {**self.sealed, log_name(self.fresh.number): changes}
        self.report(self.checkpoint, stored)
        stored[WAITING] = waiting
        native = native_files(self.checkpoint, {name: self.layout}, (), stored, COLUMN_LOG)
        size = size_of(blob) + sum(map(size_of, stored.values()))
        return KeyedStateHandle(*self.groups, blob, size, native)
