"""Functions of the program inside tables (`map_batches`, `as_rows`): what they take, and what they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from headgate.api.checking.arguments import refuse_arity, refuse_unawaited
from headgate.api.site import user_site
from headgate.api.tables.updating import refuse_updates
from headgate.common.errors import PlanError
from headgate.relational.relations import Form, Relation, TableFunction
from headgate.relational.schema import Schema, schema_of
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP, WINDOW, fields_named, is_integer

Columns: TypeAlias = "pa.Schema | str"
"""Columns as a program declares them: a ``pyarrow.Schema``, or text such as "user string, price bigint"."""

_FORMS = {"arrow": Form.ARROW, "table": Form.TABLE, "polars": Form.POLARS}


def table_function(
    verb: str, child: Relation, function: Callable[..., object], schema: Columns, form: Form, uid: str | None
) -> TableFunction:
    """Return the plan of a function of batches or rows, for the call `verb` on the table of plan `child`.

    Raises:
        PlanError: `function` is async or no function of one argument, `schema` is wrong, or rows of the table
            are corrected.
    """
    site = user_site()
    if not callable(function):
        raise PlanError(f"{verb}() ({site}) got {function!r}; expected a function")
    refuse_arity(f"{verb}() ({site})", function, "one row" if form is Form.ROWS else "one batch")
    refuse_unawaited(verb, function)
    refuse_updates(verb, child)
    return TableFunction(declared(verb, schema, child.schema.event_time), child, function, form, uid, site)


def declared(verb: str, schema: Columns, time: str | None = None) -> Schema:
    """Return the columns that a function returns, with the event time `time` if one of them can carry it.
    PlanError: `schema` is wrong, which the call `verb` got.
    """
    where = f"{verb}() ({user_site()})"
    try:
        arrow = fields_named(schema) if isinstance(schema, str) else schema
        if not isinstance(arrow, pa.Schema):
            raise PlanError(f"schema is {schema!r}; expected a pyarrow.Schema, or text such as 'n bigint'")
        found = schema_of(arrow)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None
    twice = [name for name in found.names if found.names.count(name) > 1]
    if twice or not found.names:
        raise PlanError(f"{where}: {f'column {twice[0]!r} is there twice' if twice else 'no column'}")
    kinds = {field.name: field.type for field in found}
    return Schema(found.fields, time if time in kinds and _is_time(kinds[time]) else None)


def _is_time(kind: pa.DataType) -> bool:
    return is_integer(kind) or kind in (TIMESTAMP, LOCAL_TIMESTAMP, WINDOW)


def form_of(function: Callable[..., object], frames: str | None) -> Form:
    """Return the form of batches that a function takes: `frames` (PlanError if unknown) or its annotation.

    Example:
        >>> form_of(len, None), form_of(len, "polars")
        (<Form.ARROW: 'arrow'>, <Form.POLARS: 'polars'>)
    """
    if frames is not None:
        if frames not in _FORMS:
            raise PlanError(
                f"map_batches() ({user_site()}) got frames {frames!r}; expected one of {', '.join(_FORMS)}"
            )
        return _FORMS[frames]
    note = _first_annotation(function)
    text = (
        note
        if isinstance(note, str)
        else f"{getattr(note, '__module__', '')}.{getattr(note, '__name__', '')}"
    )
    if text.startswith(("polars", "pl.")) and text.endswith("DataFrame"):
        return Form.POLARS
    return Form.TABLE if text.endswith("Table") else Form.ARROW


def _first_annotation(function: Callable[..., object]) -> object:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built in
        return None
    return parameters[0].annotation if parameters else None
