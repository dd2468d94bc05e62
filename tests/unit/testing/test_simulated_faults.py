"""The parts of the simulator that strike, watch and tell do what the simulations rely on."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.savepoints import SavepointFolder
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries
from headgate.checkpoint.store.entries import Claim, Completed, digest, encode_entry
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId, JobId
from headgate.ha.files.file_election import FileElection
from headgate.runtime.protocol import messages as m
from headgate.testing.simulation.clock import SimClock, Timeline
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.faults import ALL_KINDS, MIXES, REQUESTS, Faults
from headgate.testing.simulation.file_invariants import StoredFiles, Violation
from headgate.testing.simulation.links import make_link
from headgate.testing.simulation.simulated_leadership import SimLeadership
from headgate.testing.simulation.simulated_processes import ProcessKilled
from headgate.testing.simulation.trace import KEPT, CheckpointTraces
from headgate.testing.simulation.virtual_disk import URI, SimDisk, SimFiles
from headgate.testing.simulation.world import shown

SOMEBODY = "master"


def test_every_kind_of_fault_exists() -> None:
    """Mixes name methods that are there, and every kind is part of a mix."""
    named = {kind for mix in MIXES.values() for kind in mix.kinds}
    assert named == {*ALL_KINDS, *REQUESTS}
    assert all(callable(getattr(Faults, kind)) for kind in named)


def test_messages_keep_their_order_however_slow() -> None:
    """A wire that becomes quick again lets nothing overtake; only a repeated message comes out of order."""
    now = [0]
    worker, master = make_link("w", lambda: now[0], lambda: 0, lambda: False)
    heard: list[Any] = []
    master.back.on_message = heard.append
    worker.out.slow_ms = 50
    worker.send(m.Deployed(1))
    worker.out.slow_ms = 0
    worker.send(m.Deployed(2))
    assert worker.out.due == 50
    now[0] = 50

    def repeat_once(message: Any, data: bytes) -> str:
        worker.out.tamper = lambda message, data: "arrives"
        worker.out.repeat(data, 20)
        return "arrives"

    worker.out.tamper = repeat_once
    worker.out.deliver()
    worker.out.deliver()
    assert worker.out.due == 70
    worker.out.deliver()
    assert [message.attempt for message in heard] == [1, 2, 1]


def test_messages_can_be_lost() -> None:
    """What is lost is heard by nobody, and the connection lives on."""
    worker, master = make_link("w", lambda: 0, lambda: 0, lambda: False)
    heard: list[Any] = []
    master.back.on_message = heard.append
    worker.out.tamper = lambda message, data: "lost" if isinstance(message, m.Deployed) else "arrives"
    worker.send(m.Deployed(1))
    worker.send(m.Idle(1, []))
    assert worker.out.deliver() == "loses Deployed attempt=1"
    worker.out.deliver()
    assert heard == [m.Idle(1, [])]


def test_a_vanished_master_is_silent() -> None:
    """Nothing tells the worker that the machine of its job master is gone."""
    worker, master = make_link("w", lambda: 0, lambda: 0, lambda: False)
    master.vanish()
    assert worker.back.due is None
    worker.send(m.Deployed(1))
    assert worker.out.deliver() == "to nobody"


def test_a_killed_writer_leaves_an_unfinished_file() -> None:
    """It is no file by any look but that for unfinished ones, from where it can be deleted."""
    files = SimFiles()

    def killed(operation: str, name: str) -> Any:
        raise ProcessKilled(name)

    with pytest.raises(ProcessKilled):
        SimDisk(files, killed).create("job/a", [b"0123"])
    disk = SimDisk(files)
    assert isinstance(disk, KeepsTemporaries)
    assert (list(disk.list("")), files.files) == ([], {})
    (name,) = disk.temporaries("job")
    assert name.startswith("job/.tmp-")
    disk.delete(name)
    assert disk.temporaries("job") == []


def test_disks_below_a_folder() -> None:
    """Names are relative to the URI that a disk was opened by; other storages are refused."""
    files = SimFiles()
    disk = SimDisk.at(f"{URI}/savepoints/", files)
    disk.create("s/_metadata", [b"x"])
    assert (disk.list(""), list(files.files)) == (["s/_metadata"], ["savepoints/s/_metadata"])
    assert disk.describe("s") == f"{URI}/savepoints/s"
    with pytest.raises(StorageError, match="nothing in a simulation"):
        SimDisk.at("s3://bucket", files)


def test_traces_do_not_show_names_that_no_seed_decides() -> None:
    """Trial files are drawn outside of any seed, markers are not."""
    assert shown("savepoints/.headgate-probe/0a1b") == "savepoints/.headgate-probe/*"
    assert shown(".headgate-probe/marker1ofsimulated") == ".headgate-probe/marker1ofsimulated"
    assert shown("job/chk-1/a") == "job/chk-1/a"


# -- what must hold of files


def logged(files: SimFiles, *checkpoints: int, name: str = "job/chk-{}/_metadata") -> CompletedCheckpointLog:
    """A log whose entries name metadata that is no metadata."""
    log = CompletedCheckpointLog(SimDisk(files), log_folder(JobId("job")))
    permit = log.claim()
    for checkpoint in checkpoints:
        log.append(permit, CheckpointId(checkpoint), name.format(checkpoint), digest(b"x"))
    return log


def test_the_log_is_read_behind_trims() -> None:
    """Ids and generation are known, also when the claim was trimmed."""
    files = SimFiles()
    stored = StoredFiles(files)
    log = logged(files, 1, 2, 3)
    permit = log.claim()
    log.append(permit, CheckpointId(5), "job/chk-5/_metadata", "")
    log.trim(permit, CheckpointId(5))
    assert [entry.checkpoint for entry in stored.completed("job")] == [5]
    assert (stored.generation("job"), stored.jobs()) == (2, ["job"])


def test_an_entry_of_a_replaced_leader_is_seen() -> None:
    """Behind a claim nobody else appends; ids grow."""
    files = SimFiles()
    stored = StoredFiles(files)
    logged(files, 1)
    logged(files)
    end = files.names("job/log")[-1]
    late = Completed(1, digest(files.files[end]), 2, "job/chk-2/_metadata", "")
    place = f"job/log/{int(end[-19:]) + 1:019d}"
    files.files[place] = encode_entry(late)
    with pytest.raises(Violation, match=r"of generation 1 stands .* after the claim of generation 2"):
        stored.changed(SOMEBODY, place)


def test_ids_that_fall_are_seen() -> None:
    """A checkpoint that stands behind a newer one, and one that is gone from the end."""
    files = SimFiles()
    stored = StoredFiles(files)
    logged(files, 3)
    stored.changed(SOMEBODY, "job/log/x")
    end = files.names("job/log")[-1]
    lower = Completed(1, digest(files.files[end]), 2, "", "")
    place = f"job/log/{int(end[-19:]) + 1:019d}"
    files.files[place] = encode_entry(lower)
    with pytest.raises(Violation, match="checkpoint 2 stands after 3"):
        stored.changed(SOMEBODY, place)
    del files.files[place], files.files[end]
    with pytest.raises(Violation, match="checkpoint 3 of job is not the last"):
        stored.changed(SOMEBODY, end)


def test_a_claim_that_does_not_grow_is_seen() -> None:
    """Two leaders of one generation."""
    files = SimFiles()
    logged(files)
    (first,) = files.names("job/log")
    again = f"job/log/{1:019d}"
    files.files[again] = encode_entry(Claim(1, digest(files.files[first])))
    with pytest.raises(Violation, match="claims job again as generation 1"):
        StoredFiles(files).changed(SOMEBODY, again)


def test_missing_and_changed_metadata_is_seen() -> None:
    """What the log names is there, and is what it was."""
    files = SimFiles()
    stored = StoredFiles(files)
    logged(files, 1)
    with pytest.raises(Violation, match="checkpoint 1 is in the log, but job/chk-1/_metadata does not exist"):
        stored.demand_complete("job")
    files.files["job/chk-1/_metadata"] = b"y"
    with pytest.raises(Violation, match="with another job/chk-1/_metadata"):
        stored.demand_complete("job")


def test_a_savepoint_that_is_none_is_seen() -> None:
    """Somebody was told of a savepoint whose metadata cannot be read."""
    files = SimFiles()
    folder = SavepointFolder(SimDisk.at(f"{URI}/savepoints", files), "savepoint-1")
    with pytest.raises(Violation, match="savepoint-1 was reported as done, but"):
        StoredFiles(files).savepoint(folder.uri)


# -- stories and counted crashes


def test_the_story_of_the_checkpoint_that_failed() -> None:
    """Who was asked and who acknowledged; a violation says which checkpoint, otherwise it is the last."""
    traces = CheckpointTraces()
    for checkpoint in (1, 2):
        traces.message(3, "worker 1.0", m.Trigger(1, checkpoint, 0))
        traces.message(4, "master", m.Decline(1, checkpoint, 2, 0, "WHY", ""))
        traces.file(5, "master", "create", f"job/chk-{checkpoint}/_metadata", "unsure")
        traces.file(6, "master", "read", f"job/chk-{checkpoint}/_metadata", "works")
    assert traces.story("completed checkpoint 1 cannot be read") == [
        "checkpoint 1:",
        "      3 worker 1.0 is asked (aligned)",
        "      4 master hears that 2.0 declines: WHY",
        "      5 master: create job/chk-1/_metadata unsure",
    ]
    assert traces.story("something else")[0] == "checkpoint 2:"
    assert traces.story(None) == []


def test_only_the_last_stories_are_kept() -> None:
    """A long simulation does not grow."""
    traces = CheckpointTraces()
    for checkpoint in range(1, KEPT + 3):
        traces.note(checkpoint, 0, "x")
    assert traces.story("checkpoint 1")[0] == f"checkpoint {KEPT + 2}:"
    assert traces.story("checkpoint 3")[0] == "checkpoint 3:"


class Victim:
    """A driver that can be killed."""

    def __init__(self) -> None:
        self.alive, self.said = True, ""
        self.name = "master"
        self.scene = SimpleNamespace(fault=lambda what: None)

    def kill(self, why: str, *, silently: bool) -> None:
        self.alive, self.said = False, why


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_driver_dies_at_the_step_that_is_wanted(phase: Any) -> None:
    """Steps count from the trigger on; before its effect, or after."""
    driver: Any = Victim()
    points = CrashPoints(checkpoint=2, strike_at=1, phase=phase)
    assert points.message(driver, "early") is None
    points.triggered(driver, 2)
    points.after(points.message(driver, "first"))
    assert driver.alive
    step = points.disk(driver, "create", "a")
    assert driver.alive is (phase == "after")
    points.after(step)
    assert (driver.alive, points.struck, points.steps) == (False, True, ["message, first", "master create a"])
    assert driver.said == f"{phase} step 1, master create a"


def test_steps_end_when_the_predecessor_is_gone() -> None:
    """And those of another driver do not count."""
    driver: Any = Victim()
    other: Any = Victim()
    points = CrashPoints(checkpoint=1)
    points.triggered(driver, 1)
    assert points.message(other, "x") is None
    points.reached(driver, "checkpoint.logged")
    assert points.message(driver, "x") == 0
    points.reached(driver, "checkpoint.retired")
    assert points.message(driver, "x") is None


# -- leadership without threads


def candidate(files: SimFiles, line: Timeline, name: str) -> SimLeadership:
    """A driver's part in an election with a lease of 80 ms."""
    clock = SimClock(line, random.Random(1))
    return SimLeadership(
        "job", FileElection(SimDisk(files), "e", clock, 80, lambda n: name.encode() * n, name), clock
    )


def may_act(driver: SimLeadership) -> bool:
    """Whether the driver may commit now."""
    try:
        driver.require()
    except (FencedError, StorageError):
        return False
    return True


def test_one_leads_and_the_other_takes_over() -> None:
    """Who does not prove its right loses it before the other can win."""
    files, line = SimFiles(), Timeline()
    first, second = candidate(files, line, "a"), candidate(files, line, "b")
    told: list[FencedError] = []
    first.on_lost(told.append)
    first.look()
    assert first.leads
    assert second.look().leader == "a"
    for _ in range(20):
        line.advance(line.now_ms + first.pause_ms)
        assert first.prove() == "leader"
        second.look()
    assert not second.leads
    while not second.leads:
        line.advance(line.now_ms + second.pause_ms)
        first.watch()
        second.look()
        assert not (may_act(first) and may_act(second))
    assert told == []  # its lease is over, and it would go on if nobody else led
    line.advance(line.now_ms + first.pause_ms)
    first.prove()
    first.watch()
    assert not first.leads
    assert len(told) == 1
    with pytest.raises(FencedError):
        first.require()
    second.require()
