"""How a cell of the comparison comes about: limits, failures, wrong answers; real programs behave so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

from bench.compare import cells
from bench.compare.cells import (
    ABSENT,
    CANNOT,
    FAILED,
    MEASURED,
    NOT_WRITTEN,
    OVER_TIME,
    WRONG,
    Cell,
    Measurement,
    Plan,
)
from bench.compare.entries import Entry, Lacking
from bench.compare.events import PARTS, EventSet
from bench.compare.queries import QUERIES
from bench.compare.systems import FLINK, System

EVENTS = EventSet(3_000, 100)
PLAN = Plan(EVENTS, install=False, prefix=1_000, start_limit_s=20.0)
QUERY = QUERIES["q2"]

PROGRAM = """
import json, sys, time
from pathlib import Path
import pyarrow.parquet as pq
how, order = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
if how == "broken":
    sys.exit("no such table")
if how == "sleeping":
    time.sleep(60)
bids = pq.read_table(order["tables"]["bid"]["folder"], columns=["auction", "price"])
rows = [row for row in bids.to_pylist() if row["auction"] % 123 == 0]
if how == "full" and bids.num_rows > 1000:
    sys.exit("blob too big")
if how == "losing":
    rows = rows[1:]
for row in rows[:1] if how == "spoiling" else []:
    row["price"] += 1
if order["out"]:
    Path(order["out"]).mkdir()
    with open(order["out"] + "/part-0.json", "w") as file:
        file.writelines(json.dumps(row) + "\\n" for row in rows)
seconds = {"slow": 1.0, "slow at first": 1.0 if bids.num_rows < 1000 else 1e-3}.get(how, 1e-3)
told = {"records": len(rows)} if how == "losing" else {}
now = time.time()
print("RESULT", json.dumps({"began": now - seconds, "ended": now, "versions": {"engine": "1"}, **told}))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache of the tests' own."""
    folder = tmp_path_factory.getbasetemp() / "cache-of-cells"
    monkeypatch.setenv("HEADGATE_BENCH_CACHE", str(folder))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """An engine that behaves as its first argument says."""
    path = tmp_path / "engine.py"
    path.write_text(PROGRAM)
    return path


def engine(program: Path, how: str, entry: Entry = "q2") -> System:
    """A system that runs the program."""
    return System("flink", "Engine", PARTS, lambda _: entry, (str(program), how), "of a test")


def cell_of(system: System, plan: Plan = PLAN, said: list[str] | None = None) -> Cell:
    """Measured and checked."""
    told = [] if said is None else said
    measurement = Measurement(QUERY, system, plan, cells.Answers(QUERY), told.append)
    for _ in range(plan.rounds):
        measurement.next_round()
    measurement.check()
    return measurement.cell


def test_a_fast_engine_is_measured_on_all_events(program: Path) -> None:
    """Two rounds; its answer is compared row by row."""
    cell = cell_of(engine(program, "fast"), replace(PLAN, rounds=2))
    assert (cell.status, cell.reason, cell.checked) == (MEASURED, "", "all rows")
    assert (cell.events, len(cell.rates), len(cell.runs)) == (2_760, 2, 2)
    assert cell.rate is not None
    assert cell.rate > cells.SLOW_PER_S
    assert cell.versions == {"engine": "1"}
    assert cell.starts_s[0] > 0


def test_a_slow_engine_is_measured_on_the_first_events(program: Path) -> None:
    """Below 100,000 events a second the run on the prefix is the measurement, and is what is checked."""
    said: list[str] = []
    cell = cell_of(engine(program, "slow"), said=said)
    assert (cell.status, cell.events, cell.checked) == (MEASURED, 920, "all rows")
    assert said == ["q2 Engine, 1,000 events", "q2 Engine, 1,000 events, check"]


def test_the_prefix_alone_decides(program: Path) -> None:
    """An engine that is fast beyond it has been measured on it all the same."""
    assert cell_of(engine(program, "slow at first")).events == 920
    whole = replace(PLAN, prefix=EVENTS.count)
    assert cell_of(engine(program, "slow at first"), whole).events == 2_760


def test_an_engine_that_fails_on_all_events_is_measured_on_the_first(program: Path) -> None:
    """With the cause, so that nobody takes it for slow."""
    cell = cell_of(engine(program, "full"))
    assert (cell.status, cell.events, cell.checked) == (MEASURED, 920, "all rows")
    assert cell.reason == "it failed on all events: exit code 1, no result: blob too big"


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("broken", FAILED, "exit code 1, no result: no such table"),
        ("losing", WRONG, "it gave 8 rows; expected 9"),
        (
            "spoiling",
            WRONG,
            "while its answer was checked: it wrote 9 rows as expected, but not with the right",
        ),
    ],
)
def test_a_failure_is_a_cell_with_its_reason(program: Path, how: str, status: str, reason: str) -> None:
    """No number of it counts."""
    cell = cell_of(engine(program, how))
    assert (cell.reason[: len(reason)], cell.status, cell.rate) == (reason, status, None)


def test_a_run_over_its_time_is_ended(program: Path) -> None:
    """The limit grows with the events."""
    assert cells.time_limit_s(2_000_000, 0.0) == 400.0
    cell = cell_of(engine(program, "sleeping"), replace(PLAN, start_limit_s=1.8))
    assert (cell.status, cell.reason) == (OVER_TIME, "not done within its limit of 2 s")


def test_what_an_engine_is_not_asked() -> None:
    """It cannot, nobody wrote it, or it is not here; nothing is run."""
    program = Path("never run")
    cannot = cell_of(engine(program, "fast", Lacking("no decimals")))
    assert (cannot.status, cannot.reason) == (CANNOT, "no decimals")
    unwritten = cell_of(engine(program, "fast", Lacking("nobody did", cannot=False)))
    assert unwritten.status == NOT_WRITTEN
    absent = cell_of(FLINK)
    assert (absent.status, absent.reason) == (
        ABSENT,
        "flink is not installed (a run without --smoke installs it)",
    )


def test_cpu_time_counts_between_the_first_record_and_the_last() -> None:
    """What starting cost is not in it; ends beyond the looks take the nearest one."""
    looks = [(10.0, 1.0), (11.0, 3.0), (12.0, 3.5)]
    assert cells.cpu_between(looks, 10.5, 12.0) == pytest.approx(1.5)
    assert cells.cpu_between(looks, 5.0, 20.0) == pytest.approx(2.5)
    assert cells.cpu_between([], 1.0, 2.0) == 0.0
