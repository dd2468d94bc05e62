"""The contents of a new savepoint, and its writing: tables by Spark, the rest copied, the metadata last."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.checkpoint.data_files import DataFileWriter, verified_pieces
from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges
from headgate.checkpoint.storage.settings import storage_settings_in_use
from headgate.checkpoint.storage.uris import open_disk, refuse_fleeting
from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.common.files.durable import clock
from headgate.common.format_config import fingerprint
from headgate.common.keys.keygroups import check_parallelism, key_group_range
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.migrating import reslice
from headgate.offline.rewriting import keyed_handles
from headgate.offline.storages import storage_options
from headgate.offline.words import OPERATOR_STATE
from headgate.state.canonical.table_layout import TIMERS
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    Inline,
    KeyedStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    StateTable,
)
from headgate.state.state_names import STAMPS, is_stamps
from headgate.state.targets import target_of
from headgate.stateprocessor.ranges import GROUP, in_ranges
from headgate.stateprocessor.spark_errors import raise_reported, readable
from headgate.stateprocessor.writing.writing_rows import RowColumn
from headgate.stateprocessor.writing.writing_tables import (
    RESULT,
    Place,
    TableRow,
    TableTask,
    Transform,
    TransformTask,
    name_of_attempt,
)

V = TypeVar("V")

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_RANGES_PER_SLOT = 2
"""Ranges of key groups for each of Spark's slots, so that one large range does not hold up all."""


@dataclass(frozen=True, slots=True)
class NewState:
    """A DataFrame to become one state of an operator or its timers; `frame` has no other columns than named.

    `outputs`: table name -> what makes the table; `distinct`: columns that distinguish timers of one key.
    """

    frame: DataFrame  # has the columns that are named here, and no others
    keys: Sequence[str]
    key_types: Sequence[pa.DataType]
    outputs: Mapping[str, RowColumn]
    distinct: Sequence[str] = ()  # columns next to the keys that distinguish rows of one key


class WrittenSavepoint(NamedTuple):
    """The result of :meth:`SavepointWriter.write`: where the savepoint is, and what was written.

    Attributes:
        uri: of the savepoint.
        max_parallelism: its number of key groups.
        entries: operator uid -> state -> number of keys written, without those copied; timers, in number,
            under "timers:all".
    """

    uri: str
    max_parallelism: int
    entries: dict[str, dict[str, int]]


@dataclass(frozen=True)
class SavepointContents:
    """What a new savepoint is to contain, by (uid, state); `SavepointWriter` collects, :func:`run` writes it.

    `base`: URI of the snapshot that is changed, or None; `removed` (state None: all) and `transforms` are of
    its state. `max_parallelism` None: that of `base`; `parallelism` None: the same, or by Spark's slots.
    """

    base: str | None
    max_parallelism: int | None
    parallelism: int | None
    options: Sequence[str]
    states: Mapping[tuple[str, str], NewState] = field(default_factory=dict)
    removed: frozenset[tuple[str, str | None]] = frozenset()
    transforms: Mapping[tuple[str, str], Transform] = field(default_factory=dict)


def run(writer: SavepointContents, uri: str) -> WrittenSavepoint:
    """Write the savepoint to the folder `uri`, its metadata last; an error deletes what was written.

    Raises UsageError (also if the folder is not empty), StorageError or OperatingError, as `write` says.
    """
    refuse_fleeting(uri)
    with storage_options(writer.options) if writer.options else nullcontext():
        to = open_disk(uri)
        if to.list(""):
            raise UsageError(f"{to.describe()} is not empty; give a folder that is not there yet")
        writing = _Writing(writer, to)
        try:
            return writing.run()
        except BaseException:
            writing.undo()
            raise


class _Writing:
    """Writes one savepoint: copies what stays of a snapshot, and lets Spark write what is new."""

    def __init__(self, writer: SavepointContents, to: Disk) -> None:
        self._writer, self._to = writer, to
        self._mark = secrets.token_hex(8)  # in the names of its files: another writer may share the folder
        self._disk, self._metadata = to, b""
        self._entries = defaultdict[str, Counter[str]](Counter)
        self._data, self._copies = DataFileWriter(to), count()

    def _opened(self) -> CheckpointMetadata:
        writer = self._writer
        if writer.base is None:
            assert writer.max_parallelism is not None, "new() has set it"
            return new_metadata(writer.max_parallelism, int(clock.time() * 1000), fingerprint())
        self._disk, base = opened_as_tables(writer.base, self._to.describe(f".base-{self._mark}"))
        for uid, state in [*writer.removed, *writer.transforms]:
            check_there(base, uid, state)
        for uid, state in writer.transforms:
            if base.state_types.get(uid, {}).get(state, {}).get("kind") in OPERATOR_STATE:
                raise UsageError(
                    f"operator state {state!r} of {uid!r} has no keys, so transform() cannot change it"
                )
        return base

    def run(self) -> WrittenSavepoint:
        self._base = self._opened()
        made = self._with_new(self._kept())
        # Spark may have tried a task more than once, and each attempt has written a file.
        wanted, there = {found.file for found in referenced_ranges(made)}, set(self._to.list(""))
        if missing := sorted(wanted - there):
            raise StorageError(
                f"{self._to.describe(missing[0])} was written by an executor and is not here; give a folder "
                "or an object store that the driver and all executors reach"
            )
        self._remove_own(there - wanted)
        self._metadata = encode_metadata(made)
        if not self._to.create_if_absent(METADATA, self._metadata):
            self._metadata = b""  # what is there is another writer's, even if it is equal
            raise StorageError(f"{self._to.describe(METADATA)} was written by another process meanwhile")
        entries = {uid: dict(counts) for uid, counts in self._entries.items()}
        return WrittenSavepoint(self._to.describe(), made.max_parallelism, entries)

    def undo(self) -> None:
        # The metadata goes first; it is there if the call that stored it failed all the same.
        with suppress(StorageError, OSError):
            names = self._to.list("")
            if METADATA in names and self._to.read(METADATA) == self._metadata:
                self._to.delete(METADATA)
            self._remove_own(names)

    def _remove_own(self, names: Iterable[str]) -> None:
        for name in (name for name in names if self._mark in name):
            with suppress(StorageError, OSError):
                self._to.delete(name)

    # -- what stays

    def _kept(self) -> CheckpointMetadata:
        base, writer = self._base, self._writer
        removed = {uid for uid, state in writer.removed if state is None}
        operators = {
            uid: [self._copied(uid, index, state) for index, state in enumerate(states)]
            for uid, states in without(base.operators, removed).items()
        }
        types = {
            uid: {name: schema for name, schema in kept.items() if not self._replaced(uid, name)}
            for uid, kept in without(base.state_types, removed).items()
        }
        return msgspec.structs.replace(
            base,
            operators=operators,
            parallelism=without(base.parallelism, removed),
            enumerators=without(base.enumerators, removed),
            finished=without(base.finished, removed),
            in_flight=[],
            state_types=types,
            kind="savepoint",
            format="canonical",
            origin=None if writer.base is None else open_disk(writer.base).describe(),
        )

    def _copied(self, uid: str, index: int, state: OperatorSubtaskState) -> OperatorSubtaskState:
        keyed = state.keyed
        if keyed is not None:
            stay = [
                self._table(uid, index, table)
                for table in keyed.tables or ()
                if not self._replaced(uid, table.name) and (uid, table.name) not in self._writer.transforms
            ]
            keyed = with_tables(keyed, stay)
        held = [self._held(each) for each in state.operator_state if not self._replaced(uid, each.name)]
        return msgspec.structs.replace(state, keyed=keyed, operator_state=held)

    def _table(self, uid: str, index: int, table: StateTable) -> StateTable:
        name = name_of_attempt(uid, table.name, index, self._mark)
        self._to.create(name, verified_pieces(self._disk, table.range()))
        return msgspec.structs.replace(table, file=name)

    def _held(self, held: OperatorStateHandle) -> OperatorStateHandle:
        if not isinstance(held.handle, FileRange):
            return held
        name = f"data/kept-{self._mark}-{next(self._copies)}"
        handle = self._data.write(name, verified_pieces(self._disk, held.handle))
        return msgspec.structs.replace(held, handle=handle)

    def _replaced(self, uid: str, name: str) -> bool:
        states = [*self._writer.removed, *self._writer.states]
        return any(of == uid and state is not None and is_of(name, state) for of, state in states)

    # -- what is new

    def _with_new(self, made: CheckpointMetadata) -> CheckpointMetadata:
        for (uid, state), new in self._writer.states.items():
            place = self._place(made, uid, new.frame)
            task = TableTask(uid, new.outputs, new.keys, new.key_types, new.distinct, place)
            rows = in_ranges(new.frame, new.keys, made.max_parallelism, place.parallelism, new.distinct)
            tables = self._collected(rows.drop(GROUP), task, uid)
            made = self._adding(made, uid, place.parallelism, tables)
            schemas = {name: column.schema for name, column in new.outputs.items() if name != TIMERS}
            made = _typed(made, uid, schemas)
            self._entries[uid][state] += 0
        for (uid, state), transform in self._writer.transforms.items():
            if (uid, state) not in self._writer.states:
                made = self._transformed(made, uid, transform)
        return made

    def _place(self, made: CheckpointMetadata, uid: str, frame: DataFrame) -> Place:
        states = made.operators.get(uid)
        if states is not None:
            parallelism = len(states)
        else:
            slots = frame.sparkSession.sparkContext.defaultParallelism
            parallelism = self._writer.parallelism or min(made.max_parallelism, _RANGES_PER_SLOT * slots)
        check_parallelism(made.max_parallelism, parallelism)
        settings = storage_settings_in_use()
        return Place(self._to.describe(), settings, made.max_parallelism, parallelism, self._mark)

    def _transformed(self, made: CheckpointMetadata, uid: str, transform: Transform) -> CheckpointMetadata:
        name, states = transform.before.name, self._base.operators[uid]
        tables = {
            index: ((state.keyed.first_group, state.keyed.last_group), table)
            for index, state in enumerate(states)
            if state.keyed is not None
            for table in state.keyed.tables or ()
            if table.name == name
        }
        spark = SparkSession.builder.getOrCreate()
        rows = spark.createDataFrame([(index,) for index in tables], "index int")
        place = self._place(made, uid, rows)
        task = TransformTask(uid, transform, self._disk.describe(), tables, place)
        spread = rows.repartitionById(max(1, len(tables)), "index")
        made = self._adding(made, uid, place.parallelism, self._collected(spread, task, uid))
        return _typed(made, uid, {name: target_of(transform.after).schema})

    def _collected(self, rows: DataFrame, task: Task, uid: str) -> list[TableRow]:
        try:
            found: list[TableRow] = [row.asDict() for row in _mapped(rows, task).collect()]  # type: ignore[misc]
        except PySparkException as error:
            raise OperatingError(
                f"Spark could not compute the state of operator {uid!r}: {readable(error)}"
            ) from error
        for row in found:
            raise_reported(row)
        for row in found:
            if not is_stamps(row["state"]):
                self._entries[uid][row["state"]] += row["entries"]
        return found

    def _adding(
        self, made: CheckpointMetadata, uid: str, parallelism: int, rows: Iterable[TableRow]
    ) -> CheckpointMetadata:
        states = made.operators.get(uid) or [OperatorSubtaskState(uid) for _ in range(parallelism)]
        tables: dict[int, list[StateTable]] = {}
        for row in rows:
            table = StateTable(row["state"], row["file"], row["length"], row["crc32"])
            tables.setdefault(row["index"], []).append(table)
        changed = [
            msgspec.structs.replace(
                state, keyed=_keyed(state, tables.get(index, []), made.max_parallelism, parallelism, index)
            )
            for index, state in enumerate(states)
        ]
        return msgspec.structs.replace(
            made,
            operators={**made.operators, uid: changed},
            parallelism={**made.parallelism, uid: parallelism},
        )


def _mapped(rows: DataFrame, task: Task) -> DataFrame:
    # PySpark looks for each column by its name, as if a dot led into a struct and a backtick quoted.
    names = rows.columns

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*(f"_{place}" for place in range(len(names)))).mapInArrow(named, RESULT.ddl)


def _keyed(
    state: OperatorSubtaskState, tables: list[StateTable], max_parallelism: int, parallelism: int, index: int
) -> KeyedStateHandle:
    groups = key_group_range(max_parallelism, parallelism, index)
    before = state.keyed or KeyedStateHandle(*groups, Inline(b""), 0, tables=[])
    if (before.first_group, before.last_group) != groups:
        raise UsageError(
            f"subtask {index} of operator {state.uid!r} has key groups {before.first_group} to "
            f"{before.last_group} in the snapshot; expected {groups[0]} to {groups[1]}; rewrite it with "
            "headgate savepoint reslice first"
        )
    return with_tables(before, [*(before.tables or ()), *tables])


def _typed(made: CheckpointMetadata, uid: str, schemas: Mapping[str, Description]) -> CheckpointMetadata:
    types = {**made.state_types, uid: {**made.state_types.get(uid, {}), **schemas}}
    return msgspec.structs.replace(made, state_types=types)


# -- the snapshot that it changes


def opened_as_tables(uri: str, work: str) -> tuple[Disk, CheckpointMetadata]:
    disk, metadata = open_checkpoint(uri)
    if any(part.records for stream in metadata.in_flight for part in stream.parts):
        raise UsageError(
            f"{uri} has records in flight, whose state is not settled; take a savepoint, which has none, and "
            "change that"
        )
    keyed = keyed_handles(state for states in metadata.operators.values() for state in states)
    if all(each.tables is not None for each in keyed):
        return disk, metadata
    reslice(uri, work, metadata.max_parallelism, "canonical")
    return open_checkpoint(work)


def is_of(table: str, state: str) -> bool:
    """Return whether a table belongs to a state: its values or their last-access times.

    Example:
        >>> is_of("count#ttl", "count"), is_of("counts", "count")
        (True, False)
    """
    return table == state or table.startswith(state + STAMPS)


def check_there(metadata: CheckpointMetadata, uid: str, state: str | None) -> None:
    known = {*metadata.operators, *metadata.state_types, *metadata.enumerators}
    if uid not in known:
        listed = ", ".join(sorted(map(repr, known))) or "no state"
        raise UsageError(f"the snapshot has no state of operator {uid!r}; it has {listed}")
    if state is None:
        return
    keyed = keyed_handles(metadata.operators.get(uid, []))
    tables = {table.name for each in keyed for table in each.tables or ()}
    names = {*metadata.state_types.get(uid, {}), *tables}
    if state not in names:
        raise UsageError(
            f"operator {uid!r} of the snapshot has no state {state!r}; it has "
            f"{', '.join(sorted(map(repr, names))) or 'none'}"
        )


def with_tables(keyed: KeyedStateHandle, tables: Sequence[StateTable]) -> KeyedStateHandle:
    size = sum(table.length for table in tables)
    return KeyedStateHandle(keyed.first_group, keyed.last_group, Inline(b""), size, tables=list(tables))


def new_metadata(max_parallelism: int, time_ms: int, fingerprint: str) -> CheckpointMetadata:
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
    left_out = set(names)
    return {name: value for name, value in found.items() if name not in left_out}
