"""Converts rows of a DataFrame to rows of a state's table: the key columns, and what the key has.

A row of the DataFrame is all that one key has of a state: a value, a complete list, a complete map; or it is
one timer. So any batch of rows can be converted alone: no key's list or map goes on in the next batch.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, get_origin

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.api.checking.inference import keys_of_function
from headgate.api.declared.declarations import Declaration
from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    StateDescriptor,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.api.functions import RichFunction
from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.common.keys.key_types import Shape, fits, hint_words, shape_of, shape_words
from headgate.common.keys.keygroups import ALLOWED_KEYS, key_groups_of_arrow
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.stored_values import open_batch
from headgate.state.canonical.key_columns import KEY, key_description
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY, row_of, stored_type
from headgate.state.canonical.value_columns import MAP_KEY, VALUE, values_of
from headgate.state.targets import target_of
from headgate.state.ttl.declared import stamps_name, with_stamps
from headgate.stateprocessor.writing.writing_columns import fit_of, lengths_of, parts_of_map

Convert = Callable[[Any], Any]
"""Converts a value of the column, as Python has it, to a value of the state."""
KeyPart = int | str | bytes | bool | float | dt.date
Sizes = NDArray[np.int64]
Rows = tuple[Sizes | None, list[pa.Array]]
"""The number of table rows of each key (None: one each), and the columns after `namespace`."""
RowsOf = Callable[[pa.RecordBatch], Rows]
"""Converts a batch of the DataFrame to table rows."""

_SAMPLES: Final[Sequence[tuple[Callable[[pa.DataType], bool], KeyPart]]] = (
    (lambda given: pa.types.is_integer(given) and given != pa.uint64(), 0),
    (lambda given: pa.types.is_string(given) or pa.types.is_large_string(given), ""),
    (lambda given: pa.types.is_binary(given) or pa.types.is_large_binary(given), b""),
    (pa.types.is_boolean, False),
    (pa.types.is_floating, 0.0),
    (pa.types.is_timestamp, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    (pa.types.is_date32, dt.date(1970, 1, 1)),
)
"""Tests of a key column's Arrow type, each with an example of the keys that it is read as."""


class KeyRows:
    """Reads key columns of a DataFrame as the keys of ``key_by()`` would be, several as a tuple.

    UsageError: no key has a column's type. `shape` is the type of the keys, `description` its stored form.
    """

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
        return [batch.column(name) for name in self._names]

    def groups(self, columns: Sequence[pa.Array], max_parallelism: int) -> NDArray[np.int32]:
        """Return the key group of each row of the key `columns`; UsageError if a key is null or NaN."""
        for name, column in zip(self._names, columns, strict=True):
            if column.null_count:
                raise UsageError(
                    f"key column {name!r} holds null; fill or filter it, as no record can have it"
                )
        return key_groups_of_arrow(columns[0] if self._one else list(columns), max_parallelism)

    def array(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the keys in key `columns` as one array: the column `key` of the state's table."""
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


class RowColumn(Protocol):
    """Protocol: makes one table of state (values, timers or last-access times) of a DataFrame's columns."""

    @property
    def schema(self) -> Description:
        """The stored schema of the state: its kind and the descriptions of its serializers."""

    def rows(self) -> RowsOf:
        """Return a function that converts batches of the DataFrame to rows of the state's table.

        UsageError: a column's type does not fit; from the function: a value does not fit.
        """


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """Makes the table of a state's values of the DataFrame's `column`; picklable, to be used in tasks.
    `type`: Arrow type of the column; `convert` makes the state's value of the column's, None: types must fit.
    """

    state: str
    schema: Description
    column: str
    type: pa.DataType
    descriptor: StateDescriptor | None = None  # of the declared state; needed for `convert` only
    convert: Convert | None = None  # None: the column has the state's type

    def rows(self) -> RowsOf:
        if self.convert is not None and self.descriptor is not None:
            return _converted(self.schema, self.descriptor, self.column, self.convert)
        rows_are = row_of(self.schema)
        if rows_are == BYTES:
            raise UsageError(
                f"state {self.state!r} has a serializer of its own; give convert=, a function that makes the "
                f"state's value of column {self.column!r}"
            )
        if rows_are in (ELEMENT, ENTRY):
            return _spread(self.schema, rows_are == ENTRY, self.column, self.type)
        (stored,) = mappings_in(self.schema, "of")
        fit, fields = fit_of(stored, self.type, self.column), ArrowColumn(VALUE, stored).fields
        return lambda batch: (None, _with_raw(fit(batch.column(self.column)), fields))


def _with_raw(typed: pa.Array, fields: Sequence[pa.Field]) -> list[pa.Array]:
    return [typed, *(pa.nulls(len(typed), field.type) for field in fields[1:])]


def _spread(schema: Description, is_map: bool, name: str, given: pa.DataType) -> RowsOf:
    # A row for each element or entry of a key, and one if there is none.
    if not (pa.types.is_map(given) if is_map else pa.types.is_list(given)):
        kind = "map" if is_map else "list"
        raise UsageError(
            f"column {name!r} is of type {given}; a {kind} state needs a column that holds the whole "
            f"{kind} of a key: collect its rows with groupBy(key) and collect_list or map_from_entries"
        )
    types = [given.key_type, given.item_type] if is_map else [given.value_type]
    parts = [
        (fit_of(stored, type_, f"{name}.{part}"), ArrowColumn(part, stored).fields)
        for stored, type_, part in zip(
            mappings_in(schema, "of"), types, [MAP_KEY, VALUE] if is_map else [VALUE], strict=True
        )
    ]

    def rows(batch: pa.RecordBatch) -> Rows:
        column = batch.column(name)
        if column.null_count:
            raise UsageError(f"column {name!r} holds null; expected an empty list or map, or no row")
        lengths = lengths_of(column).to_numpy(zero_copy_only=False)
        sizes = np.maximum(lengths, 1)
        empty = np.repeat(lengths == 0, sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = pa.array(np.arange(len(first)) - first, pa.int64(), mask=empty)
        take = pa.array(np.cumsum(~empty) - 1, pa.int64(), mask=empty)
        flat = parts_of_map(column) if is_map else (column.flatten(),)
        arrays = [
            array.take(take)
            for (fit, fields), part in zip(parts, flat, strict=True)
            for array in _with_raw(fit(part), fields)
        ]
        return sizes, [places, *arrays]

    return rows


def _converted(schema: Description, descriptor: StateDescriptor, name: str, convert: Convert) -> RowsOf:
    serializer, in_bytes = target_of(descriptor).serializer, row_of(schema) == BYTES
    columns = values_of(row_of(schema), schema)

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"convert= of column {name!r} raised {type(error).__name__} for {value!r:.80}: {error}"
            ) from error

    def rows(batch: pa.RecordBatch) -> Rows:
        values = list(map(converted, batch.column(name).to_pylist()))
        try:
            if in_bytes:
                return None, columns.arrays([serializer.encode_many([value]) for value in values])
            plain = open_batch(stored_type(schema), serializer.encode_checked(values), len(values))
        except UsageError as error:
            raise UsageError(
                f"convert= of column {name!r} gives what state {descriptor.name!r} does not hold: {error}"
            ) from None
        sizes = columns.sizes(plain)
        return None if sizes is None else np.array(sizes), columns.arrays(plain)

    return rows


@dataclass(frozen=True, slots=True)
class TimerColumn:
    """Makes the table of timers of a DataFrame's columns `domain` and `column`, their times; picklable."""

    schema: Description
    domain: str  # the column with "event" or "processing"
    column: str  # int64 of ms since 1970, or timestamps
    type: pa.DataType

    def rows(self) -> RowsOf:
        moments = _moments(self.column, self.type)
        return lambda batch: (None, [batch.column(self.domain).cast(pa.string()), moments(batch)])


def _moments(name: str, given: pa.DataType) -> Callable[[pa.RecordBatch], pa.Array]:
    if not (pa.types.is_integer(given) or pa.types.is_timestamp(given)):
        raise UsageError(
            f"column {name!r} is of type {given}; expected a timestamp, or integers of ms since 1970"
        )

    def moments(batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(name)
        if column.null_count:
            raise UsageError(f"column {name!r} holds null; expected a moment in each row")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column.cast(pa.int64())

    return moments


@dataclass(frozen=True, slots=True)
class LastAccessColumn:
    """Makes the table of a state's last-access times, of a column or of one time for all; picklable.
    They have the shape of the values; those of one key are of one moment. `column` None: `now_ms` for all.
    """

    values: ValueColumn
    schema: Description
    column: str | None  # with the time of a key's last write, as for timers; None: `now_ms` for all
    type: pa.DataType | None
    now_ms: int

    def rows(self) -> RowsOf:
        values, parts = self.values.rows(), mappings_in(self.schema, "of")
        moments = None if self.column is None else _moments(self.column, self.type)
        fields = ArrowColumn(VALUE, parts[-1]).fields
        keys = len(ArrowColumn(MAP_KEY, parts[0]).fields) if row_of(self.schema) == ENTRY else 0

        def rows(batch: pa.RecordBatch) -> Rows:
            sizes, columns = values(batch)
            stamps = np.full(len(batch), self.now_ms) if moments is None else moments(batch).to_numpy()
            if sizes is None:
                return None, _with_raw(pa.array(stamps, pa.int64()), fields)
            places = columns[0]
            empty = places.is_null().to_numpy(zero_copy_only=False)
            repeated = pa.array(np.repeat(stamps, sizes), pa.int64(), mask=empty)
            return sizes, [places, *columns[1 : 1 + keys], *_with_raw(repeated, fields)]

        return rows


# -- as a function or an annotation declares it

Declared = RichFunction | type
"""A function that declares a state, its class, or what the state is annotated with."""

_HANDLES: Final[Mapping[Hashable, Callable[[], Declaration]]] = {
    ValueState: value_state,
    ListState: list_state,
    MapState: map_state,
}


def check_keys(declared: Declared, uid: str, shape: Shape) -> None:
    """Raise UsageError if keys of type `shape` contradict what operator `uid`'s function declares."""
    cls = declared if isinstance(declared, type) else type(declared)
    found = keys_of_function(cls)
    if found is not None and not fits(shape, found.hint):
        raise UsageError(
            f"the DataFrame gives operator {uid!r} keys of type {shape_words(shape)}, and {found.teller} "
            f"declares keys of type {hint_words(found.hint)}; cast the key columns, or name others"
        )


def descriptor_of(declared: Declared, state: str) -> StateDescriptor:
    """Return the descriptor of `state` in a function, its class or its annotation; UsageError: not declared.

    Example:
        >>> import headgate as hg
        >>> descriptor_of(hg.MapState[str, int], "clicks").types
        (<class 'str'>, <class 'int'>)
    """
    make = _HANDLES.get(get_origin(declared) or declared)
    if make is not None:
        declared = type("Annotated", (), {"__annotations__": {state: declared}, state: make()})
    cls = declared if isinstance(declared, type) else type(declared)
    found = declared_state(object.__new__(cls))
    if state not in found:
        listed = ", ".join(map(repr, found)) or "no state"
        raise UsageError(
            f"{cls.__qualname__} declares {listed}, and not {state!r}; give declared= the class of the "
            "function that has the state, or its annotation, such as hg.ValueState[int]"
        )
    return found[state]


def outputs_of(
    descriptor: StateDescriptor,
    column: str,
    types: Mapping[str, pa.DataType],
    convert: Convert | None,
    written_at: str | None,
) -> dict[str, RowColumn]:
    """Return table name -> its maker: first of last-access times, if the state has a TTL, then of values.

    `column` has the values, which `convert` (None: none needed) turns into those of the state; `types` are
    Arrow types of all columns. `written_at`: the column with the time of a key's last write; None: now.
    UsageError: a column does not fit, or `written_at` is given for a state without a TTL.
    """
    kept = with_stamps({descriptor.name: descriptor})
    schema = target_of(kept[descriptor.name]).schema
    values = ValueColumn(descriptor.name, schema, column, types[column], shipped(descriptor), convert)
    found: dict[str, RowColumn] = {}
    if descriptor.ttl is not None:
        stamps = stamps_name(descriptor)
        at = None if written_at is None else types[written_at]
        now_ms = int(clock.time() * 1000)
        found[stamps] = LastAccessColumn(values, target_of(kept[stamps]).schema, written_at, at, now_ms)
    elif written_at is not None:
        raise UsageError(
            f"written_at= names column {written_at!r}, and state {descriptor.name!r} has no time to live; "
            "leave it out, or declare ttl="
        )
    found[descriptor.name] = values
    for each in found.values():
        each.rows()
    return found


def shipped(descriptor: StateDescriptor) -> StateDescriptor:
    """Return a state's descriptor for Spark's tasks: how values are stored, no default, function or TTL."""
    return replace(descriptor, default=_none, function=None, ttl=None)


def _none() -> None:
    """Stand in for the state's default, which Spark's tasks never need."""
