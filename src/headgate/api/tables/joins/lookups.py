"""Joins with a table that every subtask has all of: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from headgate.api.checking.arguments import refuse_arity, refuse_unawaited
from headgate.api.site import user_site
from headgate.api.streams.async_calls import Retry
from headgate.api.tables.checked_columns import checked, place_of
from headgate.api.tables.joins.kinds_and_bounds import kind_of
from headgate.api.tables.program_functions import Columns, declared
from headgate.common.errors import PlanError
from headgate.common.retries import Retries
from headgate.common.time import duration_ms
from headgate.relational.joins.loading import Loading
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import Lookup, Relation
from headgate.relational.schema import Field, Schema, schema_of, shown
from headgate.relational.spark_types import text_of

_PATIENT: Final = Retry(
    attempts=4, delay_ms=1000, factor=2, delay_max_ms=60_000, on=Exception, if_result=None
)
"""What holds where a program says nothing."""


def lookup(
    child: Relation, table: pa.Table, on: Sequence[str], how: str, loading: Loading | None = None
) -> Lookup:
    """Return the plan of a join with a `table` that every subtask has, by the equal columns `on`, for
    :meth:`Table.lookup`. `loading` says how subtasks load it, if they do; `table` has no rows then.
    PlanError: a column is wrong, or `how` is not one that such a join has.
    """
    where = f"lookup() ({user_site()})"
    kind = kind_of(where, how)
    if kind in ("right", "full"):
        raise PlanError(
            f"{where}: how is {how!r}, for which every subtask would have to know what the others found; "
            "expected inner, left, semi or anti"
        )
    if not isinstance(table, pa.Table):
        raise PlanError(
            f"{where} got {type(table).__name__}; expected a pyarrow.Table, such as dataframe.toArrow(), or "
            "a function that returns one"
        )
    if not on:
        raise PlanError(f"{where} got no columns in on; name those that are equal")
    theirs = checked("lookup", lambda: schema_of(table.schema))
    names = [child.schema.names[place_of(child, "lookup", name)] for name in on]
    for name in names:
        _check_key(where, name, child.schema, theirs)
    kinds = {name: child.schema.fields[child.schema.place(name)].type for name in names}
    columns = [table.column(field.name).cast(kinds.get(field.name, field.type)) for field in theirs]
    others = [] if kind in ("semi", "anti") else [field for field in theirs if field.name not in names]
    twice = [field.name for field in others if field.name in child.schema.names]
    if twice:
        raise PlanError(
            f"{where}: both tables have a column {twice[0]!r} that is not joined by; rename one of them"
        )
    made = [Field(each.name, each.type, each.nullable or kind == "left") for each in others]
    changes = child.schema.fields[len(shown(child.schema)) :]
    schema = Schema((*shown(child.schema), *made, *changes), child.schema.event_time)
    rows = pa.table(columns, names=theirs.names).select([*names, *(field.name for field in others)])
    return Lookup(schema, child, rows.combine_chunks(), tuple(names), kind, loading)


def _check_key(where: str, name: str, mine: Schema, theirs: Schema) -> None:
    if name not in theirs.names:
        raise PlanError(
            f"{where}: the table that is looked up has no column {name!r}; it has {', '.join(theirs.names)}"
        )
    kinds = [schema.fields[schema.place(name)].type for schema in (mine, theirs)]
    if not can_be_key(kinds[0]):
        raise PlanError(f"{where}: {name} is {text_of(kinds[0])}, by which rows cannot be joined")
    if kinds[0] != kinds[1] and not (pa.types.is_integer(kinds[0]) and pa.types.is_integer(kinds[1])):
        raise PlanError(
            f"{where}: {name} is {text_of(kinds[0])} here and {text_of(kinds[1])} in the table that is "
            "looked up; cast one of them"
        )


def loading_of(
    child: Relation,
    function: Callable[[], object],
    schema: Columns | None,
    refresh: str | int | None,
    retry: Retry | None,
) -> Loading:
    """Return how the rows of a lookup for `child` are loaded by a function of the program. PlanError: an
    argument is wrong, or rows of `child` are corrected: a row that is taken back would find other rows.
    """
    where = f"lookup() ({user_site()})"
    if child.schema.updating:
        raise PlanError(
            f"{where}: rows of the table are corrected as more come, and one that is taken back might find "
            "other rows than it found when it came; give a pyarrow.Table, which never changes"
        )
    refuse_arity(where, function)
    refuse_unawaited("lookup", function)
    if schema is None:
        raise PlanError(
            f"{where}: the columns that the function returns are not known before it is called; give them as "
            'schema=, such as "currency string, rate double"'
        )
    arrow = declared("lookup", schema).to_arrow()
    try:
        every = None if refresh is None else duration_ms(refresh, "refresh")
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from None
    if every == 0:
        raise PlanError(f"{where} got refresh={refresh!r}; expected a duration above 0, or None for never")
    given: object = _PATIENT if retry is None else retry
    if not isinstance(given, Retry) or given.if_result is not None:
        raise PlanError(f"{where} got retry={retry!r:.80}; expected hg.retry(...) without if_result, or None")
    retries = Retries(given.attempts, given.delay_ms, given.factor, given.delay_max_ms)
    on = given.on if isinstance(given.on, tuple) else (given.on,)
    return Loading(function, arrow, every, retries, on, user_site())


def refuse_loading(schema: object, refresh: object) -> None:
    """Raise PlanError if `schema` or `refresh` came with a table that never changes."""
    for name, given in (("schema", schema), ("refresh", refresh)):
        if given is not None:
            raise PlanError(
                f"lookup() ({user_site()}) got {name}={given!r:.80} with a table, which never changes; give "
                "a function that returns the table, to be called again and again"
            )
