"""Matches of a table's pattern are those of trying all ways, however its rows come, and across snapshots."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
import headgate.patterns as P  # noqa: N812
from headgate.api.patterns.table_patterns import matched
from headgate.api.tables.column import Column
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.nexmark.all_ways import Match, all_ways_matches
from headgate.relational.patterns.match_plan import Match as MatchPlan
from headgate.relational.relations import Scan
from headgate.relational.schema import schema_of
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.matching.kept_matches import KeptMatches

TABLE = schema_of(pa.schema({"k": pa.int64(), "at": pa.int64(), "v": pa.int64()}), "at")
GROUPS = 128
Row = tuple[int, int, int | None]
"""Key, event time in ms, value."""


class Condition(NamedTuple):
    """A condition as columns, and as a function of the row's value and the values matched before."""

    column: Column
    holds: Any


def _values(before: list[tuple[str, Any]], name: str) -> list[Any]:
    return [value for variable, value in before if variable == name]


def _sum(values: list[Any]) -> int:
    return sum(value for value in values if value is not None)


def _less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


SMALL = Condition(F.col("v") < 2, lambda v, before, name: _less(v, 2))
LARGE = Condition(F.col("v") > 0, lambda v, before, name: _less(0, v))
FALLS = Condition(
    P.last("B.v", 1).isNull() | (F.col("v") < P.last("B.v", 1)),
    lambda v, before, name: (
        not _values(before, "B") or _values(before, "B")[-1] is None or _less(v, _values(before, "B")[-1])
    ),
)
ABOVE_FIRST = Condition(
    F.col("v") > F.first("A.v"),
    lambda v, before, name: bool(_values(before, "A")) and _less(_values(before, "A")[0], v),
)
AVERAGE = Condition(
    F.sum("A.v") < 4,
    lambda v, before, name: (
        any(each is not None for each in [*_values(before, "A"), v]) and _sum([*_values(before, "A"), v]) < 4
    ),
)
COUNTED = Condition(F.count("A.*") == 2, lambda v, before, name: len(_values(before, "A")) == 2)
DEFINES: list[dict[str, Condition]] = [
    {"A": SMALL, "B": LARGE},
    {"B": FALLS},
    {"A": AVERAGE},
    {"A": LARGE, "B": ABOVE_FIRST},
    {"A": SMALL, "C": COUNTED},
    {"A": AVERAGE, "B": FALLS, "C": ABOVE_FIRST},
]
PATTERNS = ["A B", "A+ B", "A B* C", "A B+ C", "A+? C", "(A | B)+ C", "A{2,3} B? C", "A B{2}"]
SKIPS = ["past last row", "to next row", "to last A", "to first B", "to last B"]
MEASURES = {
    "first": F.first("A.at"), "last": F.col("at"), "n": F.count("*"), "sum": F.sum("v"), "of_a": F.sum("A.v"),
    "second": P.first("A.v", 1),
}  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> tuple[MatchPlan, dict[str, Condition]]:
    """A plan of a pattern, and its conditions."""
    text, conditions = draw(st.sampled_from(PATTERNS)), draw(st.sampled_from(DEFINES))
    conditions = {name: each for name, each in conditions.items() if name in text}
    skip = draw(st.sampled_from([each for each in SKIPS if not each.endswith(" B") or "B" in text]))
    within = draw(st.sampled_from([None, 3, 10]))
    columns = {name: each.column for name, each in conditions.items()}
    return matched(Scan(TABLE, 0), ["k"], (), text, columns, MEASURES, within, skip, "m"), conditions


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=30)


def expected(plan: MatchPlan, conditions: dict[str, Condition], rows: list[Row]) -> list[tuple[Any, ...]]:
    """The rows of the result."""
    found = []
    for key in sorted({key for key, _, _ in rows}):
        mine = sorted((row for row in rows if row[0] == key), key=lambda row: row[1])

        def holds(name: str, at: int, before: Match, mine: list[Row] = mine) -> bool:
            known = [(variable, mine[row][2]) for variable, row in before]
            return name not in conditions or conditions[name].holds(mine[at][2], known, name)

        for match in all_ways_matches(plan.pattern, [row[1] for row in mine], holds):
            of_a = [mine[row] for name, row in match if name == "A"]
            values = [mine[row][2] for _, row in match]
            found.append((
                key, of_a[0][1] if of_a else None, mine[match[-1][1]][1], len(match),
                _sum(values) if set(values) - {None} else None,
                _sum([row[2] for row in of_a]) if {row[2] for row in of_a} - {None} else None,
                of_a[1][2] if len(of_a) > 1 else None,
            ))  # fmt: skip
    return sorted(found, key=str)


def table_of(rows: list[Row]) -> pa.Table:
    """Rows as the operator gets them."""
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {PANE: times, "k": keys, "at": times, "v": values}
    return pa.table({name: pa.array(list(each), pa.int64()) for name, each in columns.items()})


def read(plan: MatchPlan, state: KeptMatches, mark: int, results: list[tuple[Any, ...]], before: int) -> None:
    """Let the watermark come, and add what is found to `results`."""
    for ended in state.reached(mark):
        times = ended.ends - 1
        assert (times > before).all(), "nothing is late for those who come after"
        assert (np.diff(times) >= 0).all()
        assert mark == WATERMARK_MAX or (times <= mark).all()
        results += [tuple(row.values()) for row in ended.table.select(plan.schema.names).to_pylist()]


def made_state(plan: MatchPlan, mark: int, in_python: bool) -> KeptMatches:
    """A state without rows."""
    state = KeptMatches(plan, mark, GROUPS)
    if not in_python:
        state._stepper._in_python.clear()
    return state


def restored(state: KeptMatches, other: KeptMatches, mark: int) -> KeptMatches:
    """The new state `other` with what a snapshot of `state` holds."""
    views = state.at_snapshot()
    for view in views:
        for table in view.tables():
            other.of_group(0, mark).add(table)
    return other


@settings(max_examples=600, deadline=None)
@given(made=plans(), steps=ROWS, disorder=st.integers(0, 4), random=st.randoms(), in_python=st.booleans())
def test_matches_are_those_of_all_ways(
    made: tuple[MatchPlan, dict[str, Condition]],
    steps: list[Row],
    disorder: int,
    random: Any,
    in_python: bool,
) -> None:
    """Rows come out of order, in batches, with watermarks and snapshots between them. Conditions are computed
    for many rows at once, or for one.
    """
    plan, conditions = made
    time, rows = 0, []
    for key, more, value in steps:
        time += more
        rows.append((key, time, value))
    # Rows at one time stay in their order; others come up to `disorder` ms late.
    coming = sorted(rows, key=lambda row: row[1] + (row[1] * 7 % (disorder + 1)))
    state, mark, results = made_state(plan, WATERMARK_MIN, in_python), WATERMARK_MIN, list[tuple[Any, ...]]()
    while coming:
        count = random.randint(1, 6)
        batch, coming = coming[:count], coming[count:]
        assert state.add(table_of(batch), np.full(len(batch), mark)) == 0
        if random.random() < 0.6:
            upto = min((row[1] for row in coming), default=time) - 1
            if upto > mark:
                read(plan, state, upto, results, mark)
                mark = upto
        if random.random() < 0.3:
            state = restored(state, made_state(plan, mark, in_python), mark)
    read(plan, state, WATERMARK_MAX, results, mark)
    assert sorted(results, key=str) == expected(plan, conditions, rows)
    assert state.size() == 0


def test_late_rows_are_counted_and_dropped() -> None:
    """They are those at or before the watermark."""
    plan = matched(Scan(TABLE, 0), ["k"], (), "A B", {}, {"n": F.count("*")}, None, "past last row", "m")
    state = KeptMatches(plan, WATERMARK_MIN, GROUPS)
    assert state.add(table_of([(1, 5, 0)]), np.array([4])) == 0
    assert state.reached(5) == []
    assert state.add(table_of([(1, 5, 0), (1, 6, 0)]), np.array([5, 5])) == 1
    (ended,) = state.reached(6)
    assert ended.table.to_pylist() == [{"k": 1, "n": 2}]


def test_rows_are_kept_for_the_time_of_a_match() -> None:
    """Of ten thousand keys, none of which ever matches, no row is kept in the end, and no key."""
    plan = matched(
        Scan(TABLE, 0),
        ["k"],
        (),
        "A B",
        {"B": F.col("v") > 9},
        {"n": F.count("*")},
        100,
        "past last row",
        "m",
    )
    state = KeptMatches(plan, WATERMARK_MIN, GROUPS)
    for at in range(0, 20_000, 10):
        rows: list[Row] = [(at + key, at, 0) for key in range(10)]
        state.add(table_of(rows), np.full(10, at - 1))
        assert state.reached(at) == []
        assert state.size() <= 100
    assert state._partial._keys.count < 10_000
    assert not state._partial._matchers, "one row is no reason for a machine"
    assert sum(len(each.numbers) for each in state._rows.tables()) < 10_000
    state.reached(30_000)
    assert state.size() == 0
