"""The sections on state: what is compared with what, when a target is met, and what is a failure."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import report, state_access, state_savepoints
from bench.measure import Run
from bench.plan import FULL, SMOKE
from bench.sections import savepoints, state
from bench.state_checkpoints import scattered
from bench.state_operator import Subtask


def access(*shares: float) -> dict[str, Any]:
    """What the access program tells of one number of keys."""
    return {"rows": [{"keys": 1_000, "us": {"dict": 0.1, "operator": 0.2}, "ratios": {"dict": list(shares)}}]}


def checkpoints(full: int, new: int) -> dict[str, Any]:
    """What the checkpoint program tells."""
    taken = {"pause_s": 0.1, "write_s": 0.5, "size": full}
    return {
        "keys": 1_000_000,
        "updates": 1_000,
        "full": taken | {"bytes_written": full},
        "next": taken | {"bytes_written": new},
        "peak_mb": 700,
        "seconds": {"load": 10.0, "update": 0.5},
        "restore_s": {"1": [[9.0], [2.0], [1.0]], "2": [[0.5, 0.8], [0.9, 0.1], [0.1, 0.2]]},
    }


@pytest.mark.parametrize(
    ("shares", "smoke", "met"), [((0.4, 0.6, 0.7), False, True), ((0.4,), False, False), ((0.4,), True, None)]
)
def test_the_share_is_the_median_of_the_rounds(
    shares: tuple[float, ...], smoke: bool, met: bool | None
) -> None:
    """A short run says nothing about the target."""
    (row,) = state.access_rows("heap", "dict", "a dict loop", access(*shares), smoke)
    assert (row.measured, row.met) == (sorted(shares)[len(shares) // 2], met)


def test_a_share_of_which_nothing_is_asked_meets_and_misses_nothing() -> None:
    """What a call costs is shown beside the target, and is none."""
    (row,) = state.access_rows("heap", "dict", state.CALLED, access(0.4), smoke=False, wanted=None)
    assert (row.measured, row.wanted, row.met) == (0.4, "", None)
    assert state.CALLED in row.shown


@pytest.mark.parametrize(("new", "met"), [(5, True), (6, False)])
def test_new_bytes_are_a_share_of_everything(new: int, met: bool) -> None:
    """At most five per cent of the full one's."""
    everything, one_per_cent = state.checkpoint_rows(checkpoints(100, new), smoke=False)
    assert everything.met is None
    assert (one_per_cent.measured, one_per_cent.met) == (new / 100, met)


def test_of_the_subtasks_of_a_restore_the_slower_one_counts() -> None:
    """They are on different workers, and the job begins when both are there."""
    same, halves = state.restore_rows("RocksDB, native", checkpoints(100, 5))
    assert (same.measured, halves.measured) == (500_000, 625_000)


@pytest.mark.parametrize(("peak", "met"), [(2_047, True), (2_048, False)])
def test_memory_is_bounded_by_what_a_worker_may_have(peak: int, met: bool) -> None:
    """And the speeds are per key."""
    memory, load, updates = state.large_rows(checkpoints(100, 5) | {"peak_mb": peak})
    assert (memory.met, load.measured, updates.measured) == (met, 100_000, 2_000)


def test_a_job_is_compared_with_the_steady_part_of_the_other_in_its_round() -> None:
    """Rounds in which one of them failed are left out."""

    def ran(rate: int, **more: Any) -> Run:
        return Run("job", result={"events_per_s": rate, "steady_per_s": rate}, **more)

    pairs = [(ran(900), ran(100)), (ran(800), ran(100, failure="killed")), (ran(500), ran(100))]
    ours, times = state.job_rows(pairs)
    assert (ours.measured, times.measured) == (800, 7)
    assert [row.measured for row in state.job_rows([(ran(900), None)])] == [900]


def test_nothing_is_shown_of_what_failed() -> None:
    """A run without a result gives no rows and a failure."""
    died = Run("state_access", failure="exit code 1")
    assert state.access_rows("heap", "dict", "a dict loop", died.result, False) == []
    assert state.pause_rows({}, False) == state.checkpoint_rows({}, False) == state.large_rows({}) == []
    assert state.failures([died, Run("fine")]) == ["state_access: exit code 1"]


def test_the_large_section_is_left_out_of_the_smoke_form() -> None:
    """It takes minutes; the others are smaller there."""
    section = state.large(SMOKE, pytest.fail)
    assert (section["rows"], section["failed"]) == ([], [])
    for name in ("state_batches", "state_rounds", "state_pause_keys", "state_keys", "state_job_rounds"):
        assert getattr(SMOKE, name) < getattr(FULL, name), name


def test_the_table_shows_every_row() -> None:
    """With what was wanted and whether it is met."""
    rows = [row.plain() for row in state.checkpoint_rows(checkpoints(100, 9), smoke=False)]
    page = io.StringIO()
    sections = {"state": {"rows": rows, "absent": {"transform-with-state": "no Java"}, "failed": []}}
    report.show({"sections": sections, "smoke": False}, Console(file=page, width=150))
    shown = page.getvalue()
    assert "9.0% of everything" in shown
    assert "missed" in shown
    assert "no Java" in shown


def test_every_form_counts_the_same(tmp_path: Path) -> None:
    """The ratios are of equal work: each form has the same counts in the end."""
    batches = [[1, 2, 1], [2, 3, 1]]
    forms = [
        state_access.by_rocksdict(str(tmp_path / "single"), batched=False),
        state_access.by_rocksdict(str(tmp_path / "batched"), batched=True),
        state_access.by_dict(),
        state_access.by_call(),
        state_access.by_operator(),
    ]
    for form in forms:
        form.run(batches)
        form.run(batches)
    assert [[form.read(key) for key in (1, 2, 3)] for form in forms] == [[6, 4, 2]] * 5


def test_a_subtask_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """What is restored in the measurement is the state, not something like it."""
    first = Subtask(storage=tmp_path)
    first.take([1, 4, 1])
    taken = first.checkpoint(1)
    found = []
    for number in (0, 1):
        half = Subtask(storage=tmp_path, restored=[taken.state], subtask=number, parallelism=2)
        found.append(dict(half.operator._backend.handles["count"].table))
    assert found == [{4: 1}, {1: 2}]


def test_all_keys_are_loaded_once() -> None:
    """In an order that is not that of their numbers."""
    assert next(scattered(20_001))[:3] != [0, 1, 2]
    assert sorted(key for batch in scattered(20_001) for key in batch) == list(range(20_001))


def test_the_slower_subtask_counts_for_a_savepoint() -> None:
    """Each part has ten seconds; the smoke form judges nothing."""
    told = {
        "keys": 1_000, "format": "native", "bytes": 10, "write_s": [1.0, 11.0], "verify_s": [0.1, 0.2],
        "restore_s": {"heap": [2.0, 1.0]},
    }  # fmt: skip
    rows = savepoints.savepoint_rows(told, smoke=False)
    assert [(row.measured, row.met) for row in rows] == [(11.0, False), (0.2, True), (2.0, True)]
    assert {row.met for row in savepoints.savepoint_rows(told, smoke=True)} == {None}
    assert savepoints.savepoint_rows({}, smoke=False) == []


def test_a_savepoint_of_each_format_is_measured(tmp_path: Path) -> None:
    """Written, verified and restored by both backends, all keys of it."""
    for form in ("canonical", "native"):
        told = state_savepoints.measure(10_000, form, tmp_path / form)
        assert len(told["write_s"]) == len(told["verify_s"]) == 2
        assert {name: len(found) for name, found in told["restore_s"].items()} == {"heap": 2, "rocksdb": 2}
        assert told["bytes"] > 10_000
