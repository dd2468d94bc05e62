"""What the proof asks of drivers that take over from each other finds what it is there to find."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.entries import Completed
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.state.snapshots import CheckpointMetadata, FileRange, InFlightPart, InFlightStream
from proof import checks, plans
from proof.job import Place
from proof.modes import MODES
from proof.relays import RANDOM, STEPS, Found, Relay, check_nothing_lost, fault_name, look

JOB = JobId("proof-0")


def relays(runs: list[plans.AnyPlan]) -> list[Relay]:
    """Those of a plan."""
    return [run for run in runs if isinstance(run, Relay)]


@pytest.mark.parametrize("seed", range(3))
def test_leaders_are_killed_at_every_step_in_every_mode(seed: int) -> None:
    """And at random moments; some on Spark, where workers are processes."""
    runs = relays(plans.full(seed))
    here = [run for run in runs if not run.on_spark]
    assert sum(len(run.places) for run in here) >= 30
    assert {run.mode for run in here} == set(MODES)
    assert all(set(run.places) == {*STEPS, *RANDOM} for run in here)
    assert sum(len(run.places) for run in runs if run.on_spark) >= 4
    assert [run.places for run in relays(plans.full(seed))] == [run.places for run in runs]
    (smoke,) = relays(plans.smoke(seed))
    assert len(smoke.places) == 2
    assert relays(plans.full(seed, "a")) == []
    assert plans.full(seed, "h") == relays(plans.full(seed, "h"))


def test_a_kill_that_did_not_strike_is_missed() -> None:
    """A relay that ended early proves less than it claims."""
    plan = relays(plans.smoke(1))[0]
    told = str(plans.shortfall([plan], []))
    assert all(fault_name(place) in told for place in plan.places)


def found(*ids: int, generation: int = 1) -> Found:
    """A log with these checkpoints."""
    return Found(tuple(Completed(generation, "", number, f"chk-{number}", "00") for number in ids))


@pytest.mark.parametrize(
    ("before", "now", "told", "wrong"),
    [
        (found(), found(), [], ""),
        (found(1, 2), found(1, 2, 3), [3], ""),
        (found(1, 2), found(2, 5), [5], ""),
        (found(1, 2), found(8, 9), [7, 8, 9], ""),
        (found(1, 2), found(), [], "the log is empty"),
        (found(1, 2, 3), found(1, 2), [], "ends with 2"),
        (found(1, 2, 3), found(1, 3, 4), [], "no continuation"),
        (found(1, 2), found(1, 2, generation=2), [], "no continuation"),
        (found(1), found(1, 2), [3], r"\[3\] were complete"),
        (found(), found(1, 3, 2), [], "out of order"),
    ],
)
def test_lost_checkpoints_are_found(before: Found, now: Found, told: list[int], wrong: str) -> None:
    """Only the oldest may go, by retention."""
    said = list(check_nothing_lost(before, now, told))
    assert bool(said) == bool(wrong)
    assert re.search(wrong, str(said))


def complete(storage: Path, *ids: int) -> CheckpointService:
    """Checkpoints that refer to one file each."""
    disk = LocalDisk(storage)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    for number in ids:
        name = f"{JOB}/chk-{number}/data"
        disk.create(name, [b"records"])
        parts = [InFlightPart(FileRange(name, 0, 7, zlib.crc32(b"records")), 0, 1)]
        content = metadata(number, permit.generation)
        content.in_flight.append(InFlightStream("weeks", "commits", None, 0, 0, parts=parts))
        service.store(permit, content)
    return service


def metadata(number: int, generation: int) -> CheckpointMetadata:
    """Of a checkpoint without state."""
    return CheckpointMetadata(
        job=JOB,
        job_name="proof",
        checkpoint=CheckpointId(number),
        generation=generation,
        attempt=1,
        trigger_ms=0,
        max_parallelism=128,
        format_fingerprint=fingerprint(),
        parallelism={},
        operators={},
        enumerators={},
        state_types={},
        totals={},
        in_flight=[],
    )


def test_what_a_dead_driver_left_is_told_from_what_counts(tmp_path: Path) -> None:
    """What was on its way is left over; that is no fault, and the next start sweeps it."""
    wrong: list[str] = []
    assert look(tmp_path / "nothing", wrong) == Found()
    service = complete(tmp_path, 1, 2)
    LocalDisk(tmp_path).create(f"{JOB}/chk-3/data", [b"on its way"])
    left = look(tmp_path, wrong)
    assert ([entry.checkpoint for entry in left.logged], left.newest) == ([1, 2], 2)
    assert [Path(uri).parent.name for uri in left.left_over] == ["chk-3"]
    assert wrong == []
    service.sweep_orphans(service.claim())
    assert look(tmp_path, wrong).left_over == frozenset()
    assert wrong == []


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"Records")])
def test_a_damaged_checkpoint_that_counts_is_found(tmp_path: Path, damage: Any) -> None:
    """A file that is gone, and one that is not what was written."""
    complete(tmp_path, 1, 2)
    damage(tmp_path / JOB / "chk-1" / "data")
    wrong: list[str] = []
    look(tmp_path, wrong)
    assert len(wrong) == 1
    assert "chk-1/data" in wrong[0]


def test_two_jobs_of_one_name_are_found(tmp_path: Path) -> None:
    """A driver that did not find its job began another one."""
    complete(tmp_path, 1)
    complete_as = CheckpointService(LocalDisk(tmp_path), JobId("proof-1"))
    complete_as.claim()
    wrong: list[str] = []
    look(tmp_path, wrong)
    assert "2 jobs instead of one" in str(wrong)


def test_output_so_far_may_lack_lines_but_not_repeat_them(tmp_path: Path) -> None:
    """Between two drivers the rest is yet to come."""
    place = Place(tmp_path, tmp_path / "data")
    place.out.mkdir()
    (place.out / "part-0.jsonl").write_text('{"a": 1}\n')
    answer = Counter({'{"a": 1}': 1, '{"b": 2}': 1})
    assert list(checks.check_not_too_many(answer, place)) == []
    (place.out / "part-1.jsonl").write_text('{"a": 1}\n')
    assert "1 lines too many" in next(checks.check_not_too_many(answer, place))
