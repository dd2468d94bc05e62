"""The writing of a savepoint: tables by Spark, what stays by copying, and the metadata last."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import referenced_ranges
from headgate.checkpoint.storage.settings import storage_settings_in_use
from headgate.checkpoint.storage.uris import open_disk, refuse_fleeting
from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.common.files.durable import clock
from headgate.common.format_config import fingerprint
from headgate.common.keys.keygroups import check_parallelism, key_group_range
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.state.canonical.table_layout import TIMERS
from headgate.state.snapshots import (
    CheckpointMetadata,
    Inline,
    KeyedStateHandle,
    OperatorSubtaskState,
    StateTable,
)
from headgate.state.state_names import is_stamps
from headgate.state.targets import target_of
from headgate.stateprocessor.ranges import GROUP, in_ranges
from headgate.stateprocessor.spark_errors import refuse_told, told
from headgate.stateprocessor.writing.savepoint_contents import NewState, SavepointContents, WrittenSavepoint
from headgate.stateprocessor.writing.writing_base import (
    Kept,
    check_there,
    is_of,
    new_metadata,
    opened_as_tables,
    with_tables,
    without,
)
from headgate.stateprocessor.writing.writing_tables import RESULT, Place, TableRow, TableTask
from headgate.stateprocessor.writing.writing_transforms import Transform, TransformTask

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame


Task = Callable[[Iterator["RecordBatch"]], Iterator["RecordBatch"]]

_SLOTS_EACH = 2
"""Ranges of key groups for each of Spark's slots, so that one large range does not hold up all."""


def run(writer: SavepointContents, uri: str) -> WrittenSavepoint:
    """See :meth:`headgate.stateprocessor.writing.savepoint_writer.SavepointWriter.write`."""
    refuse_fleeting(uri)
    with storage_options(writer.options) if writer.options else nullcontext():
        to = open_disk(uri)
        if to.list(""):
            raise UsageError(f"{to.describe()} is not empty; give a folder that is not there yet")
        try:
            return _Writing(writer, to).run()
        except BaseException:
            _remove(to, to.list(""))
            raise


class _Writing:
    """One savepoint under way."""

    def __init__(self, writer: SavepointContents, to: Disk) -> None:
        self._writer, self._to = writer, to
        self._work = f".base-{secrets.token_hex(4)}"
        self._disk: Disk = to
        self._base = self._opened()
        self._entries: dict[str, dict[str, int]] = {}

    def _opened(self) -> CheckpointMetadata:
        writer = self._writer
        if writer.base is None:
            assert writer.max_parallelism is not None, "new() has set it"
            return new_metadata(writer.max_parallelism, int(clock.time() * 1000), fingerprint())
        self._disk, base = opened_as_tables(writer.base, self._to.describe(self._work))
        for uid, state in [*writer.removed, *writer.transforms]:
            check_there(base, uid, state)
        return base

    def run(self) -> WrittenSavepoint:
        made = self._with_new(self._kept())
        # Spark may have tried a task more than once, and each attempt has written a file.
        told, there = {found.file for found in referenced_ranges(made)}, set(self._to.list(""))
        if missing := sorted(told - there):
            raise StorageError(
                f"{self._to.describe(missing[0])} was written by an executor and is not here; give a folder "
                "or an object store that the driver and all executors reach"
            )
        _remove(self._to, there - told)
        if not self._to.create_if_absent(METADATA, encode_metadata(made)):
            raise StorageError(f"{self._to.describe(METADATA)} was written by somebody else meanwhile")
        return WrittenSavepoint(self._to.describe(), made.max_parallelism, self._entries)

    # -- what stays

    def _kept(self) -> CheckpointMetadata:
        """What is left of the existing snapshot, in the new folder."""
        base, writer = self._base, self._writer
        removed = {uid for uid, state in writer.removed if state is None}
        files = Kept(self._disk, self._to)
        operators = {
            uid: files.operator(uid, states, partial(self._stays, uid))
            for uid, states in base.operators.items()
            if uid not in removed
        }
        types = {
            uid: {
                name: schema
                for name, schema in kept.items()
                if not any(is_of(name, gone) for gone in self._removed(uid))
            }
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

    def _removed(self, uid: str) -> set[str]:
        """States that go or are replaced."""
        gone = {state for of, state in self._writer.removed if of == uid and state is not None}
        return gone | {state for of, state in self._writer.states if of == uid}

    def _stays(self, uid: str, table: str) -> bool:
        """Whether a table is copied as it is."""
        writer = self._writer
        return (uid, table) not in writer.transforms and not any(
            is_of(table, state) for state in self._removed(uid)
        )

    # -- what is new

    def _with_new(self, made: CheckpointMetadata) -> CheckpointMetadata:
        for (uid, state), new in self._writer.states.items():
            place = self._place(made, uid, new.frame)
            task = TableTask(uid, new.outputs, new.keys, new.key_types, new.distinct, place)
            made = self._adding(made, uid, place.parallelism, self._computed(new, task))
            schemas = {name: column.schema for name, column in new.outputs.items() if name != TIMERS}
            made = _typed(made, uid, schemas)
            self._entries.setdefault(uid, {}).setdefault(state, 0)
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
            parallelism = self._writer.parallelism or min(made.max_parallelism, _SLOTS_EACH * slots)
        check_parallelism(made.max_parallelism, parallelism)
        return Place(self._to.describe(), storage_settings_in_use(), made.max_parallelism, parallelism)

    def _computed(self, new: NewState, task: TableTask) -> list[TableRow]:
        place = task.place
        rows = in_ranges(new.frame, new.keys, place.max_parallelism, place.parallelism, new.distinct)
        return self._collected(rows.drop(GROUP), task, task.uid)

    def _transformed(self, made: CheckpointMetadata, uid: str, transform: Transform) -> CheckpointMetadata:
        from pyspark.sql import SparkSession

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
        """The rows that tasks give back; a told error is raised."""
        from pyspark.errors import PySparkException

        try:
            found: list[TableRow] = [row.asDict() for row in _mapped(rows, task).collect()]  # type: ignore[misc]
        except PySparkException as error:
            raise OperatingError(
                f"Spark could not compute the state of operator {uid!r}: {told(error)}"
            ) from error
        for row in found:
            refuse_told(row)
        counts = self._entries.setdefault(uid, {})
        for row in found:
            if not is_stamps(row["state"]):
                counts[row["state"]] = counts.get(row["state"], 0) + row["entries"]
        return found

    def _adding(
        self, made: CheckpointMetadata, uid: str, parallelism: int, rows: Iterable[TableRow]
    ) -> CheckpointMetadata:
        """The metadata with new tables."""
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
    """What a task makes of the rows; it gets the columns under their names, whatever these are.

    PySpark looks for each column by its name, as if a dot led into a struct and a backtick quoted.
    """
    names = rows.columns

    def named(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return task(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*(f"_{place}" for place in range(len(names)))).mapInArrow(named, RESULT)


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


def _remove(disk: Disk, names: Iterable[str]) -> None:
    for name in list(names):
        with suppress(StorageError, OSError):
            disk.delete(name)
