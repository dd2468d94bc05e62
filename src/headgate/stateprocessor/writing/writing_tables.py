"""What a task of Spark does: the sorted rows of one range of key groups become a table of the savepoint.

An attempt's file has a name of its own. Only the row that an attempt gives back makes its file part of the
savepoint, and Spark keeps the rows of one attempt; what others leave is removed by whoever collects the rows.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.checkpoint.layout import table_name
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import HeadgateError, InternalError, UsageError
from headgate.common.keys.keygroups import key_group_range, operator_index_for_key_group, shortened
from headgate.common.plain_data import Description, text_in
from headgate.state.canonical.table_layout import TIMERS, VERSION, TableInfo, row_of
from headgate.state.canonical.writer import TableWriter
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.rocksdb.local_files import FileParts
from headgate.stateprocessor.spark_errors import ToldError
from headgate.stateprocessor.writing.writing_rows import KeyRows, Sizes, ValueRows

RESULT: Final = (
    "index int, state string, file string, length long, crc32 long, entries long, error string, text string"
)
"""Columns of what a task gives back: its table, or the class of an error and its message."""
_RESULT_TYPES: Final = pa.schema(
    [
        ("index", pa.int32()),
        ("state", pa.string()),
        ("file", pa.string()),
        ("length", pa.int64()),
        ("crc32", pa.int64()),
        ("entries", pa.int64()),
        ("error", pa.string()),
        ("text", pa.string()),
    ]
)


class TableRow(ToldError):
    """What a task gives back of a table that it has written, or of a refusal."""

    index: int
    state: str
    file: str
    length: int
    crc32: int
    entries: int


class RowColumn(Protocol):
    """Where what a key has is; see `writing_rows.ValueColumn`."""

    @property
    def schema(self) -> Description:
        """Kind and description of the serializers."""
        ...

    def rows(self) -> ValueRows:
        """How it comes out of the columns."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where tables go, and for how many key groups and subtasks they are; picklable."""

    uri: str
    settings: StorageSettings
    max_parallelism: int
    parallelism: int

    def named(self, uid: str, state: str, index: int) -> str:
        """A name that no other attempt uses."""
        whole = table_name(uid, state, index)
        return f"{whole.removesuffix('.parquet')}-{secrets.token_hex(4)}.parquet"


@dataclass(frozen=True, slots=True)
class TableTask:
    """The table of one state, and of the stamps beside it; picklable.

    Attributes:
        outputs: name of a state (`canonical.layout.TIMERS` for timers) to where what a key has is.
        distinct: columns beside the keys that tell rows of one key apart.
    """

    uid: str
    outputs: Mapping[str, RowColumn]
    keys: Sequence[str]
    key_types: Sequence[pa.DataType]
    distinct: Sequence[str]
    place: Place

    @property
    def shown(self) -> str:
        """For messages."""
        state = list(self.outputs)[-1]
        what = "timers" if state == TIMERS else f"state {state!r}"
        return f"{what} of operator {self.uid!r}"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `DataFrame.mapInArrow`: gives one row for each table where there are entries, or an error."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            yield result_of(lambda: self._written(first, filled), self.shown)

    def _written(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> list[TableRow]:
        keys, place = KeyRows(self.keys, self.key_types), self.place
        groups = keys.groups(keys.columns(first), place.max_parallelism)
        index = operator_index_for_key_group(place.max_parallelism, place.parallelism, int(groups[0]))
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-table-")))
            order = _Order(keys, place, index, self.distinct)
            tables = []
            for number, (state, column) in enumerate(self.outputs.items()):
                values = column.rows()
                info = table_info_of(state, values.schema, keys.description, place, index)
                table = TableFile(info, folder / str(number))
                stack.callback(table.close)
                tables.append((table, values))
            for batch in chain([first], rest):
                columns = order.checked(batch)
                for table, values in tables:
                    table.writer.add_rows(columns.with_values(values.arrays(batch), table.writer.schema))
            return [table.stored(place, self.uid, index, order.entries) for table, _ in tables]


class TableFile:
    """A table on the local disk, on its way to the savepoint."""

    def __init__(self, info: TableInfo, path: Path) -> None:
        self._path, self._stream = path, path.open("wb")
        self.writer = TableWriter(info, self._stream)

    def stored(self, place: Place, uid: str, index: int, entries: int) -> TableRow:
        """The table is complete: store it durably; gives what is told of it."""
        written = self.writer.finish()
        self._stream.close()
        name = place.named(uid, written.info.name, index)
        open_disk(place.uri, place.settings).create(name, FileParts(self._path))
        return TableRow(
            index=index,
            state=written.info.name,
            file=name,
            length=written.length,
            crc32=written.crc32,
            entries=entries,
        )

    def close(self) -> None:
        """Let go of it."""
        self.writer.close()
        self._stream.close()


def table_info_of(
    state: str, schema: Description, key: Description | None, place: Place, index: int
) -> TableInfo:
    """What the file of one subtask's table says of itself."""
    first, last = key_group_range(place.max_parallelism, place.parallelism, index)
    return TableInfo(
        format=VERSION,
        name=state,
        kind=text_in(schema, "kind"),
        rows_are=row_of(schema),
        schema=schema,
        key_schema=KEY_SERIALIZER.describe(),
        key=key,
        max_parallelism=place.max_parallelism,
        first_group=first,
        last_group=last,
    )


def result_of(work: Callable[[], Sequence[TableRow]], what: str) -> pa.RecordBatch:
    """What a task gives back of its work: a row of :data:`RESULT`; errors of ours are told in it.

    An exception would be told by Spark as pages of text, after the task was tried several times.
    """
    try:
        return pa.RecordBatch.from_pylist(work(), schema=_RESULT_TYPES)
    except HeadgateError as error:
        told = {"error": type(error).__name__, "text": f"{what}: {error}"}
        return pa.RecordBatch.from_pylist([told], schema=_RESULT_TYPES)


class _Checked(NamedTuple):
    """The key columns of one batch, found in order."""

    groups: NDArray[np.int32]
    key: pa.Array

    def with_values(self, found: tuple[Sizes | None, list[pa.Array]], schema: pa.Schema) -> pa.RecordBatch:
        """A batch of the table: each key as often as what it has takes rows."""
        sizes, values = found
        groups, key = self
        if sizes is not None:
            repeat = np.repeat(np.arange(len(key)), sizes)
            key, groups = key.take(pa.array(repeat)), groups[repeat]
        nothing = [pa.nulls(len(key), pa.binary()), pa.nulls(len(key), pa.string())]
        return pa.RecordBatch.from_arrays([pa.array(groups), key, *nothing, *values], schema=schema)


class _Order:
    """Watches that rows come by key group, and each key once."""

    def __init__(self, keys: KeyRows, place: Place, index: int, distinct: Sequence[str]) -> None:
        self._keys, self._max_parallelism = keys, place.max_parallelism
        self._range = key_group_range(place.max_parallelism, place.parallelism, index)
        self._distinct, self._last, self._last_group = distinct, list[pa.Array](), self._range[0]
        self.entries = 0

    def checked(self, batch: pa.RecordBatch) -> _Checked:
        """The keys of a batch."""
        columns = self._keys.columns(batch)
        groups = self._keys.groups(columns, self._max_parallelism)
        self._check_order(groups)
        self._check_distinct([*columns, *(batch.column(name) for name in self._distinct)])
        self.entries += len(groups)
        return _Checked(groups, self._keys.array(columns))

    def _check_order(self, groups: NDArray[np.int32]) -> None:
        """What Spark has sorted by is what the program that restores will look for."""
        first, last = int(groups[0]), int(groups[-1])
        if first < self._last_group or last > self._range[1] or (np.diff(groups) < 0).any():
            raise InternalError(
                f"Spark gave rows of key groups {first} to {last} for the range {self._range[0]} to "
                f"{self._range[1]}, or not in their order; please report this"
            )
        self._last_group = last

    def _check_distinct(self, columns: list[pa.Array]) -> None:
        joined = (
            [pa.concat_arrays([last, column]) for last, column in zip(self._last, columns, strict=True)]
            if self._last
            else columns
        )
        self._last = [column.slice(len(column) - 1) for column in columns]
        same = _adjacent_equal(joined[0])
        for column in joined[1:]:
            same = pc.and_(same, _adjacent_equal(column))
        place = pc.index(same, pa.scalar(True)).as_py()
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
