"""The checks of the proof find what they are there to find: a proof that cannot fail proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.state.snapshots import CheckpointMetadata
from proof import checks, plans
from proof.drivers import Chain
from proof.faults import FAULTS, out_of_order
from proof.job import Place, batch_answer, line
from proof.record import FaultResult, RunResult, summary, times
from proof.strikes import KILL_SELF, RAISE, PlannedError, Strikes

JOB = JobId("proof-1")
COMMITS = [
    {"author": "ann", "author_ms": 1, "insertions": 5},
    {"author": "ann", "author_ms": 2, "insertions": 7},
    {"author": "bob", "author_ms": 3, "insertions": 1},
]


def publish(place: Place, *records: dict[str, Any]) -> None:
    """Write output as the job would."""
    place.out.mkdir(parents=True, exist_ok=True)
    (place.out / "part-0.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty run."""
    return Place(tmp_path, tmp_path / "data")


RIGHT = [
    {"count": 1, "author": "ann"},
    {"author": "ann", "count": 2},
    {"author": "bob", "count": 1},
    {"author": "ann", "week": 0, "commits": 2, "lines": 12},
    {"author": "bob", "week": 0, "commits": 1, "lines": 1},
]


def test_the_right_output_passes_in_any_order(place: Place) -> None:
    """The order of lines and of fields does not matter."""
    publish(place, *reversed(RIGHT))
    assert list(checks.check_output(batch_answer(COMMITS), place)) == []


def test_lost_and_doubled_lines_are_found(place: Place) -> None:
    """One line missing and another one twice, although the number of lines is right."""
    publish(place, *RIGHT[1:], RIGHT[-1])
    wrong = list(checks.check_output(batch_answer(COMMITS), place))
    assert [text.partition(",")[0] for text in wrong] == ["1 lines missing", "1 lines too many"]
    assert line(RIGHT[0]) in wrong[0]


def test_pending_files_are_found(place: Place) -> None:
    """What was prepared and neither published nor removed is a left-over."""
    publish(place)
    (place.out / "_pending" / "job+lines").mkdir(parents=True)
    (place.out / "_pending" / "job+lines" / "x.part-1.jsonl").touch()
    assert "pending files" in next(checks.check_output(Counter(), place))


@pytest.mark.parametrize(("ids", "wrong"), [([1, 2, 5], 0), ([], 0), ([1, 1], 1), ([2, 1], 1)])
def test_checkpoints_must_increase(ids: list[int], wrong: int) -> None:
    """Gaps are fine, repetitions and steps back are not."""
    assert len(list(checks.check_order(ids))) == wrong


def complete(storage: Path, *ids: int) -> None:
    """Checkpoints without any state."""
    service = CheckpointService(LocalDisk(storage), JOB)
    permit = service.claim()
    for number in ids:
        service.store(
            permit,
            CheckpointMetadata(
                job=JOB,
                job_name="proof",
                checkpoint=CheckpointId(number),
                generation=permit.generation,
                attempt=1,
                trigger_ms=0,
                max_parallelism=128,
                format_fingerprint=fingerprint(),
                parallelism={},
                operators={},
                enumerators={},
                state_types={},
                totals={},
            ),
        )


def leave_a_marker(job: Path) -> None:
    """As a driver that did not end in order."""
    (job.parent / ".headgate-probe").mkdir()
    (job.parent / ".headgate-probe" / "x").touch()


def test_sound_storage_passes(place: Place) -> None:
    """A log and the files that it names, and nothing else."""
    complete(place.storage, 1, 2)
    assert list(checks.check_storage(place.storage, 2)) == []


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda job: (job / "chk-2" / "_metadata").write_bytes(b"x"), "cannot be read back"),
        (lambda job: (job / "chk-3").mkdir() or (job / "chk-3" / "g1-a1-v0-s0").touch(), "do not count"),
        (lambda job: (job / "chk-2" / ".tmp-1").touch(), "unfinished"),
        (leave_a_marker, "markers"),
        (lambda job: sorted((job / "log").iterdir())[-1].unlink(), "was the last to complete"),
    ],
)
def test_damaged_storage_is_found(place: Place, damage: Any, text: str) -> None:
    """Damage, left-overs and a log that ends too early."""
    complete(place.storage, 1, 2)
    damage(place.storage / JOB)
    assert any(text in found for found in checks.check_storage(place.storage, 2))


def test_living_processes_are_found() -> None:
    """A process that still runs is named; one that has ended, even if nobody asked for its end, is not."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert f"process {child.pid} still runs" in next(checks.check_gone([child.pid], 0))
    child.communicate()
    assert list(checks.check_gone([child.pid], 0)) == []


def test_threads_that_stay_are_found() -> None:
    """Only threads of ours count."""
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait, name="headgate-left")
    thread.start()
    found = list(checks.check_threads(set(), 0))
    leave.set()
    thread.join()
    assert found == ["thread headgate-left of the driver still runs"]


def test_an_armed_place_strikes_once_and_only_where_it_should(tmp_path: Path) -> None:
    """The wrong process passes, the right one strikes, and the next time nothing happens."""
    strikes = Strikes(tmp_path)
    strikes.arm("here", RAISE, only_pid=os.getpid() + 1)
    strikes.reached("here")
    assert strikes.struck_at("here") is None
    strikes.arm("here", RAISE, only_pid=os.getpid())
    with pytest.raises(PlannedError, match="here"):
        strikes.reached("here")
    strikes.reached("here")
    assert strikes.struck_at("here") is not None


def test_a_strike_kills(tmp_path: Path) -> None:
    """The process that comes by is gone, and has told when."""
    strikes = Strikes(tmp_path)
    strikes.arm("here", KILL_SELF)
    code = "import sys; from pathlib import Path; from proof.strikes import Strikes; "
    code += "Strikes(Path(sys.argv[1])).reached('here')"
    root = Path(plans.__file__).parents[1]
    child = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert child.returncode == -9
    assert strikes.struck_at("here") is not None


def test_a_folder_out_of_order_refuses_and_comes_back(tmp_path: Path) -> None:
    """Meanwhile nothing can be read or written below it; afterwards all is as before."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "file").write_text("kept")
    with out_of_order(folder), pytest.raises(NotADirectoryError):
        (folder / "file").read_text()
    assert (folder / "file").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


def test_the_full_plan_has_every_fault_three_times() -> None:
    """At least forty faults, each at least three times; the same seed gives the same plan."""
    runs = plans.full(7)
    struck: Counter[str] = Counter()
    for run in runs:
        struck.update(run.places if isinstance(run, Chain) else [fault.name for fault in run.faults])
    assert struck.total() >= 40
    assert min(struck.values()) >= 3
    assert {fault.name for fault in FAULTS} < struck.keys()
    assert plans.full(7) == runs


def test_faults_that_did_not_strike_are_repeated_and_told() -> None:
    """What the end of a job forestalled comes again; what is missing even then is a violation."""
    plan = plans.Plan("run 1", 1, 2, 300, FAULTS[:2])
    first = RunResult("run 1", 1, [2], 300, [FaultResult(FAULTS[0].name, "a", struck=True)])
    again = plans.repeat([plan], [first], 1)
    assert again is not None
    assert again.faults == FAULTS[1:2]
    assert FAULTS[1].name in str(plans.shortfall([plan], [first]))
    second = RunResult("repeat", 1, [2], 300, [FaultResult(FAULTS[1].name, "a", struck=True)])
    assert plans.repeat([plan], [first, second], 1) is None
    assert plans.shortfall([plan], [first, second]) is None


def test_the_summary_counts_what_struck() -> None:
    """A fault that came too late does not count; times are nearest-rank percentiles."""
    run = RunResult("run", 1, [2], 300, [FaultResult("x", "a", True, 1.0, 2.0), FaultResult("x", "a")])
    run.violations.append("2 lines missing")
    facts = summary([run])
    assert (facts["faults"], facts["violations"], facts["per_fault"]["a: x"]["count"]) == (1, 1, 1)
    assert times([1.0, 3.0, 2.0, None]) == {"median_s": 2.0, "p99_s": 3.0, "max_s": 3.0}
