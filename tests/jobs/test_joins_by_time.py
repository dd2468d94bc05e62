"""Joins by time in whole jobs: savepoints at another parallelism, crashes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

NUMBERS = count(7700)
ORDERS = pa.schema({"user": pa.string(), "at": pa.int64(), "price": pa.int64()})
VISITS = pa.schema({"user": pa.string(), "seen": pa.int64(), "page": pa.string()})
Row = dict[str, Any]
Join = Callable[[Any, Any], Any]

BOUGHT = [{"user": f"u{n * n % 9}", "at": 70 * n + n % 2, "price": n % 4} for n in range(150)]
SEEN = [{"user": f"u{n % 13}", "seen": 130 * n + n % 2, "page": f"p{n % 3}"} for n in range(80)]
"""In order of time, and of one split, so that no row is late, however far a reader is when it is restored."""


def full(orders: Any, visits: Any) -> Any:
    """Rows of both that are within a second, and others."""
    return orders.join(visits, "user", "full", uid="join", within=("-1s", "700ms"), where=F.col("price") > 0)


def as_of(orders: Any, visits: Any) -> Any:
    """The last page before each order."""
    return orders.join_asof(visits, "user", uid="join")


BOTH = 'coalesce(l."user", r."user") AS "user", l."at", price, seen, page'
NEAR = 'l."user" = r."user" AND seen BETWEEN l."at" - 1000 AND l."at" + 700'
ANSWERS: dict[Join, str] = {
    full: f"SELECT {BOTH} FROM l FULL JOIN r ON {NEAR} AND price > 0",
    as_of: f'SELECT {BOTH} FROM l ASOF LEFT JOIN r ON l."user" = r."user" AND l."at" >= seen',
}


def answer(join: Join) -> list[Row]:
    """What DuckDB finds in all rows."""
    with duckdb.connect() as database:
        for name, schema, rows in (("l", ORDERS, BOUGHT), ("r", VISITS, SEEN)):
            database.register(name, pa.Table.from_pylist(rows, schema))
        found: list[Row] = database.sql(ANSWERS[join]).to_arrow_table().to_pylist()
    return sorted(found, key=str)


def published(folder: Path) -> list[Row]:
    """What the sink has committed, in the form of the answer."""
    return sorted(json_lines(folder / "out"), key=str)


class Job:
    """Two inputs, joined; `step` sees the results on their way to the files."""

    def __init__(
        self,
        folder: Path,
        join: Join,
        parallelism: int,
        limits: tuple[float, float] = (float("inf"), float("inf")),
        step: Any = None,
        **more: Any,
    ) -> None:
        both = zip(limits, (BOUGHT, SEEN), strict=True)
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none", **more})
        self.env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
        sources = [
            self.env.from_source(Valve(next(NUMBERS), most, rows), uid=uid)
            for (most, rows), uid in zip(both, ("orders", "visits"), strict=True)
        ]
        tables = [
            source.to_table(schema).with_watermark(time, "10ms")
            for source, schema, time in zip(sources, (ORDERS, VISITS), ("at", "seen"), strict=True)
        ]
        stream = join(*tables).to_stream()
        stream = stream if step is None else stream.map(step, uid="step")
        stream.write_json(str(folder / "out"), uid="out")


@pytest.mark.parametrize("join", ANSWERS)
def test_a_join_is_that_of_the_batch_answer(tmp_path: Path, join: Join) -> None:
    """Whatever order the rows of both inputs come in."""
    Job(tmp_path, join, 2).env.execute("join")
    assert published(tmp_path) == answer(join)


@pytest.mark.parametrize("join", ANSWERS)
@pytest.mark.parametrize(("form", "parallelism"), [("canonical", 3), ("native", 1)])
def test_rows_that_wait_are_in_a_savepoint(tmp_path: Path, join: Join, form: str, parallelism: int) -> None:
    """One input is ahead of the other, so rows wait; the rest comes at another parallelism."""
    job = Job(tmp_path, join, 2, (120, 24))
    with job.env.execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 120 + 24, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    assert 0 < len(published(tmp_path)) < len(answer(join))
    Job(tmp_path, join, parallelism).env.execute("join", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer(join)


def _read(handle: Any) -> int:
    read = handle.status().vertices
    return sum(vertex.records_in for vertex in read if {"orders", "visits"} & set(vertex.uids))


@pytest.mark.parametrize("join", ANSWERS)
def test_a_join_is_whole_after_a_crash(tmp_path: Path, join: Join) -> None:
    """A step behind the join raises once, in the middle."""
    crashed = tmp_path / "crashed"

    def crash_once(row: Row) -> Row:
        if (row["at"] or 0) > 5_000 and not crashed.exists():
            crashed.touch()
            raise ValueError("once")
        return row

    Job(tmp_path, join, 2, step=crash_once, **RESTART_AT_ONCE).env.execute("join")
    assert crashed.exists()
    assert published(tmp_path) == answer(join)


def tables() -> tuple[Any, Any, Any]:
    """Two tables with event time of one Environment, and one without."""
    env = environment(1)
    timed = [
        env.from_collection([]).with_event_time(schema.names[1]).to_table(schema)
        for schema in (ORDERS, VISITS)
    ]
    return timed[0], timed[1], env.from_collection([]).to_table(VISITS)


def test_results_can_be_grouped_in_windows() -> None:
    """By the event time of the left row; the watermark of the join is late enough for that."""
    env = environment(2)
    orders, visits = (
        env.from_collection(rows).to_table(schema).with_watermark(schema.names[1], "30s")
        for schema, rows in ((ORDERS, BOUGHT), (VISITS, SEEN))
    )
    both = orders.join(visits, "user", "left", uid="both", within=("-1s", "700ms"))
    found = both.group_by(F.window("at", "1s")).agg(
        F.count("*").alias("n"), F.count("page").alias("p"), uid="n"
    )
    totals = [sum(row[name] for row in found.collect()) for name in ("n", "p")]
    assert totals == [
        _one(f"SELECT count(*) FROM l LEFT JOIN r ON {NEAR}"),
        _one(f"SELECT count(*) FROM l JOIN r ON {NEAR}"),
    ]


def _one(query: str) -> int:
    with duckdb.connect() as database:
        for name, schema, rows in (("l", ORDERS, BOUGHT), ("r", VISITS, SEEN)):
            database.register(name, pa.Table.from_pylist(rows, schema))
        ((found,),) = database.sql(query).fetchall()
    return int(found)


def test_what_cannot_be_joined_is_refused() -> None:
    """With the line of the call, and what to do."""
    orders, visits, untimed = tables()
    with pytest.raises(hg.PlanError, match=r"the right table has no event time, .* call with_watermark"):
        orders.join(untimed, "user", within="1s")
    with pytest.raises(hg.PlanError, match=r"within=\(5, 1\), an interval without times"):
        orders.join(visits, "user", within=(5, 1))
    with pytest.raises(hg.PlanError, match="a bound of within is 'soon'; expected a number and a unit"):
        orders.join(visits, "user", within="soon")
    with pytest.raises(hg.PlanError, match=r"where= is .*price.* which is bigint; expected a condition"):
        orders.join(visits, "user", within="1s", where=F.col("price") + 1)
    with pytest.raises(hg.PlanError, match="where= calls a function of the program"):
        orders.join(visits, "user", within="1s", where=F.udf(bool, "boolean")("price"))
    with pytest.raises(hg.PlanError, match="rows of the table are corrected"):
        orders.join(visits.top_n(1, "user", "seen"), "user", within="1s")
    with pytest.raises(hg.PlanError, match=r"how is 'full'; expected one of inner, left"):
        orders.join_asof(visits, "user", "full")
    with pytest.raises(hg.PlanError, match=r"direction 'nearest' has no tolerance, .* tolerance="):
        orders.join_asof(visits, "user", direction="nearest")
    with pytest.raises(hg.PlanError, match=r"direction is 'up'; expected one of backward, forward, nearest"):
        orders.join_asof(visits, "user", direction="up")
    with pytest.raises(hg.PlanError, match=r"(?s)join_asof\(\) .* expected a table of the same Environment"):
        orders.join_asof(tables()[1], "user")


def test_explain_tells_what_is_kept() -> None:
    """The kind of join, the bounds, and how long rows of each side wait."""
    orders, visits, _ = tables()
    text = orders.join(visits, "user", "left", within=("-1s", "5s")).explain()
    assert "interval join, left, by user: right's time within left's -1s .. +5s" in text
    assert "keeps rows until the watermark has passed them: left by 5s, right by 1s" in text
    assert "delays the watermark by 5s" in text
    text = orders.join_asof(visits, "user").explain()
    assert "as-of join, left, by user: right's row backward" in text
    assert "keeps left rows until the watermark has passed them; the last right row of each key" in text
