"""Joins in windows in whole jobs, of all kinds, across savepoints and after crashes."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

NUMBERS = count(9900)
SIZE = 1_000
ORDERS = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
VISITS = pa.schema({"at": pa.int64(), "user": pa.string(), "page": pa.string()})
Row = dict[str, Any]

SPLITS = [
    [{"at": 70 * n + split, "user": f"u{n * n % 9}", "price": n % 4} for n in range(split, 150, 2)]
    for split in range(2)
]
PAGES = [
    [{"at": 130 * n + split, "user": f"u{n % 13}", "page": f"p{n % 3}"} for n in range(split, 80, 2)]
    for split in range(2)
]
KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def counted(splits: list[list[Row]], column: str) -> Counter[tuple[str, int, Any]]:
    """Number of rows by user, start of the window and a column."""
    rows = (row for split in splits for row in split)
    return Counter((row["user"], row["at"] // SIZE * SIZE, row[column]) for row in rows)


def answer(how: str) -> list[tuple[Any, ...]]:
    """The rows of the join: user, start, (price, bought), (page, seen), null where there is no partner."""
    left, right = counted(SPLITS, "price"), counted(PAGES, "page")
    found: list[tuple[Any, ...]] = []
    for (user, start, price), n in left.items():
        partners = [(page, m) for (other, at, page), m in right.items() if (other, at) == (user, start)]
        if (how == "semi" and partners) or (how == "anti" and not partners):
            found.append((user, start, price, n))
        if how in ("semi", "anti"):
            continue
        found += [(user, start, price, n, page, m) for page, m in partners]
        if not partners and how in ("left", "full"):
            found.append((user, start, price, n, None, None))
    if how in ("right", "full"):
        known = {(user, start) for user, start, _ in left}
        found += [
            (user, start, None, None, page, m)
            for (user, start, page), m in right.items()
            if (user, start) not in known
        ]
    return sorted(found, key=str)


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed, in the form of the answer."""
    found = []
    for row in json_lines(folder / "out"):
        start = round(dt.datetime.fromisoformat(row["window"]["start"]).timestamp() * 1000)
        rest = [row[name] for name in ("price", "bought", "page", "seen") if name in row]
        found.append((row["user"], start, *rest))
    return sorted(found, key=str)


class Job:
    """Two inputs, each counted in windows, joined; `step` sees the results on their way to the files."""

    def __init__(
        self,
        folder: Path,
        how: str,
        parallelism: int,
        limit: float = float("inf"),
        step: Any = None,
        limit_right: float | None = None,
        inputs: tuple[list[list[Row]], list[list[Row]]] = (SPLITS, PAGES),
        delay: str = "12s",
        **more: Any,
    ) -> None:
        limits = (limit, limit if limit_right is None else limit_right)
        self.valves = [Valve(next(NUMBERS), most, *rows) for most, rows in zip(limits, inputs, strict=True)]
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none", **more})
        self.env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
        orders, visits = (
            self.env.from_source(valve, uid=uid).to_table(schema).with_watermark("at", delay)
            for valve, uid, schema in zip(self.valves, ("orders", "visits"), (ORDERS, VISITS), strict=True)
        )
        window = F.window("at", SIZE)
        bought = orders.group_by("user", "price", window).agg(F.count("*").alias("bought"), uid="bought")
        seen = visits.group_by("user", "page", window).agg(F.count("*").alias("seen"), uid="seen")
        stream = bought.join(seen, ["window", "user"], how, uid="join").to_stream()
        stream = stream if step is None else stream.map(step, uid="step")
        stream.write_json(str(folder / "out"), uid="out")


@pytest.mark.parametrize("how", KINDS)
def test_a_join_is_that_of_the_batch_answer(tmp_path: Path, how: str) -> None:
    """Whatever order the rows of both inputs come in."""
    Job(tmp_path, how, 2).env.execute("join")
    assert published(tmp_path) == answer(how)


@pytest.mark.parametrize(("form", "parallelism"), [("canonical", 3), ("native", 1)])
def test_rows_that_wait_are_in_a_savepoint(tmp_path: Path, form: str, parallelism: int) -> None:
    """Half of the rows before it, half after it, at another parallelism."""
    job = Job(tmp_path, "full", 2, 38)
    with job.env.execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 2 * (38 + 38), "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    Job(tmp_path, "full", parallelism).env.execute("join", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer("full")


@pytest.mark.parametrize("how", ["full", "semi"])
def test_rows_come_to_restored_ones(tmp_path: Path, how: str) -> None:
    """The left input is far ahead at the savepoint: its rows wait, and the right ones come to them."""
    ordered = ([sorted(chain(*SPLITS), key=_at)], [sorted(chain(*PAGES), key=_at)])
    job = Job(tmp_path, how, 1, 120, limit_right=20, inputs=ordered, delay="10ms")
    with job.env.execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 120 + 20, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    again = Job(tmp_path, how, 1, inputs=ordered, delay="10ms")
    again.env.execute("join", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer(how)


def _at(row: Row) -> int:
    at: int = row["at"]
    return at


def _read(handle: Any) -> int:
    read = handle.status().vertices
    return sum(vertex.records_in for vertex in read if {"orders", "visits"} & set(vertex.uids))


def test_a_join_is_whole_after_a_crash(tmp_path: Path) -> None:
    """A step behind the join raises once, in the middle."""
    crashed = tmp_path / "crashed"

    def crash_once(row: Row) -> Row:
        if row["window"]["end"].timestamp() > 5 and not crashed.exists():
            crashed.touch()
            raise ValueError("once")
        return row

    job = Job(tmp_path, "inner", 2, step=crash_once, **RESTART_AT_ONCE)
    job.env.execute("join")
    assert crashed.exists()
    assert published(tmp_path) == answer("inner")


def tables() -> tuple[Any, Any]:
    """Two tables with windows, of one Environment."""
    env = environment(1)
    made = []
    for schema in (ORDERS, VISITS):
        rows = env.from_collection([dict.fromkeys(schema.names)]).with_event_time("at")
        made.append(rows.to_table(schema).group_by("user", F.window("at", SIZE)).agg(F.count("*").alias("n")))
    return made[0], made[1]


def test_what_cannot_be_joined_is_refused() -> None:
    """With the line of the call, and what to do."""
    orders, visits = tables()
    with pytest.raises(hg.PlanError, match=r"both tables have a column 'n' .* rename one"):
        orders.join(visits, ["window", "user"])
    seen = visits.rename({"n": "seen"})
    with pytest.raises(hg.PlanError, match="how is 'cross'; expected one of anti, full"):
        orders.join(seen, ["window", "user"], "cross")
    with pytest.raises(hg.PlanError, match="got None for 'how'; expected text"):
        orders.join(seen, ["window", "user"], None)  # type: ignore[arg-type]
    with pytest.raises(hg.PlanError, match="expected a table of the same Environment"):
        orders.join(tables()[1], ["window", "user"])
    with pytest.raises(hg.PlanError, match="'nobody'"):
        orders.join(seen, ["window", "nobody"])
    assert orders.join(seen, ["window", "user"], "left_outer").columns == ["user", "window", "n", "seen"]
