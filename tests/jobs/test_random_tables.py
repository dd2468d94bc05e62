"""Random tables under every way of taking checkpoints: their rows are those of plain Python."""

from __future__ import annotations

import pytest

from headgate.testing.simulation.faults import MIXES
from headgate.testing.simulation.invariants import Violation
from sim.planted import TABLE_BUGS, planted
from sim.tables import HOWS, KINDS, Windows, draw_tables
from sim.tables_answer import Fixed, TableRow, rows_of, tables_answer
from sim.tables_checks import demand_consistent, demand_rows
from sim.tables_runs import run_tables, run_tables_without_faults
from sim.topology_runs import MODES, TopologyOutcome

SEEDS = range(4)
SEEDS_LONG = range(2_000, 2_060)
SEEDS_LATE = range(10)
SEEDS_MAX = 150
"""A planted bug must be found within so many, counted from where it was found first."""


def failures(outcomes: list[TopologyOutcome]) -> str:
    """What went wrong, each with the command that shows it again; empty when nothing did."""
    return "\n\n".join(run.tell() for run in outcomes if run.outcome.violation is not None)


@pytest.mark.parametrize("mode", MODES)
def test_tables_run_undisturbed(mode: str) -> None:
    """Without faults the rows are exact, at-least-once included."""
    outcomes = [run_tables_without_faults(seed, mode, late=False) for seed in range(2)]
    assert failures(outcomes) == ""
    assert sum(run.outcome.restarts for run in outcomes) == 0


@pytest.mark.parametrize("mode", MODES)
def test_tables_survive_faults(mode: str) -> None:
    """No window is missing, sent out twice or sent out in part, and no record is late."""
    outcomes = [run_tables(seed, mode, late=False) for seed in SEEDS]
    assert failures(outcomes) == ""
    assert sum(run.outcome.restarts + run.outcome.drivers - 1 for run in outcomes) > 1
    assert sum(run.dropped for run in outcomes) == 0 or mode == "at-least-once"


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_tables_survive_other_parallelisms(mode: str) -> None:
    """While the job runs, also from checkpoints with records in flight."""
    outcomes = [run_tables(seed, mode, MIXES["rescales"]) for seed in SEEDS]
    assert failures(outcomes) == ""
    assert any("parallelism" in fault for run in outcomes for fault in run.outcome.faults)


def test_late_records_are_in_a_window_or_counted() -> None:
    """Over restarts, savepoints and other drivers each record is one or the other, and some are late."""
    outcomes = [run_tables(seed, late=True) for seed in SEEDS_LATE]
    assert failures(outcomes) == ""
    assert sum(run.dropped for run in outcomes) > len(SEEDS_LATE)
    assert sum(run.outcome.restarts for run in outcomes) > 0


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_many_tables_survive_faults(mode: str) -> None:
    """The same for many more."""
    assert failures([run_tables(seed, mode) for seed in SEEDS_LONG]) == ""


@pytest.mark.ci
@pytest.mark.parametrize("bug", sorted(TABLE_BUGS))
def test_planted_bugs_are_found(bug: str) -> None:
    """What the checks are there to find, they find, near the seed that is known to show it."""
    found = TABLE_BUGS[bug]
    seeds = range(found.first, found.first + SEEDS_MAX)
    with planted(bug):
        runs = (run_tables(seed, found.mode, MIXES[found.mix]) for seed in seeds)
        assert any(run.outcome.violation for run in runs)


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same topology and the same trace; the command that is told names it."""
    first, again = run_tables(2, "unaligned"), run_tables(2, "unaligned")
    assert first.topology == again.topology
    assert first.outcome.digest == again.outcome.digest
    assert first.again == "python -m sim --jobs tables --mode unaligned --seed 2 --story"


def test_tables_are_diverse() -> None:
    """Seeds draw every kind of window and of join, windows of windows, with and without keys and filters."""
    steps = [step for seed in range(200) for step in draw_tables(seed).steps]
    assert {step.verb for step in steps} == {
        *("source", "filter", "windows", "again", "join", "rows"),
    }
    windows = [step.windows for step in steps if step.windows is not None]
    assert {each.kind for each in windows} == set(KINDS)
    assert {step.how for step in steps if step.verb == "join"} == set(HOWS)
    assert {each.keys > 0 for each in windows} == {each.keeps > 0 for each in windows} == {True, False}


def test_records_of_late_jobs_are_each_in_one_window() -> None:
    """Else dropped and counted could not add up to what was read."""
    for seed in range(40):
        answer = tables_answer(draw_tables(seed, late=True))
        ((uid, read),) = answer.read.items()
        assert sum(row.sums[0] or 0 for row in answer.tables[uid]) == read


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (Windows("tumbling", 100, 100, 0), {(0, 100): 2, (100, 200): 1}),
        (Windows("sliding", 100, 50, 0), {(-50, 50): 1, (0, 100): 2, (50, 150): 2, (100, 200): 1}),
        (Windows("cumulative", 100, 50, 0), {(0, 50): 1, (0, 100): 2, (100, 150): 1, (100, 200): 1}),
        (Windows("session", 50, 50, 0), {(0, 50): 1, (60, 150): 2}),
        (Windows("session", 60, 60, 0), {(0, 160): 3}),
    ],
)
def test_the_answer_of_windows(windows: Windows, expected: dict[tuple[int, int], int]) -> None:
    """Three records: bounds belong to the later window, and sessions that touch are one."""
    rows = rows_of(windows, [(1, 100), (1, 0), (1, 60)])
    assert {(row.fixed.start, row.fixed.end): row.sums[0] for row in rows} == expected


def row(end: int, count: int, start: int = 0) -> TableRow:
    """A row of values that are all 1."""
    return TableRow(Fixed(None, start, end, (1, 1)), (count, count))


@pytest.mark.parametrize(
    ("got", "exact", "refused"),
    [
        ([row(10, 2), row(20, 3)], True, False),
        ([row(20, 3)], True, True),
        ([row(10, 2), row(20, 3), row(20, 3)], True, True),
        ([row(10, 2), row(20, 1), row(20, 2)], True, True),
        ([row(10, 2), row(20, 3), row(20, 4)], False, False),
        ([row(10, 2), row(20, 2)], False, True),
        ([row(10, 2)], False, True),
        ([row(10, 2), row(20, 3), row(30, 1)], False, True),
    ],
)
def test_the_check_of_rows(got: list[TableRow], exact: bool, refused: bool) -> None:
    """Missing, partial and unknown windows are refused; repeated ones and more records under exactly-once."""
    right = [row(10, 2), row(20, 3)]
    if not refused:
        demand_rows("out", got, right, exact)
        return
    with pytest.raises(Violation, match="sink 'out' holds"):
        demand_rows("out", got, right, exact)


@pytest.mark.parametrize(
    ("got", "late", "exact", "refused"),
    [
        ([row(10, 2), row(20, 2, 10)], 1, True, ""),
        ([row(10, 2), row(20, 2, 10)], 0, True, "were late"),
        ([row(10, 1), row(10, 1), row(20, 2, 10)], 1, True, "with one end"),
        ([row(10, 2), row(20, 3, 10)], 1, False, ""),
        ([row(10, 5)], 0, True, "no part of the window"),
        ([row(30, 5, 20)], 0, False, "no part of the window"),
    ],
)
def test_the_check_of_late_records(got: list[TableRow], late: int, exact: bool, refused: str) -> None:
    """Every record is in one window or late, and windows are those of the answer, or a part of them."""
    answer = tables_answer(draw_tables(0, late=True))
    (step,) = answer.tables
    answer.tables[step], answer.read[step] = [row(10, 2), row(20, 3, 10)], 5
    if not refused:
        demand_consistent("out", got, answer, step, late, exact)
        return
    with pytest.raises(Violation, match=refused):
        demand_consistent("out", got, answer, step, late, exact)
