"""Lookups in tables that a function loads: what they find, when it is called again, and how it may fail."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from mini_jobs import environment
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.testing import MiniCluster, simulate
from sim.store import EventSource

NUMBERS = count(8800)
BIDS = pa.schema({"currency": pa.string(), "n": pa.int64()})
COLUMNS = "currency string, rate int"


class Rates:
    """What the functions below return; workers are threads here."""

    calls: ClassVar[int] = 0
    fail: ClassVar[bool] = False
    hold: ClassVar[threading.Event]
    seen: ClassVar[list[Any]]
    others: ClassVar[list[int]]

    @classmethod
    def reset(cls) -> None:
        """Begin anew, without a call that waits."""
        cls.calls, cls.fail, cls.hold, cls.seen = 0, False, threading.Event(), []
        cls.others = []
        cls.hold.set()


def load() -> pa.Table:
    """One rate, which is the number of the call; another column that nobody declared."""
    Rates.hold.wait(30)
    Rates.calls += 1
    if Rates.fail:
        raise ConnectionError("no database")
    return pa.table({"rate": [Rates.calls], "currency": ["EUR"], "more": [None]})


@pytest.fixture(autouse=True)
def _rates() -> None:
    Rates.reset()


def third() -> pa.Table:
    """What the third call returns; those before it fail."""
    Rates.fail = Rates.calls < 2
    return load()


def changing() -> pa.Table:
    """Another column from the second call on."""
    return load().rename_columns(["rate" if Rates.calls == 1 else "price", "currency", "more"])


def note_other(n: int) -> int:
    """Keep a record of another part of the job."""
    Rates.others.append(n)
    return n


def note(row: Any) -> int:
    """Keep a result."""
    Rates.seen.append(dict(row))
    return 1


def bids(valve: Valve) -> Any:
    """A table of what a valve lets through."""
    return environment(1).from_source(valve, uid="bids").to_table(BIDS)


ROWS = [{"currency": "EUR", "n": n} for n in range(4)]


def test_each_subtask_calls_the_function_when_it_starts() -> None:
    """Without refresh it does so once; columns that are not declared are left out."""
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    rows = [{"currency": each, "n": 1} for each in ("EUR", "USD", None)]
    table = env.from_collection(rows).to_table(BIDS)
    found = table.lookup(load, "currency", "left", schema=COLUMNS).collect()
    assert {row["currency"]: row["rate"] is not None for row in found} == {
        "EUR": True,
        "USD": False,
        None: False,
    }
    assert Rates.calls <= 2
    assert set(found[0]) == {"currency", "n", "rate"}


def test_the_old_table_serves_until_the_new_one_is_there(tmp_path: Path) -> None:
    """A call that takes long holds nothing back."""
    valve = Valve(next(NUMBERS), 1, ROWS)
    looked = bids(valve).lookup(load, "currency", schema=COLUMNS, refresh="20ms")
    looked.to_stream().map(note).write_json(str(tmp_path / "out"))
    with looked._environment.execute_async("look up") as handle:
        wait_until(lambda: handle.done or len(Rates.seen) == 1, "the first row came")
        wait_until(lambda: handle.done or Rates.calls > 2, "the function was called again")
        Rates.hold.clear()
        before = Rates.calls
        valve.open_to(2)
        wait_until(lambda: handle.done or len(Rates.seen) == 2, "a row came while a call waits")
        assert Rates.seen[1]["rate"] <= before + 1
        Rates.hold.set()
        wait_until(lambda: handle.done or Rates.calls > before + 2, "the function was called once more")
        valve.open_to()
        handle.result()
    rates = [row["rate"] for row in Rates.seen]
    assert rates[0] <= rates[1] < rates[3]


def test_a_call_that_fails_is_repeated() -> None:
    """And the job goes on, if the program says that such a failure may pass; another one fails it at once."""
    table = environment(1).from_collection(ROWS).to_table(BIDS)
    retry = hg.retry(attempts=3, delay="10ms", on=(TimeoutError, ConnectionError))
    looked = table.lookup(third, "currency", schema=COLUMNS, retry=retry)
    assert [row["rate"] for row in looked.collect()] == [3] * 4
    Rates.calls, Rates.fail = 0, True
    looked = table.lookup(load, "currency", schema=COLUMNS, retry=hg.retry(attempts=9, on=TimeoutError))
    with pytest.raises(hg.UserFunctionError, match=r"(?s)ConnectionError: no database.*called once"):
        looked.collect()


@pytest.mark.parametrize("refresh", [None, "20ms"])
def test_a_job_fails_once_all_calls_have(refresh: str | None, tmp_path: Path) -> None:
    """At the start, or later, even if no row comes; with what was raised and where."""
    Rates.fail = refresh is None
    valve = Valve(next(NUMBERS), 1, ROWS)
    looked = bids(valve).lookup(load, "currency", schema=COLUMNS, refresh=refresh, retry=hg.retry(attempts=1))
    looked.to_stream().write_json(str(tmp_path / "out"))
    with looked._environment.execute_async("look up") as handle:
        wait_until(lambda: handle.done or Rates.calls > 1, "the function was called")
        Rates.fail = True
        with pytest.raises(
            hg.UserFunctionError, match=r"(?s)ConnectionError: no database.*called once"
        ) as raised:
            handle.result()
    assert "test_lookups.py:" in raised.value.line


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1], r"returned list; expected a pyarrow\.Table"),
        (pa.table({"currency": ["EUR"]}), "without the column 'rate'; expected currency, rate"),
        (pa.table({"currency": ["EUR"], "rate": ["much"]}), "columns that are not those of schema="),
    ],
)
def test_a_wrong_table_fails_the_job(returned: Any, message: str) -> None:
    """At once: to call again is of no use."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    table = env.from_collection(ROWS).to_table(BIDS)
    with pytest.raises(hg.UsageError, match=message):
        table.lookup(lambda: returned, "currency", schema=COLUMNS).collect()


def test_a_table_that_changes_its_columns_fails_the_job(tmp_path: Path) -> None:
    """Once it comes, with the line of the lookup; another column more is left out."""
    valve = Valve(next(NUMBERS), 1, ROWS)
    looked = bids(valve).lookup(changing, "currency", schema=COLUMNS, refresh="10ms")
    looked.to_stream().map(note).write_json(str(tmp_path / "out"))
    message = r"changing\(\) of lookup\(\) \(.*test_lookups.py:\d+\) returned a table without .* 'rate'"
    with looked._environment.execute_async("look up") as handle, pytest.raises(hg.UsageError, match=message):
        handle.result()
    assert all(row["rate"] == 1 for row in Rates.seen)


def test_a_first_call_that_takes_long_holds_up_its_own_rows_only(tmp_path: Path) -> None:
    """Other subtasks of the worker go on meanwhile; the rows that waited find the table."""
    Rates.hold.clear()
    env = environment(1)
    looked = env.from_collection(ROWS).to_table(BIDS).lookup(load, "currency", schema=COLUMNS)
    looked.to_stream().map(note).write_json(str(tmp_path / "out"))
    env.from_collection([1, 2, 3]).map(note_other).write_json(str(tmp_path / "others"))
    with env.execute_async("look up") as handle:
        wait_until(lambda: handle.done or len(Rates.others) == 3, "other rows came while it is called")
        assert not handle.done
        assert not Rates.seen
        Rates.hold.set()
        handle.result()
    assert [row["rate"] for row in Rates.seen] == [1] * 4


def test_a_call_that_never_returns_lets_the_job_end(tmp_path: Path) -> None:
    """The thread is left behind."""
    valve = Valve(next(NUMBERS), 1, ROWS)
    looked = bids(valve).lookup(load, "currency", schema=COLUMNS, refresh="10ms")
    looked.to_stream().map(note).write_json(str(tmp_path / "out"))
    with looked._environment.execute_async("look up") as handle:
        wait_until(lambda: handle.done or len(Rates.seen) == 1, "the first row came")
        Rates.hold.clear()
        time.sleep(0.05)  # the next call has begun
        valve.open_to()
        handle.result()
    assert len(Rates.seen) == 4
    Rates.hold.set()


class Flaky:
    """A function that raises now and then, on virtual time; its answer is always the same."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> pa.Table:
        self.calls += 1
        if self.calls % 3 == 2:
            raise ConnectionError("now and then")
        return pa.table({"n": range(0, 120, 2), "half": range(60)})


@pytest.mark.parametrize("unaligned", [True, False])
def test_lookups_under_faults(unaligned: bool) -> None:
    """In the simulator, with kills, pauses, cuts and slow disks: each row once, whenever calls return."""

    def build(env: hg.Environment) -> None:
        numbers = env.from_source(EventSource(range(120), 7), uid="numbers").map(lambda n: {"n": n})
        table = numbers.to_table(pa.schema({"n": pa.int64()}))
        looked = table.lookup(Flaky(), "n", "left", schema="n long, half long", refresh="50ms")
        looked.to_stream().map(lambda row: (row["n"], row["half"])).collect_later(uid="out")

    config = {"execution.checkpointing.unaligned.enabled": unaligned}
    expected = {"out": [(n, None if n % 2 else n // 2) for n in range(120)]}
    report = simulate(build, seeds=range(8), config=config, expected=expected)
    assert report.faults > 0
    assert report.restarts > 0
    assert report.checkpoints > 0


def test_what_cannot_be_loaded_is_refused() -> None:
    """With the line of the call, and what to do."""
    table = environment(1).from_collection(ROWS).to_table(BIDS)
    with pytest.raises(hg.PlanError, match=r"columns that the function returns are not known .* schema="):
        table.lookup(load, "currency")
    with pytest.raises(hg.PlanError, match=r"which takes .row.; expected a function of nothing"):
        table.lookup(lambda row: row, "currency", schema=COLUMNS)  # type: ignore[arg-type, misc]
    with pytest.raises(hg.PlanError, match=r"refresh='1s' with a table, which never changes"):
        table.lookup(pa.table({"currency": ["EUR"]}), "currency", refresh="1s")
    with pytest.raises(hg.PlanError, match="expected a duration above 0"):
        table.lookup(load, "currency", schema=COLUMNS, refresh=0)
    for wrong in (3, hg.retry(if_result=bool)):
        with pytest.raises(hg.PlanError, match=r"got retry=.*; expected hg.retry\(...\) without if_result"):
            table.lookup(load, "currency", schema=COLUMNS, retry=wrong)  # type: ignore[arg-type]
    with pytest.raises(hg.PlanError, match="one that is taken back might find other rows"):
        table.top_n(1, "currency", "n").lookup(load, "currency", schema=COLUMNS)
    text = table.lookup(load, "currency", schema=COLUMNS, refresh="5min").explain()
    assert "each subtask has all rows of load(), called every 5min" in text
