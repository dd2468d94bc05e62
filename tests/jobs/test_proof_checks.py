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
from headgate.common.files.durable import crc32
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    InFlightPart,
    InFlightStream,
    Inline,
    StateHandle,
)
from proof import checks, plans
from proof.border import Border
from proof.drivers import Chain
from proof.faults import DRIVER_PLACES, FAULTS, out_of_order
from proof.job import Brake, Place, batch_answer, line
from proof.modes import (
    ALIGNED,
    MODES,
    TIMEOUT,
    UNALIGNED,
    InFlight,
    Mode,
    Restored,
    check_restored,
    restored_by,
)
from proof.record import FaultResult, RunResult, summary, times
from proof.relays import Relay
from proof.runs import Form, Plan
from proof.strikes import KILL_SELF, RAISE, PlannedError, Strikes
from proof.watcher import Listener, Watcher

JOB = JobId("proof-1")
NOTHING = Inline(b"")
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


def complete(
    storage: Path, *ids: int, job: JobId = JOB, records: int = 0, handle: StateHandle = NOTHING
) -> None:
    """Checkpoints without any state, perhaps with records in flight in two parts."""
    service = CheckpointService(LocalDisk(storage), job)
    parts = [InFlightPart(handle, 0, 1), InFlightPart(Inline(b""), 0, records - 1)]
    stream = InFlightStream("weeks", "commits", None, 0, 0, parts=parts)
    permit = service.claim()
    for number in ids:
        service.store(
            permit,
            CheckpointMetadata(
                job=job,
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
                in_flight=[stream] if records else [],
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


def test_files_of_earlier_checkpoints_count_where_later_ones_need_them(place: Place) -> None:
    """As those of RocksDB, and of logs on the heap, which are stored once; others are left over."""
    needed = FileRange(f"{JOB}/chk-1/g1-a1-v0-s0-0", 0, 4, crc32(b"rows"))
    complete(place.storage, 2, records=2, handle=needed)
    folder = place.storage / JOB / "chk-1"
    folder.mkdir()
    (folder / "g1-a1-v0-s0-0").write_bytes(b"rows")
    assert list(checks.check_storage(place.storage, 2)) == []
    (folder / "g1-a1-v0-s1-0").touch()
    assert any("do not count" in found for found in checks.check_storage(place.storage, 2))


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


def test_what_the_workers_of_a_killed_driver_were_writing_is_no_fault(place: Place) -> None:
    """Only in the folder of its own job, and only if a driver was killed."""
    complete(place.storage, 1, job=JobId("proof-0"))
    (place.storage / "proof-0" / "chk-2").mkdir()
    (place.storage / "proof-0" / "chk-2" / ".tmp-1").touch()
    os.utime(place.storage / "proof-0" / "log", (0, 0))
    complete(place.storage, 1)
    assert any("unfinished" in found for found in checks.check_storage(place.storage, 1))
    leave_a_marker(place.storage / JOB)
    assert list(checks.check_storage(place.storage, 1, killed_drivers=1)) == []
    (place.storage / JOB / "chk-1" / ".tmp-1").touch()
    assert any("unfinished" in found for found in checks.check_storage(place.storage, 1, killed_drivers=1))


def test_records_in_flight_are_counted_in_the_job_that_was_restored(place: Place) -> None:
    """Of the newest job that has the checkpoint; what cannot be read is unknown."""
    storage = place.storage
    complete(storage, 1, 2, job=JobId("proof-0"), records=7)
    os.utime(storage / "proof-0" / "log", (0, 0))
    complete(storage, 1, records=3)
    assert [InFlight(storage).of(number) for number in (1, 2, 3)] == [3, 7, None]
    (storage / "proof-0" / "chk-2" / "_metadata").unlink()
    assert InFlight(storage).of(2) is None


def test_recoveries_are_those_that_came_to_run() -> None:
    """Not the first start, and not an attempt that failed before all its subtasks ran."""
    watcher = Watcher()
    held = {1: 5, 2: None, 3: 0, 4: 40}
    listener = Listener(watcher.note, held.__getitem__)
    for attempt, (checkpoint, runs) in enumerate(
        [(None, True), (1, True), (4, False), (2, True), (3, True), (1, True)], 1
    ):
        listener.deploying(attempt, checkpoint)
        if runs:
            listener.running(attempt)
    assert restored_by(watcher) == Restored(recoveries=4, with_records=2, records=10)


def test_aligned_checkpoints_hold_nothing_in_flight() -> None:
    """Records in one are a violation; in the others they are what is wanted."""
    assert "held 5 records" in next(iter(check_restored(ALIGNED, Restored(2, 1, 5))))
    assert list(check_restored(ALIGNED, Restored(2))) == []
    assert list(check_restored(TIMEOUT, Restored(2, 1, 5))) == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_keyed_function_is_slower_than_the_source_where_records_shall_queue_up(mode: Mode) -> None:
    """All its subtasks together, at any parallelism; aligned runs have no brake."""
    for parallelism in plans.PARALLELISM:
        rate_per_s, cost_s = Form(mode, parallelism, 300).rates()
        assert mode.backpressure == (cost_s > 0)
        assert cost_s == 0 or parallelism / cost_s < rate_per_s


def test_the_brake_is_off_once_the_gate_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no record costs anything any more."""
    slept: list[float] = []
    monkeypatch.setattr("proof.job.time.sleep", slept.append)
    brake = Brake(tmp_path / "gate", 0.25)
    brake.slow_down()
    (tmp_path / "gate").touch()
    brake.slow_down()
    (tmp_path / "gate").unlink()
    brake.slow_down()
    assert slept == [0.25]


def test_living_processes_are_found() -> None:
    """A process that still runs is named; one that has ended, even if nobody asked for its end, is not."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert f"process {child.pid} still runs" in next(checks.check_gone([child.pid], 0))
    child.communicate()
    assert list(checks.check_gone([child.pid], 0)) == []


def test_threads_that_stay_are_found() -> None:
    """Only threads of ours count."""
    leave, before = threading.Event(), {thread.name for thread in threading.enumerate()}
    thread = threading.Thread(target=leave.wait, name="headgate-left")
    thread.start()
    found = list(checks.check_threads(before, 0))
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


def struck_by(runs: list[plans.AnyPlan]) -> Counter[tuple[str, str]]:
    """(mode, fault) of all plans but relays and borders, which have test files of their own."""
    struck: Counter[tuple[str, str]] = Counter()
    for run in runs:
        if not isinstance(run, Relay | Border):
            names = run.places if isinstance(run, Chain) else [fault.name for fault in run.faults]
            struck.update((run.mode.name, name) for name in names)
    return struck


def test_the_full_plan_has_every_fault_in_every_mode() -> None:
    """So each three times, drivers killed at each place as well; the same seed gives the same plan."""
    runs = plans.full(7)
    struck = struck_by(runs)
    faults = [*(fault.name for fault in FAULTS), *DRIVER_PLACES]
    assert set(struck) == {(mode.name, name) for mode in MODES for name in faults}
    assert all(struck[mode.name, fault.name] == 1 for mode in MODES for fault in FAULTS)
    assert plans.full(7) == runs
    assert [run.mode for run in runs[:4]] == [*MODES, MODES[0]]


def test_the_full_plan_meets_every_parallelism_in_every_mode() -> None:
    """The two go round at different speeds."""
    met = {(run.mode, run.parallelism) for run in plans.full(7) if isinstance(run, Plan)}
    assert met >= {(mode, parallelism) for mode in MODES for parallelism in plans.PARALLELISM}


@pytest.mark.parametrize("seed", range(6))
def test_the_smoke_form_has_every_fault_once_and_every_mode(seed: int) -> None:
    """And one killed driver whose successor restores records in flight at another parallelism."""
    runs = plans.smoke(seed)
    assert {run.mode for run in runs} == set(MODES)
    struck = struck_by(runs)
    assert all(sum(struck[mode.name, fault.name] for mode in MODES) == 1 for fault in FAULTS)
    (chain,) = (run for run in runs if isinstance(run, Chain))
    assert chain.mode.backpressure
    assert len(set(chain.parallelism)) == 2


def test_readers_never_become_fewer_in_a_chain() -> None:
    """A reader that took over a late file and an early one would make records late."""
    for run in plans.full(7):
        if isinstance(run, Chain):
            readers = [run.sources or parallelism for parallelism in run.parallelism]
            assert readers == sorted(readers)


def struck(mode: Mode, *names: str, restored: Restored | None = None) -> RunResult:
    """A run in which these faults struck."""
    faults = [FaultResult(name, "a", struck=True) for name in names]
    return RunResult("run", 1, [2], 300, mode.name, faults, restored=restored or Restored())


def test_faults_that_did_not_strike_are_repeated_and_told() -> None:
    """What the end of a job forestalled comes again in its mode; what is missing even then is a violation."""
    plan = Plan("run 1", 1, ALIGNED, 2, 300, FAULTS[:2])
    first = struck(ALIGNED, FAULTS[0].name)
    (again,) = plans.repeat([plan], [first], 1)
    assert (again.faults, again.mode) == (FAULTS[1:2], ALIGNED)
    assert FAULTS[1].name in str(plans.shortfall([plan], [first]))
    assert plans.repeat([plan], [first, struck(TIMEOUT, FAULTS[1].name)], 1) == [again]
    second = struck(ALIGNED, FAULTS[1].name)
    assert plans.repeat([plan], [first, second], 1) == []
    assert plans.shortfall([plan], [first, second]) == []


@pytest.mark.parametrize("mode", [UNALIGNED, TIMEOUT], ids=lambda mode: mode.name)
def test_a_proof_without_restored_records_in_flight_does_not_claim_them(mode: Mode) -> None:
    """Each mode for itself: another one's recoveries do not count."""
    planned = [Plan("run 1", 1, each, 2, 300, FAULTS[:1]) for each in MODES]
    some = Restored(recoveries=2, with_records=1, records=9)
    runs = [
        struck(each, FAULTS[0].name, restored=Restored(2) if each in (mode, ALIGNED) else some)
        for each in MODES
    ]
    assert plans.shortfall(planned, runs) == [
        f"none of 2 recoveries in {mode.name} runs restored records in flight"
    ]
    assert plans.shortfall(planned, [*runs, struck(mode, restored=some)]) == []


def test_the_summary_counts_records_in_flight_by_mode() -> None:
    """Runs of a mode are added up."""
    runs = [struck(TIMEOUT, "x", restored=Restored(3, 2, 10)), struck(TIMEOUT, restored=Restored(1, 1, 5))]
    assert summary(runs)["modes"]["timeout"] == {
        "runs": 2,
        "faults": 1,
        "recoveries": 4,
        "recoveries_with_records_in_flight": 3,
        "records_in_flight": 15,
    }


def test_the_summary_counts_what_struck() -> None:
    """A fault that came too late does not count; times are nearest-rank percentiles."""
    run = RunResult(
        "run", 1, [2], 300, "aligned", [FaultResult("x", "a", True, 1.0, 2.0), FaultResult("x", "a")]
    )
    run.violations.append("2 lines missing")
    facts = summary([run])
    assert (facts["faults"], facts["violations"], facts["per_fault"]["a: x"]["count"]) == (1, 1, 1)
    assert times([1.0, 3.0, 2.0, None]) == {"median_s": 2.0, "p99_s": 3.0, "max_s": 3.0}
