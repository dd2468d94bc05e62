"""Rewrites a snapshot as a new savepoint: copies what stays, writes what changes, and verifies the result.

The source is only read. The metadata is written last, so a target without it was never finished.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from headgate.checkpoint.data_files import DataFileWriter, verified_pieces
from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.checkpoint.storage.uris import open_disk, refuse_fleeting
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.keys.keygroups import MAX_PARALLELISM_LIMIT
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.windows_apart import check_equally_far
from headgate.offline.writing import FORMATS, NATIVE, SubtaskWriter, count_entries
from headgate.restore.in_flight_shares import records_of
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    InFlightStream,
    KeyedStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    StateHandle,
)
from headgate.state.stored.contract import ValueCodec
from headgate.state.stored.regroup import Rekey, Sorter
from headgate.state.stored.subtask_state import stored_chunks

Progress = Callable[[str, int, int], None]
"""Progress callback: what is done, how much of it in bytes or operators, and of how much."""
WriteState = Callable[[Iterable[bytes]], StateHandle]
StateTypes = dict[str, Description]
"""Name of a state -> kind and description of its serializers, of one operator."""


class Change(ABC):
    """Base of the changes that :func:`rewrite` makes to each operator of a snapshot; by default none."""

    max_parallelism: int | None = None  # the new number of key groups; None: as it was

    @abstractmethod
    def values(self, uid: str) -> ValueCodec:
        """Return how values of an operator's keyed state are read, and as which types they are written."""

    def keeps(self, uid: str) -> bool:
        """Return whether an operator's state is in the new savepoint; asked for each uid of the snapshot."""
        return True

    def part(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        """Return the part of one subtask's state that the new savepoint keeps, for a kept operator."""
        return state

    def splits(self, uid: str) -> bool:
        """Return whether the state of a source's enumerator is in the new savepoint."""
        return True

    def rekey(self, uid: str) -> Rekey | None:
        """Return the function from an operator's old keys to its new ones; None: the keys stay."""
        return None

    def operator_state(
        self, uid: str, state: OperatorSubtaskState, disk: Disk, write: WriteState
    ) -> list[OperatorStateHandle] | None:
        """Return one subtask's operator state, read from `disk`, anew stored by `write`; None: copy it."""
        return None

    def state_types(self, uid: str, stored: StateTypes) -> StateTypes:
        """Return the types of an operator's state in the new savepoint; `stored`: those in the old one."""
        return stored


class Rewritten(NamedTuple):
    """What :func:`rewrite` wrote: URI, key groups, count of keyed entries and timers, kept and left uids."""

    uri: str
    max_parallelism: int
    entries: int  # of keyed state, and timers
    operators: list[str]  # uids of those whose state is in it
    left_behind: list[str]  # uids of those whose state is not


class KeyedWork(NamedTuple):
    """One operator's keyed state to write anew, from `old_groups` to `groups` key groups; can be pickled.

    `number` is the operator's in the savepoint, for names of files; `stored` its subtasks' state, in order.
    """

    source: str  # URI of the snapshot
    target: str  # URI of the savepoint
    uid: str
    number: str  # of the operator in the savepoint, for names of files
    stored: Sequence[KeyedStateHandle]  # of its subtasks, in their order
    parallelism: int
    values: ValueCodec
    rekey: Rekey | None
    old_groups: int
    groups: int
    format: str

    @property
    def size(self) -> int:
        return sum(keyed.size for keyed in self.stored)


class KeyedWritten(NamedTuple):
    """The keyed state of one operator, written and verified: one handle per subtask, in their order."""

    handles: list[KeyedStateHandle]
    entries: int  # entries and timers, read back and counted


class KeyedEngine(Protocol):
    """Writes keyed state of a new savepoint elsewhere than in this process, as in tasks of Spark."""

    def rewritten(self, work: KeyedWork) -> KeyedWritten:
        """Return the state of one operator, written anew and verified; an error deletes what was written."""


def rewrite(
    snapshot: str,
    target: str,
    change: Change,
    form: str | None = None,
    progress: Progress | None = None,
    engine: KeyedEngine | None = None,
) -> Rewritten:
    """Write a savepoint in `target`: `snapshot`, changed by `change`. An error deletes what was written.

    `form` and `progress` are those of :func:`headgate.offline.migrating.migrate`; `engine` writes the keyed
    state (None: this process). UsageError: bad `form`, `target` in memory or not empty, `change` impossible.
    """
    if form not in (None, *FORMATS):
        raise UsageError(f"a savepoint has no format {form!r}; expected {' or '.join(FORMATS)}")
    refuse_fleeting(target)
    disk, metadata = open_checkpoint(snapshot)
    metadata = msgspec.structs.replace(metadata, format=form or metadata.format or NATIVE)
    to = open_disk(target)
    if to.list(""):
        raise UsageError(f"{to.describe()} is not empty; give a folder that is not there yet")
    groups = metadata.max_parallelism if change.max_parallelism is None else change.max_parallelism
    _check(metadata, change, groups)
    with tempfile.TemporaryDirectory(prefix="headgate-offline-") as folder:
        report = progress or (lambda *_: None)
        rewriting = _Rewriting(disk, metadata, to, change, groups, Path(folder), report, engine)
        try:
            return rewriting.run(snapshot)
        except BaseException:
            rewriting.remove()
            raise


def _check(metadata: CheckpointMetadata, change: Change, groups: int) -> None:
    widest = max((len(states) for states in metadata.operators.values() if keyed_handles(states)), default=1)
    if not widest <= groups <= MAX_PARALLELISM_LIMIT:
        raise UsageError(
            f"max parallelism {groups} is not possible; expected {widest}, the parallelism of the "
            f"snapshot's widest keyed operator, to {MAX_PARALLELISM_LIMIT}"
        )
    for uid in metadata.operators:
        if groups != metadata.max_parallelism or change.rekey(uid) is not None:
            check_equally_far(metadata, uid)
    for stream in metadata.in_flight:
        rekeyed = change.rekey(stream.receiver) is not None
        if stream.keyed and records_of(stream) and (groups != metadata.max_parallelism or rekeyed):
            raise UsageError(
                f"{records_of(stream)} records were in flight to {stream.receiver!r}, stored with the key "
                "groups that they had, and only the running program knows their keys; take a savepoint, "
                "which has nothing in flight, and rewrite that"
            )


def keyed_handles(states: Iterable[OperatorSubtaskState]) -> list[KeyedStateHandle]:
    return [state.keyed for state in states if state.keyed is not None]


class _Rewriting:
    """Writes a new savepoint from a snapshot, operator by operator, and verifies it."""

    def __init__(
        self,
        disk: Disk,
        metadata: CheckpointMetadata,
        to: Disk,
        change: Change,
        groups: int,
        folder: Path,
        progress: Progress,
        engine: KeyedEngine | None = None,
    ) -> None:
        self._engine, self._entries_elsewhere = engine, dict[str, int]()
        self._disk, self._metadata, self._to = disk, metadata, to
        self._change, self._groups, self._folder, self._progress = change, groups, folder, progress
        self._format = metadata.format or NATIVE
        self._keyed = SubtaskWriter(to, self._format, folder)
        self._data, self._names = DataFileWriter(to), list[str]()
        self._kept = [uid for uid in metadata.operators if change.keeps(uid)]
        self._total = sum(k.size for uid in self._kept for k in keyed_handles(metadata.operators[uid]))
        self._done = 0

    def run(self, origin: str) -> Rewritten:
        metadata = self._metadata
        operators = {uid: self._operator(uid, number) for number, uid in enumerate(self._kept)}
        made = msgspec.structs.replace(
            metadata,
            max_parallelism=self._groups,
            operators=operators,
            enumerators={
                uid: state for uid, state in metadata.enumerators.items() if self._change.splits(uid)
            },
            in_flight=[self._stream(stream) for stream in metadata.in_flight],
            state_types={
                uid: self._change.state_types(uid, types)
                for uid, types in metadata.state_types.items()
                if self._change.keeps(uid)
            },
            kind="savepoint",
            format=self._format,
            origin=open_disk(origin).describe(),
        )
        self._names.append(METADATA)
        self._to.create(METADATA, [encode_metadata(made)])
        entries = self._verified()
        lost = [uid for uid in metadata.operators if uid not in operators]
        return Rewritten(self._to.describe(), self._groups, entries, list(operators), lost)

    def remove(self) -> None:
        for name in [*self._names, *self._keyed.names]:
            with suppress(StorageError, OSError):
                self._to.delete(name)

    # -- one operator

    def _operator(self, uid: str, number: int) -> list[OperatorSubtaskState]:
        states = [self._change.part(state) for state in self._metadata.operators[uid]]
        keyed = self._keyed_state(uid, number, states)
        made = []
        for index, (state, mine) in enumerate(zip(states, keyed, strict=True)):
            held = self._operator_state(uid, f"o{number}-s{index}", state)
            made.append(msgspec.structs.replace(state, keyed=mine, operator_state=held))
        return made

    def _keyed_state(
        self, uid: str, number: int, states: Sequence[OperatorSubtaskState]
    ) -> list[KeyedStateHandle | None]:
        stored = keyed_handles(states)
        if not stored:
            return [None] * len(states)
        work = KeyedWork(
            self._disk.describe(),
            self._to.describe(),
            uid,
            f"o{number}",
            stored,
            len(states),
            self._change.values(uid),
            self._change.rekey(uid),
            self._metadata.max_parallelism,
            self._groups,
            self._format,
        )
        return list(self._here(work) if self._engine is None else self._elsewhere(self._engine, work))

    def _here(self, work: KeyedWork) -> list[KeyedStateHandle]:
        files, old_groups = DiskFiles(self._disk), work.old_groups
        sorter = Sorter(self._folder, work.groups, work.parallelism, work.size, work.rekey)
        try:
            for keyed in work.stored:
                for chunk in stored_chunks(files, keyed, work.values, old_groups):
                    sorter.add(chunk)
                    self._advance(work.uid, chunk.size)
            sorter.check_apart()
            return [
                self._keyed.subtask(sorter, work.uid, work.number, index, work.groups)
                for index in range(work.parallelism)
            ]
        finally:
            sorter.close()

    def _elsewhere(self, engine: KeyedEngine, work: KeyedWork) -> list[KeyedStateHandle]:
        made = engine.rewritten(work)
        self._entries_elsewhere[work.uid] = made.entries
        self._names += [
            file.file for keyed in made.handles for file in keyed.handles() if isinstance(file, FileRange)
        ]
        self._advance(work.uid, work.size)
        return made.handles

    def _advance(self, uid: str, size: int) -> None:
        self._done = min(self._total, self._done + size)
        self._progress(f"reading {uid}", self._done, self._total)

    def _operator_state(self, uid: str, name: str, state: OperatorSubtaskState) -> list[OperatorStateHandle]:
        written = [0]

        def write(parts: Iterable[bytes]) -> StateHandle:
            written[0] += 1
            return self._stored(f"data/{name}-{written[0]}", parts)

        changed = self._change.operator_state(uid, state, self._disk, write)
        if changed is not None:
            return changed
        return [
            msgspec.structs.replace(held, handle=self._copied(held.handle, write))
            for held in state.operator_state
        ]

    def _stored(self, name: str, parts: Iterable[bytes]) -> FileRange:
        self._names.append(name)
        return self._data.write(name, parts)

    def _copied(self, handle: StateHandle, write: WriteState) -> StateHandle:
        return write(verified_pieces(self._disk, handle)) if isinstance(handle, FileRange) else handle

    def _stream(self, stream: InFlightStream) -> InFlightStream:
        parts = []
        for part in stream.parts:
            write = partial(self._stored, f"data/f{len(self._names)}")
            parts.append(msgspec.structs.replace(part, handle=self._copied(part.handle, write)))
        return msgspec.structs.replace(stream, parts=parts)

    # -- the check

    def _verified(self) -> int:
        disk, made = open_checkpoint(self._to.describe())
        verify_files(disk, made)
        found = 0
        for number, (uid, states) in enumerate(made.operators.items()):
            self._progress(f"verifying {uid}", number, len(made.operators))
            if uid not in self._entries_elsewhere:
                found += sum(count_entries(disk, keyed, self._groups) for keyed in keyed_handles(states))
        if found != self._keyed.entries:
            raise InternalError(
                f"{self._keyed.entries} entries were written and {found} are there; please report this"
            )
        return found + sum(self._entries_elsewhere.values())
