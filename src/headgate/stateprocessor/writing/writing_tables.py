"""Tasks of Spark: one writes the sorted rows of a range of key groups as a table, one maps a table's values.

An attempt's file has a name of its own. Only the row that an attempt gives back makes its file part of the
savepoint, and Spark keeps the rows of one attempt; the driver, which collects them, removes the other files.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.checkpoint.layout import table_name
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import HeadgateError, InternalError, UsageError
from headgate.common.keys.keygroups import key_group, key_group_range, operator_index_for_key_group, shortened
from headgate.common.plain_data import Description
from headgate.serde.arrow.stored_values import open_batch
from headgate.state.backend import Entries
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import (
    BYTES,
    TIMERS,
    TableInfo,
    new_table_info,
    row_of,
    stored_type,
)
from headgate.state.canonical.writer import TableWriter
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.local_files import FileParts
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import DeclaredValues
from headgate.state.targets import Target, target_of
from headgate.stateprocessor.spark_errors import ReportedError, RowFormat
from headgate.stateprocessor.writing.writing_rows import Convert, KeyRows, RowColumn, Rows

RESULT: Final = RowFormat("index int, state string, file string, length long, crc32 long, entries long")


class TableRow(ReportedError):
    """The row by which a Spark task reports a table file that it has written, or the error that it met.

    `index` is the subtask's, `length` in bytes, `entries` the number of keys, or of timers.
    """

    index: int
    state: str
    file: str
    length: int
    crc32: int
    entries: int


def name_of_attempt(uid: str, state: str, index: int, mark: str) -> str:
    """Return a file name, with `mark` in it, for a table of subtask `index`; each call gives another name."""
    stem = table_name(uid, state, index).removesuffix(".parquet")
    return f"{stem}-{mark}-{secrets.token_hex(4)}.parquet"


@dataclass(frozen=True, slots=True)
class Place:
    """The new savepoint's URI, storage settings, key groups and subtasks, as tasks need them; picklable."""

    uri: str
    settings: StorageSettings
    max_parallelism: int
    parallelism: int
    mark: str  # in the names of all files of the savepoint's writer

    def table_info(self, state: str, schema: Description, key: Description | None, index: int) -> TableInfo:
        groups = key_group_range(self.max_parallelism, self.parallelism, index)
        return new_table_info(state, schema, key, self.max_parallelism, groups)


@dataclass(frozen=True, slots=True)
class TableTask:
    """Spark task that writes the tables of a state (and its last-access times) of one range; picklable."""

    uid: str
    outputs: Mapping[str, RowColumn]  # by name of the state; `table_layout.TIMERS` for timers
    keys: Sequence[str]
    key_types: Sequence[pa.DataType]
    distinct: Sequence[str]  # columns besides the keys that distinguish rows of one key
    place: Place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row of `RESULT` for each written table, or one for an error; no rows in, no table.

        For `mapInArrow`; `batches` are one partition's rows, sorted by key group. Errors in rows:
        InternalError: not sorted; UsageError: a key is there twice, or a value does not fit.
        """
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            state = list(self.outputs)[-1]
            what = "timers" if state == TIMERS else f"state {state!r}"
            yield result_of(lambda: self._written(first, filled), f"{what} of operator {self.uid!r}")

    def _written(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> list[TableRow]:
        keys, place = KeyRows(self.keys, self.key_types), self.place
        groups = keys.groups(keys.columns(first), place.max_parallelism)
        index = operator_index_for_key_group(place.max_parallelism, place.parallelism, int(groups[0]))
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-table-")))
            order = _Order(keys, place, index, self.distinct)
            tables = []
            for number, (state, column) in enumerate(self.outputs.items()):
                info = place.table_info(state, column.schema, keys.description, index)
                table = TableFile(info, folder / str(number))
                stack.callback(table.close)
                tables.append((table, column.rows()))
            for batch in chain([first], rest):
                groups, key = order.checked(batch)
                for table, rows_of in tables:
                    table.writer.add_rows(_table_rows(groups, key, rows_of(batch), table.writer.schema))
            return [table.stored(place, self.uid, index, order.entries) for table, _ in tables]


class TableFile:
    """A table that a task writes on its local disk, and then stores in the savepoint."""

    def __init__(self, info: TableInfo, path: Path) -> None:
        self._path, self._stream = path, path.open("wb")
        self.writer = TableWriter(info, self._stream)

    def stored(self, place: Place, uid: str, index: int, entries: int) -> TableRow:
        """Finish the table of subtask `index`, store it durably; return a row to report it with `entries`."""
        written = self.writer.finish()
        self._stream.close()
        state = written.info.name
        name = name_of_attempt(uid, state, index, place.mark)
        open_disk(place.uri, place.settings).create(name, FileParts(self._path))
        length, crc32 = written.length, written.crc32
        return TableRow(index=index, state=state, file=name, length=length, crc32=crc32, entries=entries)

    def close(self) -> None:
        self.writer.close()
        self._stream.close()


def result_of(work: Callable[[], Sequence[TableRow]], what: str) -> pa.RecordBatch:
    try:
        return RESULT.batch(work())
    except HeadgateError as error:
        return RESULT.error(error, f"{what}: ")


def _table_rows(groups: NDArray[np.int32], key: pa.Array, found: Rows, schema: pa.Schema) -> pa.RecordBatch:
    sizes, values = found
    if sizes is not None:
        repeat = np.repeat(np.arange(len(key)), sizes)
        key, groups = key.take(pa.array(repeat)), groups[repeat]
    nothing = [pa.nulls(len(key), pa.binary()), pa.nulls(len(key), pa.string())]
    return pa.RecordBatch.from_arrays([pa.array(groups), key, *nothing, *values], schema=schema)


class _Order:
    """Checks in a task that its rows are sorted by key group and have each key once."""

    def __init__(self, keys: KeyRows, place: Place, index: int, distinct: Sequence[str]) -> None:
        self._keys, self._max_parallelism = keys, place.max_parallelism
        self._range = key_group_range(place.max_parallelism, place.parallelism, index)
        self._distinct, self._last, self._last_group = distinct, list[pa.Array](), self._range[0]
        self.entries = 0

    def checked(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int32], pa.Array]:
        columns = self._keys.columns(batch)
        groups = self._keys.groups(columns, self._max_parallelism)
        self._check_order(groups)
        self._check_distinct([*columns, *(batch.column(name) for name in self._distinct)])
        self.entries += len(groups)
        return groups, self._keys.array(columns)

    def _check_order(self, groups: NDArray[np.int32]) -> None:
        first, last = int(groups[0]), int(groups[-1])
        if first < self._last_group or last > self._range[1] or (np.diff(groups) < 0).any():
            raise InternalError(
                f"Spark gave rows of key groups {first} to {last} for the range {self._range[0]} to "
                f"{self._range[1]}, or not in their order; please report this"
            )
        self._last_group = last

    def _check_distinct(self, columns: list[pa.Array]) -> None:
        joined = columns
        if self._last:
            joined = [pa.concat_arrays(pair) for pair in zip(self._last, columns, strict=True)]
        self._last = [column.slice(len(column) - 1) for column in columns]
        place = pc.index(reduce(pc.and_, map(_adjacent_equal, joined)), pa.scalar(True)).as_py()
        if place < 0:
            return
        key = [column[place].as_py() for column in joined[: len(columns) - len(self._distinct)]]
        shown = shortened(key[0] if len(key) == 1 else tuple(key))
        if self._distinct:
            raise UsageError(f"a timer of key {shown} is there twice for the same time; drop duplicates")
        raise UsageError(
            f"key {shown} is there more than once, and a key has one value; aggregate its rows or drop all "
            "but one"
        )


def _adjacent_equal(column: pa.Array) -> pa.BooleanArray:
    return pc.equal(column.slice(1), column.slice(0, len(column) - 1))


# -- transforms


@dataclass(frozen=True, slots=True)
class Transform:
    """A function from old to new values of one state, and the state's declaration before and after it."""

    function: Convert
    before: StateDescriptor
    after: StateDescriptor


@dataclass(frozen=True, slots=True)
class TransformTask:
    """Spark task that applies the user's function to every value of one state, under the same keys.

    `source`: URI of the old savepoint; `tables`: subtask index -> its key groups and old table. Picklable.
    """

    uid: str
    transform: Transform
    source: str
    tables: dict[int, tuple[tuple[int, int], StateTable]]
    place: Place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shown = f"state {self.transform.before.name!r} of operator {self.uid!r}"
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield result_of(partial(self._written, index), shown)

    def _written(self, index: int) -> list[TableRow]:
        name = self.transform.after.name
        new = target_of(self.transform.after)
        parts = self._parts(index, new)
        first = next(parts)
        info = self.place.table_info(name, new.schema, key_description(first.keys[0]), index)
        with tempfile.TemporaryDirectory(prefix="headgate-table-") as folder:
            table, entries = TableFile(info, Path(folder) / "table"), len(first.keys)
            try:
                table.writer.add(first)
                for part in parts:
                    table.writer.add(part)
                    entries += len(part.keys)
                return [table.stored(self.place, self.uid, index, entries)]
            finally:
                table.close()

    def _parts(self, index: int, new: Target) -> Iterator[Entries]:
        groups, table = self.tables[index]
        old = target_of(self.transform.before)
        keyed = KeyedStateHandle(*groups, Inline(b""), table.length, tables=[table])
        disk = open_disk(self.source, self.place.settings)
        declared = DeclaredValues({table.name: old})
        for chunk in stored_chunks(DiskFiles(disk), keyed, declared, self.place.max_parallelism):
            values = [self._new(key, value) for key, value in zip(chunk.keys, chunk.values, strict=True)]
            group = key_group(chunk.keys[0], self.place.max_parallelism)
            yield Entries(group, chunk.keys, _plain(new, values), chunk.size)

    def _new(self, key: Hashable, value: Any) -> Any:
        try:
            return self.transform.function(value)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"the function raised {type(error).__name__} for key {shortened(key)}: {error}"
            ) from error


def _plain(target: Target, values: list[Any]) -> list[Any]:
    if row_of(target.schema) == BYTES:
        return [target.serializer.encode_many([value]) for value in values]
    stored = target.serializer.encode_checked(values)
    return open_batch(stored_type(target.schema), stored, len(values))
