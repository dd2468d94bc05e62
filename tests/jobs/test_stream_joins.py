"""Joins of streams of records in whole jobs: all kinds, crashes, savepoints, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg

NUMBERS = count(11700)
KINDS = ("inner", "left", "right", "full")
BOUNDS = (-1_000, 700)
LATE = "300ms"
HALF = 60

ORDERS = pa.schema({"user": pa.string(), "at": pa.int64(), "price": pa.int64()})
VISITS = pa.schema({"who": pa.string(), "seen": pa.int64(), "page": pa.string()})


@dataclass
class Order:
    """What somebody bought."""

    user: str | None
    at: int
    price: int


class Visit(NamedTuple):
    """What somebody looked at."""

    who: str | None
    seen: int
    page: str


def shuffled(n: int, every: int, seed: int) -> list[int]:
    """Times out of order, by at most 300 ms."""
    chance = random.Random(seed)
    return sorted((every * i for i in range(n)), key=lambda at: at + chance.randrange(300))


USERS = ("ada", "bob", "cy", "dan", "eve", None)
BOUGHT = [
    {"user": USERS[n * n % 5 + n % 7 // 6], "at": at, "price": n} for n, at in enumerate(shuffled(150, 70, 1))
]
SEEN = [{"who": USERS[n % 6], "seen": at, "page": f"p{n % 3}"} for n, at in enumerate(shuffled(90, 120, 2))]


def pair(order: Any, visit: Any) -> dict[str, Any]:
    """What the tests' joins emit, of records of any type."""
    read: Callable[[Any, str], Any] = lambda record, name: (  # noqa: E731
        None if record is None else record[name] if hasattr(record, "keys") else getattr(record, name)
    )
    return {
        "user": read(order, "user"), "at": read(order, "at"), "price": read(order, "price"),
        "who": read(visit, "who"), "seen": read(visit, "seen"), "page": read(visit, "page"),
    }  # fmt: skip


def answer(how: str) -> list[dict[str, Any]]:
    """What comes out, by looking at all pairs."""
    both = [
        (order, visit)
        for order in BOUGHT
        for visit in SEEN
        if order["user"] is not None
        and order["user"] == visit["who"]
        and BOUNDS[0] <= int(str(visit["seen"])) - int(str(order["at"])) <= BOUNDS[1]
    ]
    found = [pair(order, visit) for order, visit in both]
    if how in ("left", "full"):
        found += [pair(order, None) for order in BOUGHT if not any(order is each for each, _ in both)]
    if how in ("right", "full"):
        found += [pair(None, visit) for visit in SEEN if not any(visit is each for _, each in both)]
    return sorted(found, key=str)


def as_they_are(orders: Any, visits: Any) -> tuple[Any, Any]:
    """Dicts, of a type that nobody declares."""
    return orders, visits


def as_objects(orders: Any, visits: Any) -> tuple[Any, Any]:
    """A dataclass and a named tuple."""

    def order_of(record: dict[str, Any]) -> Order:
        return Order(**record)

    def visit_of(record: dict[str, Any]) -> Visit:
        return Visit(**record)

    return orders.map(order_of, uid="order"), visits.map(visit_of, uid="visit")


def as_columns(orders: Any, visits: Any) -> tuple[Any, Any]:
    """Rows of columns."""
    return orders.to_table(ORDERS).to_stream(), visits.to_table(VISITS).to_stream()


FORMS = (as_they_are, as_objects, as_columns)


def job(
    folder: Path, how: str, sources: tuple[hg.Source[Any], hg.Source[Any]], parallelism: int = 2,
    form: Callable[[Any, Any], tuple[Any, Any]] = as_they_are, within: tuple[int, int] = BOUNDS, **more: Any,
) -> hg.Environment:  # fmt: skip
    """A program that joins the records of both sources."""
    env = environment(parallelism, {**TINY, "restart-strategy.type": "none", **more})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    left, right = form(*(env.from_source(each, uid=uid) for each, uid in zip(sources, "lr", strict=True)))
    orders, visits = left.with_event_time("at", LATE), right.with_event_time("seen", LATE)
    joined = orders.join(visits, how).where("user", "who").within(*within).apply(pair, uid="join")
    joined.write_json(str(folder / "out"), uid="out")
    return env


def published(folder: Path) -> list[Any]:
    """What the sink has committed, in the form of the answer."""
    return sorted(json_lines(folder / "out"), key=str)


def valves(*limits: float) -> tuple[Valve, Valve]:
    """Both inputs, each up to so many records."""
    most = limits or (float("inf"), float("inf"))
    return Valve(next(NUMBERS), most[0], BOUGHT), Valve(next(NUMBERS), most[1], SEEN)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("how", KINDS)
def test_a_join_is_that_of_all_pairs(tmp_path: Path, how: str, form: Any) -> None:
    """Of records of any type; out of order, and some without a key."""
    job(tmp_path, how, valves(), form=form).execute("join")
    assert published(tmp_path) == answer(how)


@pytest.mark.parametrize("how", KINDS)
def test_tables_give_the_same(how: str) -> None:
    """By ``Table.join(within=)``; there keys of records without partner are one column."""
    env = environment(2)
    orders, visits = (
        env.from_collection(rows).to_table(schema).with_watermark(schema.names[1], LATE)
        for rows, schema in ((BOUGHT, ORDERS), (SEEN, VISITS))
    )
    joined = orders.join(visits.rename({"who": "user"}), "user", how, uid="join", within=BOUNDS)
    rows = [{**each, "user": each["user"] or each["who"]} for each in answer(how)]
    plain = [{name: row[name] for name in ("user", "at", "price", "seen", "page")} for row in rows]
    assert sorted(map(dict, joined.collect()), key=str) == sorted(plain, key=str)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("form", FORMS)
def test_a_join_is_whole_after_a_crash(tmp_path: Path, form: Any, backend: str) -> None:
    """One input crashes after a checkpoint of half of its records is complete."""
    left = Halting(next(NUMBERS), HALF, BOUGHT)  # type: ignore[arg-type]
    more = {**RESTART_AT_ONCE, "state.backend.type": backend}
    job(tmp_path, "full", (left, valves()[1]), form=form, **more).execute("join")
    assert (left.name, "0") in Halting.crashed
    assert published(tmp_path) == answer("full")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "parallelism"), [("canonical", 3), ("native", 1)])
def test_records_that_wait_are_in_a_savepoint(tmp_path: Path, form: Any, kind: str, parallelism: int) -> None:
    """One input is ahead of the other; the rest comes at another parallelism."""
    both = valves(120, 24)
    with job(tmp_path, "full", both, form=form).execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 120 + 24, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=kind)
        handle.result()
    assert 0 < len(published(tmp_path)) < len(answer("full"))
    for each in both:
        each.open_to()
    again = job(tmp_path, "full", both, parallelism, form=form)
    again.execute("join", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer("full")


def test_another_interval_is_refused_at_a_restore(tmp_path: Path) -> None:
    """Records that it would need have been dropped."""
    both = valves(120, 24)
    with job(tmp_path, "full", both).execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 120 + 24, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format="canonical")
        handle.result()
    with pytest.raises(hg.HeadgateError, match="Joined_left_from_minus_1000ms_to_700ms"):
        again = job(tmp_path, "full", both, within=(-1_000, 900))
        again.execute("join", restore_from=unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    read = handle.status().vertices
    return sum(vertex.records_in for vertex in read if {"l", "r"} & set(vertex.uids))


def streams() -> tuple[Any, Any]:
    """Two streams with event time."""
    env = environment(2)
    rows = [BOUGHT, SEEN]
    left, right = (env.from_collection(each) for each in rows)
    return left.with_event_time("at", LATE), right.with_event_time("seen", LATE)


def test_results_have_the_later_time_of_a_pair() -> None:
    """So windows after the join lose nothing, and give the same whichever record came first."""
    orders, visits = streams()
    joined = orders.join(visits).where("user", "who").within(*BOUNDS).apply(pair, uid="join")
    seconds = joined.key_by("user").window(hg.tumbling("1s")).aggregate(n=hg.count(), uid="n")
    found = {(row["user"], row["window"]["start"].timestamp()): row["n"] for row in seconds.collect()}
    totals: dict[Any, int] = {}
    for each in answer("inner"):
        second = max(each["at"], each["seen"]) // 1_000
        totals[each["user"], second] = totals.get((each["user"], second), 0) + 1
    assert found == totals


def test_flat_apply_gives_any_number_of_results() -> None:
    """None is no result."""
    orders, visits = streams()

    def some(order: Any, visit: Any) -> list[int] | None:
        return None if visit is None else [order["price"]] * 2

    joined = orders.join(visits, "left_outer").where("user", "who").within("-1s", "700ms")
    found = joined.flat_apply(some, uid="join").collect()
    assert sorted(found) == sorted(each["price"] for each in answer("inner") for _ in range(2))


def test_one_result_is_not_taken_apart() -> None:
    """Text is an iterable of letters, which nobody means."""
    orders, visits = streams()
    joined = orders.join(visits).where("user", "who").within("1s")
    with pytest.raises(hg.HeadgateError, match=r"returned str; expected an iterable of results.* use apply"):
        joined.flat_apply(lambda order, visit: "text").collect()


def refusing(order: Any, visit: Any) -> int:
    """Fails on the first pair."""
    raise ValueError("no pair")


def test_a_failing_function_is_told_with_the_programs_record() -> None:
    """And with the stream that it is of, not as what the operator keeps."""
    orders, visits = streams()
    joined = orders.join(visits).where("user", "who").within("1s")
    with pytest.raises(hg.UserFunctionError, match=r"for record .* of the (left|right) stream") as raised:
        joined.apply(refusing, uid="join").collect()
    assert "JoinedRecord" not in str(raised.value)


def by_price(order: Order) -> int:
    """A key of another type than names."""
    return order.price


def test_what_cannot_be_joined_is_refused() -> None:
    """With the line of the call, and what to do."""
    orders, visits = streams()
    joined = orders.join(visits)
    with pytest.raises(hg.PlanError, match=r"join\(\) \(.*\) got int; expected streams of the same Env"):
        orders.join(3)
    with pytest.raises(hg.PlanError, match=r"expected streams of the same Environment"):
        orders.join(streams()[1])
    with pytest.raises(hg.PlanError, match=r"how is 'semi'; expected one of full, inner, left, right"):
        orders.join(visits, "semi")
    with pytest.raises(hg.PlanError, match=r"last step is broadcast\(\).*; join the stream before"):
        orders.join(visits.broadcast())
    with pytest.raises(AttributeError, match=r"a stream after key_by\(\) has no join\(\)"):
        orders.key_by("user").join(visits)
    with pytest.raises(hg.PlanError, match=r"apply\(\) \(.*\) needs where\(\), which says by which keys"):
        joined.within("1s").apply(pair)
    with pytest.raises(hg.PlanError, match=r"flat_apply\(\) \(.*\) needs within\(\), which bounds times"):
        joined.where("user", "who").flat_apply(pair)
    with pytest.raises(hg.PlanError, match=r"where\(\) \(.*\) got 3; expected a field name, or one funct"):
        joined.where("user", 3)
    with pytest.raises(hg.PlanError, match=r"compares int with str, which"):
        objects = as_objects(orders, visits)
        objects[0].join(objects[1]).where(by_price, "page")
    with pytest.raises(hg.PlanError, match=r"within\(\) \(.*\) got within=\('5s', '1s'\), an interval wi"):
        joined.within("5s", "1s")
    with pytest.raises(hg.PlanError, match=r"a bound of within is 'soon'; expected a number and a unit"):
        joined.within("soon")
    ready = joined.where("user", "who").within("1s")
    with pytest.raises(hg.PlanError, match=r"expected a function of a left record and a right one"):
        ready.apply(lambda order: order)
    with pytest.raises(hg.PlanError, match=r"apply\(\) \(.*\) got a function marked with blocking\(\)"):
        ready.apply(hg.blocking(lambda *both: both))
    with pytest.raises(hg.PlanError, match=r"got 7; expected a function of a record of each stream"):
        ready.apply(7)


def test_a_join_needs_a_uid_where_checkpoints_are_on(tmp_path: Path) -> None:
    """As any operator with state."""
    env = environment(2)
    left, right = (env.from_collection(rows, uid=uid) for rows, uid in ((BOUGHT, "l"), (SEEN, "r")))
    joined = left.with_event_time("at").join(right.with_event_time("seen")).where("user", "who").within("1s")
    joined.apply(pair).write_json(str(tmp_path / "out"), uid="out")
    env.checkpoints(every="1s", storage=str(tmp_path / "checkpoints"))
    with pytest.raises(hg.PlanError, match=r"operator 'join' .* has state but no uid"):
        env.execute("join")


def test_explain_tells_what_is_kept() -> None:
    """The kind of join, the bounds, and how long records of each side wait."""
    orders, visits = streams()
    orders.join(visits, "left").where("user", "who").within("-1s", "5s").apply(pair, uid="join")
    text = orders._environment.explain()
    assert "join of records, left: right's time within left's -1s .. +5s" in text
    assert "keeps records until the watermark has passed them: left by 5s, right by 1s" in text
