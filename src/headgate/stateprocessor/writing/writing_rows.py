"""Rows of a DataFrame as rows of one table of state: key columns, and what the key has.

A row of the DataFrame is all that one key has: a value, a whole list, a whole map. So a batch of it can be
taken as it comes, and what it becomes ends between two keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import UsageError
from headgate.common.keys.key_types import shape_of
from headgate.common.keys.keygroups import ALLOWED_KEYS, key_groups_of_arrow
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.stored_values import open_batch
from headgate.state.canonical.key_columns import KEY, key_description
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY, TIMER, row_of, stored_type
from headgate.state.canonical.value_columns import MAP_KEY, VALUE, values_of
from headgate.state.targets import target_of
from headgate.stateprocessor.writing.writing_columns import fit_of, lengths_of, parts_of_map

Convert = Callable[[Any], Any]
"""Makes a value of a state of a value of the column, as Python has it."""
KeyPart = int | str | bytes | bool | float | dt.date
Sizes = NDArray[np.int64]

_SAMPLES: Final[Sequence[tuple[Callable[[pa.DataType], bool], KeyPart]]] = (
    (lambda given: pa.types.is_integer(given) and given != pa.uint64(), 0),
    (lambda given: pa.types.is_string(given) or pa.types.is_large_string(given), ""),
    (lambda given: pa.types.is_binary(given) or pa.types.is_large_binary(given), b""),
    (pa.types.is_boolean, False),
    (pa.types.is_floating, 0.0),
    (pa.types.is_timestamp, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    (pa.types.is_date32, dt.date(1970, 1, 1)),
)
"""Which Arrow type is read as which kind of key, told by an example."""


class KeyRows:
    """Key columns of a DataFrame as the keys of a stream."""

    def __init__(self, names: Sequence[str], types: Sequence[pa.DataType]) -> None:
        self._names = list(names)
        samples = [_sample(name, given) for name, given in zip(names, types, strict=True)]
        self._one = len(samples) == 1
        sample = samples[0] if self._one else tuple(samples)
        self.shape = shape_of(sample)
        description = key_description(sample)
        assert description is not None, "every kind of key in the list has a column"
        self.description = description
        parts = [description] if self._one else mappings_in(description, "of")
        self._fits = [
            fit_of(part, given, name) for part, given, name in zip(parts, types, names, strict=True)
        ]

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of a batch."""
        return [batch.column(name) for name in self._names]

    def groups(self, columns: Sequence[pa.Array], max_parallelism: int) -> NDArray[np.int32]:
        """The key group of each row."""
        for name, column in zip(self._names, columns, strict=True):
            if column.null_count:
                raise UsageError(
                    f"key column {name!r} holds null; fill or filter it, as no record can have it"
                )
        return key_groups_of_arrow(columns[0] if self._one else list(columns), max_parallelism)

    def array(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The keys as the table's column `key`."""
        fitted = [fit(column) for fit, column in zip(self._fits, columns, strict=True)]
        if self._one:
            return fitted[0]
        return pa.StructArray.from_arrays(
            fitted, fields=list(ArrowColumn(KEY, self.description).fields[0].type)
        )


def _sample(name: str, given: pa.DataType) -> KeyPart:
    for is_so, sample in _SAMPLES:
        if is_so(given):
            return sample
    raise UsageError(
        f"key column {name!r} is of type {given}; expected columns that give {ALLOWED_KEYS}; cast it"
    )


class ValueRows(Protocol):
    """What a key has, out of a batch of the DataFrame."""

    schema: Description
    rows_are: str

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        """How many rows each key takes (None: one), and the table's columns behind `namespace`."""
        ...


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """Where a state's values are; picklable, so that tasks make their :class:`ValueRows` of it.

    Attributes:
        descriptor: of the declared state; needed for `convert` only.
        convert: makes of a value of the column one of the state; None: the column has the state's type.
    """

    state: str
    schema: Description
    column: str
    type: pa.DataType
    descriptor: StateDescriptor | None = None
    convert: Convert | None = None

    def rows(self) -> ValueRows:
        """How the values come out of the column."""
        rows_are = row_of(self.schema)
        if self.convert is not None and self.descriptor is not None:
            return _Converted(self.schema, rows_are, self.descriptor, self.column, self.convert)
        if rows_are == BYTES:
            raise UsageError(
                f"state {self.state!r} has a serializer of its own; give convert=, a function that makes the "
                f"state's value of column {self.column!r}"
            )
        if rows_are in (ELEMENT, ENTRY):
            return _Spread(self.schema, rows_are, self.column, self.type)
        return _Single(self.schema, rows_are, self.column, self.type)


class _Single:
    """A value in one row."""

    def __init__(self, schema: Description, rows_are: str, column: str, given: pa.DataType) -> None:
        self.schema, self.rows_are, self._name = schema, rows_are, column
        stored = mappings_in(schema, "of")[0]
        self._fit, self._fields = fit_of(stored, given, column), ArrowColumn(VALUE, stored).fields

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        return None, _with_raw(self._fit(batch.column(self._name)), self._fields)


def _with_raw(typed: pa.Array, fields: Sequence[pa.Field]) -> list[pa.Array]:
    """A typed column, and an empty one for what would not fit into it."""
    return [typed, *(pa.nulls(len(typed), field.type) for field in fields[1:])]


class _Spread:
    """A list or map: a row for each of its parts, or one without a place if it has none."""

    def __init__(self, schema: Description, rows_are: str, column: str, given: pa.DataType) -> None:
        self.schema, self.rows_are, self._name = schema, rows_are, column
        kind = "list" if rows_are == ELEMENT else "map"
        fits = pa.types.is_map(given) if kind == "map" else pa.types.is_list(given)
        if not fits:
            raise UsageError(
                f"column {column!r} is of type {given}; a {kind} state needs a column that holds the whole "
                f"{kind} of a key: collect its rows with groupBy(key) and collect_list or map_from_entries"
            )
        types = [given.key_type, given.item_type] if kind == "map" else [given.value_type]
        names = [MAP_KEY, VALUE] if kind == "map" else [VALUE]
        self._parts = [
            (fit_of(stored, type_, f"{column}.{name}"), ArrowColumn(name, stored).fields)
            for stored, type_, name in zip(mappings_in(schema, "of"), types, names, strict=True)
        ]

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        column = batch.column(self._name)
        if column.null_count:
            raise UsageError(f"column {self._name!r} holds null; expected an empty list or map, or no row")
        lengths = lengths_of(column).to_numpy(zero_copy_only=False)
        sizes = np.maximum(lengths, 1)
        empty = np.repeat(lengths == 0, sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = pa.array(np.arange(len(first)) - first, pa.int64(), mask=empty)
        take = pa.array(np.cumsum(~empty) - 1, pa.int64(), mask=empty)
        flat = parts_of_map(column) if pa.types.is_map(column.type) else (column.flatten(),)
        arrays = [
            array.take(take)
            for (fit, fields), part in zip(self._parts, flat, strict=True)
            for array in _with_raw(fit(part), fields)
        ]
        return sizes, [places, *arrays]


class _Converted:
    """Values that a function of the user makes, through the state's own serializer."""

    def __init__(
        self, schema: Description, rows_are: str, descriptor: StateDescriptor, column: str, convert: Convert
    ) -> None:
        self.schema, self.rows_are, self._state = schema, rows_are, descriptor.name
        self._serializer, self._name, self._convert = target_of(descriptor).serializer, column, convert
        self._values = values_of(rows_are, schema)

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        values = [self._converted(value) for value in batch.column(self._name).to_pylist()]
        serializer = self._serializer
        try:
            if self.rows_are == BYTES:
                return None, self._values.arrays([serializer.encode_many([value]) for value in values])
            plain = open_batch(stored_type(self.schema), serializer.encode_checked(values), len(values))
        except UsageError as error:
            raise UsageError(
                f"convert= of column {self._name!r} gives what state {self._state!r} does not hold: {error}"
            ) from None
        sizes = self._values.sizes(plain)
        return None if sizes is None else np.array(sizes), self._values.arrays(plain)

    def _converted(self, value: Any) -> Any:
        try:
            return self._convert(value)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"convert= of column {self._name!r} raised {type(error).__name__} for {value!r:.80}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class TimerColumn:
    """Where timers are; as :class:`ValueColumn`.

    Attributes:
        domain: the column that says "event" or "processing".
        column: int64 of ms since 1970, or timestamps.
    """

    schema: Description
    domain: str
    column: str
    type: pa.DataType

    def rows(self) -> ValueRows:
        """How the timers come out of the column."""
        return _Timers(self.schema, self.domain, _Moments(self.column, self.type))


class _Timers:
    """A time domain and a timestamp in each row."""

    rows_are = TIMER

    def __init__(self, schema: Description, domain: str, moments: _Moments) -> None:
        self.schema, self._domain, self._moments = schema, domain, moments

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        domains = batch.column(self._domain).cast(pa.string())
        return None, [domains, self._moments.array(batch)]


class _Moments:
    """A column of moments as ms since 1970."""

    def __init__(self, column: str, given: pa.DataType) -> None:
        self._name = column
        if not (pa.types.is_integer(given) or pa.types.is_timestamp(given)):
            raise UsageError(
                f"column {column!r} is of type {given}; expected a timestamp, or integers of ms since 1970"
            )

    def array(self, batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(self._name)
        if column.null_count:
            raise UsageError(f"column {self._name!r} holds null; expected a moment in each row")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column.cast(pa.int64())


@dataclass(frozen=True, slots=True)
class StampColumn:
    """When the entries of a state with a time to live were written; as :class:`ValueColumn`.

    Attributes:
        column: with the time of a key's last write, as for timers; None: `now_ms` for all.
    """

    values: ValueColumn
    schema: Description
    column: str | None
    type: pa.DataType
    now_ms: int

    def rows(self) -> ValueRows:
        """How the stamps come out of the columns."""
        moments = None if self.column is None else _Moments(self.column, self.type)
        return _Stamps(self.values.rows(), self.schema, moments, self.now_ms)


class _Stamps:
    """Of the same shape as the values; all of one key are of one moment."""

    def __init__(self, values: ValueRows, schema: Description, moments: _Moments | None, now_ms: int) -> None:
        self.schema, self.rows_are = schema, row_of(schema)
        self._values, self._moments, self._now_ms = values, moments, now_ms

    def arrays(self, batch: pa.RecordBatch) -> tuple[Sizes | None, list[pa.Array]]:
        sizes, columns = self._values.arrays(batch)
        rows = len(batch)
        stamps = (
            np.full(rows, self._now_ms) if self._moments is None else self._moments.array(batch).to_numpy()
        )
        parts = mappings_in(self.schema, "of")
        fields = ArrowColumn(VALUE, parts[-1]).fields
        if sizes is None:
            return None, _with_raw(pa.array(stamps, pa.int64()), fields)
        places = columns[0]
        empty = places.is_null().to_numpy(zero_copy_only=False)
        repeated = pa.array(np.repeat(stamps, sizes), pa.int64(), mask=empty)
        keys = ArrowColumn(MAP_KEY, parts[0]).fields if self.rows_are == ENTRY else []
        return sizes, [places, *columns[1 : 1 + len(keys)], *_with_raw(repeated, fields)]
