# ruff: noqa: S608 - names are drawn, not entered
"""The same plan as a query of DuckDB, and its answers for the first rows of each input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import duckdb
import pyarrow as pa

from sim.plans import plan as p
from sim.plans.program import TYPES

_SETS: Final = {
    "union": "UNION ALL",
    "intersect": "INTERSECT",
    "intersect_all": "INTERSECT ALL",
    "subtract": "EXCEPT",
    "except_all": "EXCEPT ALL",
}
_SQL: Final = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}


@cache
def _memory() -> duckdb.DuckDBPyConnection:
    # Opening one takes longer than most answers. Each plan has tables and views of its own connection.
    return duckdb.connect(config={"threads": 1})


class Answers:
    """Answers of a plan by DuckDB; to be closed."""

    def __init__(self, plan: p.Plan) -> None:
        self.plan = plan
        self._database = _memory().cursor()
        for uid, columns in plan.inputs.items():
            arrays = [
                pa.array([row[at] for row in plan.rows[uid]], TYPES[column.kind])
                for at, column in enumerate(columns)
            ]
            whole = pa.table(
                [*arrays, pa.array(range(len(plan.rows[uid])))], [*(c.name for c in columns), "row_place"]
            )
            self._database.register(f"arrow_{uid}", whole)
            self._database.execute(f"CREATE TEMP TABLE all_{uid} AS SELECT * FROM arrow_{uid}")
        self._queries = {uid: query(plan, uid) for uid in plan.sinks}
        self._known: dict[tuple[str, tuple[tuple[int, ...], ...]], Counter[str]] = {}

    def close(self) -> None:
        """Drop the tables of the plan."""
        self._database.close()

    def of(self, uid: str, read: Mapping[str, Mapping[int, int]]) -> Counter[str]:
        """The rows of node `uid`, of the first `read` rows of each split of each input."""
        plan = self.plan
        wanted = [
            (
                uid_of,
                tuple(
                    start * size + row
                    for start, rows in sorted(read.get(uid_of, {}).items())
                    for row in range(rows)
                ),
            )
            for uid_of, size in plan.splits.items()
        ]
        key = uid, tuple(places for _, places in wanted)
        if key not in self._known:
            for uid_of, places in wanted:
                among = ", ".join(map(str, places)) or "-1"
                self._database.execute(
                    f"CREATE OR REPLACE TEMP VIEW {uid_of} AS "
                    f"SELECT * FROM all_{uid_of} WHERE row_place IN ({among})"
                )
            found = self._database.execute(self._queries[uid]).fetchall()
            self._known[key] = Counter(map(shown, found))
        return self._known[key]


def shown(values: Iterable[Any]) -> str:
    """A row that can be compared: NaN is equal to itself, and both zeros are equal."""
    return repr(tuple(0.0 if value == 0 and isinstance(value, float) else value for value in values))


def query(plan: p.Plan, uid: str) -> str:
    """The query of a node's rows."""
    parts = [f"{node.uid} AS ({_node(node)})" for node in plan.nodes]
    names = ", ".join(column.name for column in plan.columns(uid))
    return f"WITH {', '.join(parts)} SELECT {names} FROM {uid}"


def _node(node: p.Node) -> str:
    of = node.inputs[0]
    match node:
        case p.Chosen():
            where = "" if node.condition is None else f" WHERE {_condition(node.condition)}"
            return f"SELECT {_listed(node.computed)} FROM {of}{where}"
        case p.United():
            sides = zip(node.inputs, node.sides, strict=True)
            left, right = (f"SELECT {_listed(side)} FROM {table}" for table, side in sides)
            return f"{left} {_SETS[node.how]} {right}"
        case p.Different():
            return f"SELECT DISTINCT {_listed(node.computed)} FROM {of}"
        case p.Grouped():
            found = [f"{_aggregate(each)} AS {each.name}" for each in node.aggregates]
            keys = ", ".join(_computed(key) for key in node.keys)
            names = [f"{_computed(key)} AS {key.name}" for key in node.keys]
            by = f" GROUP BY {keys}" if keys else ""
            return f"SELECT {', '.join([*names, *found])} FROM {of}{by} HAVING count(*) > 0"
        case p.Joined():
            left, right = (
                f"(SELECT {_listed((*keys, *others))} FROM {table})"
                for table, keys, others in zip(node.inputs, node.keys, node.others, strict=True)
            )
            using = ", ".join(key.name for key in node.keys[0])
            if node.where is None:
                return f"SELECT * FROM {left} AS l {node.how} JOIN {right} AS r USING ({using})"
            alone = node.how in ("semi", "anti")
            names = [key.name for key in node.keys[0]]
            keys = [f"l.{name}" if alone else f"coalesce(l.{name}, r.{name}) AS {name}" for name in names]
            others = [each.name for side in node.others[: 1 if alone else 2] for each in side]
            equal = " AND ".join(f"l.{name} = r.{name}" for name in names)
            on = f"{equal} AND {' '.join(node.where)}"
            return (
                f"SELECT {', '.join([*keys, *others])} FROM {left} AS l {node.how} JOIN {right} AS r ON {on}"
            )
        case p.First():
            inner = f"SELECT {_listed((*node.keys, *node.others))} FROM {of}"
            order = [(name, down != (node.keep == "last")) for name, down in node.order]
            place = f"row_number() OVER ({_partition(node.keys, order)}) AS {node.rank or 'place'}"
            names = ", ".join(column.name for column in node.columns)
            ranked = f"SELECT *, {place} FROM ({inner})"
            return f"SELECT {names} FROM ({ranked}) WHERE {node.rank or 'place'} <= {node.n}"
        case p.Over():
            inner = f"SELECT {_listed((*node.keys, *node.others))} FROM {of}"
            before = "UNBOUNDED" if node.preceding is None else str(node.preceding)
            frame = f"ROWS BETWEEN {before} PRECEDING AND CURRENT ROW"
            over = f"OVER ({_partition(node.keys, node.order)} {frame})"
            found = [_aggregate(each, f" {over}") + f" AS {each.name}" for each in node.aggregates]
            return f"SELECT *, {', '.join(found)} FROM ({inner})"
    raise AssertionError(node)


def _partition(keys: Sequence[p.Computed], order: Sequence[tuple[str, bool]]) -> str:
    by = ", ".join(f"{name} {'DESC NULLS LAST' if down else 'ASC NULLS FIRST'}" for name, down in order)
    return f"PARTITION BY {', '.join(key.name for key in keys)} ORDER BY {by}"


def _listed(found: Sequence[p.Computed]) -> str:
    return ", ".join(f"{_computed(each)} AS {each.name}" for each in found)


def _computed(each: p.Computed) -> str:
    of = each.of
    match each.how:
        case "plus":
            return f"({of} + {each.number})"
        case "modulo":
            return f"({of} % {each.number})"
        case "twice":
            return f"({of} * 2.0::DOUBLE)"
        case "known":
            return f"(CASE WHEN {of} IS NOT NULL THEN 1 ELSE 0 END)::BIGINT"
        case "length":
            return f"length({of})::BIGINT"
        case "filled" if each.kind == "float":
            return f"coalesce(CASE WHEN isnan({of}) THEN 9.0::DOUBLE ELSE {of} END, -9.0::DOUBLE)"
        case "filled":
            return f"coalesce({of}, {'-9::BIGINT' if each.kind == 'int' else repr('?')})"
    return of


def _condition(each: p.Condition) -> str:
    if each.how in ("known", "unknown"):
        return f"{each.of} IS {'NOT ' if each.how == 'known' else ''}NULL"
    sign = {"less": "<", "equal": "=", "unlike": "<>"}[each.how]
    return f"{each.of} {sign} {each.value!r}::{_SQL[each.kind]}"


def _aggregate(each: p.Aggregate, over: str = "") -> str:
    match each.function:
        case "count" if each.of is None:
            call = "count(*)"
        case "count_distinct":
            within = "" if each.within is None else f" FILTER (WHERE {_condition(each.within)})"
            call = f"count(DISTINCT {each.of}){within}"
        case "count_if":
            call = f"count(CASE WHEN {each.of} > 1 THEN 1 END)"
        case _:
            call = f"{each.function}({each.of})"
    return f"({call}{over})::{_SQL[each.kind]}"
