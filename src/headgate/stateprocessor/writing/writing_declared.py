"""Which state a DataFrame is written for: as a function declares it, or as an annotation says."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final, get_origin

import pyarrow as pa

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
from headgate.common.keys.key_types import Shape, fits, hint_words, shape_words
from headgate.state.targets import target_of
from headgate.state.ttl.declared import stamps_name, with_stamps
from headgate.stateprocessor.writing.writing_rows import Convert, StampColumn, ValueColumn
from headgate.stateprocessor.writing.writing_tables import RowColumn

Declared = RichFunction | type
"""A function that declares a state, its class, or what the state is annotated with."""

_HANDLES: Final[Mapping[Hashable, Callable[[], Declaration]]] = {
    ValueState: value_state,
    ListState: list_state,
    MapState: map_state,
}


def check_keys(declared: Declared, uid: str, shape: Shape) -> None:
    """Refuse key columns that give no keys of the type that a function declares; annotations declare none."""
    cls = declared if isinstance(declared, type) else type(declared)
    found = keys_of_function(cls)
    if found is not None and not fits(shape, found.hint):
        raise UsageError(
            f"the DataFrame gives operator {uid!r} keys of type {shape_words(shape)}, and {found.teller} "
            f"declares keys of type {hint_words(found.hint)}; cast the key columns, or name others"
        )


def descriptor_of(declared: Declared, state: str) -> StateDescriptor:
    """The declared state of that name.

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
    """The tables of a state: its values, and before them its stamps where it has a time to live.

    `written_at` is the column that tells when a key was last written; None: now.
    """
    kept = with_stamps({descriptor.name: descriptor})
    schema = target_of(kept[descriptor.name]).schema
    values = ValueColumn(descriptor.name, schema, column, types[column], shipped(descriptor), convert)
    found: dict[str, RowColumn] = {}
    if descriptor.ttl is not None:
        stamps = stamps_name(descriptor)
        at = None if written_at is None else types[written_at]
        found[stamps] = StampColumn(
            values, target_of(kept[stamps]).schema, written_at, at, int(clock.time() * 1000)
        )
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
    """What tasks need of a declaration: how its values are stored, and nothing of the program around it."""
    return replace(descriptor, default=_none, function=None, ttl=None)


def _none() -> None:
    """In place of a default, which nobody asks for here."""
