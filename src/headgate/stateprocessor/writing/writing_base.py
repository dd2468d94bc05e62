"""The snapshot that a new savepoint is made from: what of it stays, and how it gets there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from headgate.checkpoint.data_files import DataFileWriter, verified_pieces
from headgate.checkpoint.layout import table_name
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import UsageError
from headgate.common.ports import Disk
from headgate.offline.reslicing import reslice
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    Inline,
    KeyedStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    StateTable,
)
from headgate.state.state_names import STAMPS

V = TypeVar("V")


def opened_as_tables(uri: str, work: str) -> tuple[Disk, CheckpointMetadata]:
    """A snapshot whose keyed state is tables; one of another form is first written as such to the new folder
    `work`.
    """
    disk, metadata = open_checkpoint(uri)
    if any(part.records for stream in metadata.in_flight for part in stream.parts):
        raise UsageError(
            f"{uri} has records in flight, whose state is not settled; take a savepoint, which has none, and "
            "change that"
        )
    if all(keyed.tables is not None for keyed in _keyed(metadata)):
        return disk, metadata
    reslice(uri, work, metadata.max_parallelism, "canonical")
    return open_checkpoint(work)


def _keyed(metadata: CheckpointMetadata) -> list[KeyedStateHandle]:
    return [
        state.keyed for states in metadata.operators.values() for state in states if state.keyed is not None
    ]


def is_of(table: str, state: str) -> bool:
    """Whether a table belongs to a state: its values or their stamps.

    Example:
        >>> is_of("count#ttl", "count"), is_of("counts", "count")
        (True, False)
    """
    return table == state or table.startswith(state + STAMPS)


def check_there(metadata: CheckpointMetadata, uid: str, state: str | None) -> None:
    """Refuse to change what a snapshot does not have."""
    known = {*metadata.operators, *metadata.state_types, *metadata.enumerators}
    if uid not in known:
        listed = ", ".join(sorted(map(repr, known))) or "no state"
        raise UsageError(f"the snapshot has no state of operator {uid!r}; it has {listed}")
    if state is None:
        return
    tables = [
        table for one in metadata.operators.get(uid, []) if one.keyed for table in one.keyed.tables or ()
    ]
    names = {*metadata.state_types.get(uid, {}), *(table.name for table in tables)}
    if state not in names:
        raise UsageError(
            f"operator {uid!r} of the snapshot has no state {state!r}; it has "
            f"{', '.join(sorted(map(repr, names))) or 'none'}"
        )


class Kept:
    """Copies what stays of a snapshot into a new folder."""

    def __init__(self, disk: Disk, to: Disk) -> None:
        self._disk, self._to, self._data, self._count = disk, to, DataFileWriter(to), 0

    def operator(
        self, uid: str, states: Sequence[OperatorSubtaskState], stays: Callable[[str], bool]
    ) -> list[OperatorSubtaskState]:
        """The states of one operator's subtasks, of keyed states those that stay."""
        return [self._subtask(uid, index, state, stays) for index, state in enumerate(states)]

    def _subtask(
        self, uid: str, index: int, state: OperatorSubtaskState, stays: Callable[[str], bool]
    ) -> OperatorSubtaskState:
        keyed = state.keyed
        if keyed is not None:
            kept = [table for table in keyed.tables or () if stays(table.name)]
            keyed = with_tables(keyed, [self._table(uid, index, table) for table in kept])
        held = [self._held(each) for each in state.operator_state]
        return msgspec.structs.replace(state, keyed=keyed, operator_state=held)

    def _table(self, uid: str, index: int, table: StateTable) -> StateTable:
        name = table_name(uid, table.name, index)
        self._to.create(name, verified_pieces(self._disk, table.range()))
        return msgspec.structs.replace(table, file=name)

    def _held(self, held: OperatorStateHandle) -> OperatorStateHandle:
        if not isinstance(held.handle, FileRange):
            return held
        name = f"data/kept-{self._count}"
        self._count += 1
        copied = self._data.write(name, verified_pieces(self._disk, held.handle))
        return msgspec.structs.replace(held, handle=copied)


def with_tables(keyed: KeyedStateHandle, tables: Sequence[StateTable]) -> KeyedStateHandle:
    """The same key groups with other tables."""
    size = sum(table.length for table in tables)
    return KeyedStateHandle(keyed.first_group, keyed.last_group, Inline(b""), size, tables=list(tables))


def new_metadata(max_parallelism: int, time_ms: int, fingerprint: str) -> CheckpointMetadata:
    """Of a savepoint of no job, which holds nothing."""
    return CheckpointMetadata(
        job=f"bootstrap-{secrets.token_hex(3)}",
        job_name="bootstrap",
        checkpoint=1,
        generation=0,
        attempt=0,
        trigger_ms=time_ms,
        max_parallelism=max_parallelism,
        format_fingerprint=fingerprint,
        parallelism={},
        operators={},
        enumerators={},
        state_types={},
        kind="savepoint",
        format="canonical",
    )


def without(found: Mapping[str, V], names: Iterable[str]) -> dict[str, V]:
    """What is left of a mapping by uid or by state."""
    gone = list(names)
    return {name: value for name, value in found.items() if name not in gone}
