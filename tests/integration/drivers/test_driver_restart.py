"""Drivers that are killed, stopped and started again, as processes: the job goes on, output exactly once."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from driver_job import RECORDS
from driver_processes import Drivers


def test_a_killed_driver_goes_on_with_the_same_command(drivers: Drivers) -> None:
    """From the last completed checkpoint, with a higher generation; totals are those of the whole job."""
    first = drivers.start()
    first.completes(2)
    assert first.signalled(signal.SIGKILL) == -signal.SIGKILL
    (job,) = drivers.jobs()
    last = drivers.logged(job)[-1]
    assert drivers.markers()

    drivers.let_end()
    second = drivers.start()
    assert second.hears("deploying").facts["checkpoint"] == last.checkpoint
    assert second.ends() == 0
    assert drivers.jobs() == [job]
    assert drivers.logged(job)[-1].generation == last.generation + 1
    drivers.check_output()
    totals = drivers.totals(second)
    assert totals["records_in"]["numbers"] == RECORDS
    assert totals["records_out"]["out"] == RECORDS
    assert drivers.markers() == []


@pytest.mark.ci
def test_a_stopped_driver_that_was_replaced_commits_nothing(drivers: Drivers) -> None:
    """A standby takes over one lease after SIGSTOP; after SIGCONT the old driver says so and ends with 75."""
    first = drivers.start()
    first.completes(2)
    second = drivers.start()
    text = second.hears("note").facts["text"]
    assert text.startswith(f"waiting as standby: job 'counting' is led by process {first.process.pid} on ")
    first.process.send_signal(signal.SIGSTOP)
    (job,) = drivers.jobs()
    known = {entry.checkpoint for entry in drivers.logged(job)}
    second.completes(1)
    began = second.hears("deploying").facts["checkpoint"]
    assert began >= max(known)
    before = first.watcher.checkpoints()

    assert first.signalled(signal.SIGCONT) == 75
    assert first.was_replaced(), first.errors
    assert first.watcher.events[-1].facts["error"]["kind"] == "FencedError"
    drivers.let_end()
    assert second.ends() == 0
    # What it may still tell of was in the log when it was stopped.
    assert all(checkpoint <= began for checkpoint in first.watcher.checkpoints()[len(before) :])
    assert all(entry.generation == 2 for entry in drivers.logged(job) if entry.checkpoint > began)
    drivers.check_output()


@pytest.mark.ci
def test_sigterm_hands_the_job_over(drivers: Drivers) -> None:
    """The next driver waits for no lease and goes on from the last checkpoint."""
    first = drivers.start("high-availability.lease=50s")
    first.completes(2)
    assert first.signalled(signal.SIGTERM) == 143
    assert "stopped by a signal; the next driver goes on" in first.errors
    (job,) = drivers.jobs()
    last = drivers.logged(job)[-1]
    drivers.let_end()
    second = drivers.start("high-availability.lease=50s")
    assert second.hears("deploying").facts["checkpoint"] == last.checkpoint
    assert second.ends() == 0
    drivers.check_output()


@pytest.mark.ci
def test_a_program_that_goes_on_beside_its_job_is_no_different(tmp_path: Path) -> None:
    """SIGTERM hands over, Ctrl-C ends a standby and not the job, a standby ends with the job."""
    drivers = Drivers(tmp_path, cluster="beside")
    try:
        first = drivers.start()
        last = first.completes(2)
        assert first.signalled(signal.SIGTERM) == 143
        assert "the next driver goes on" in first.errors
        second = drivers.start()
        assert second.hears("deploying").facts["checkpoint"] >= last
        leaving, standby = drivers.start(), drivers.start()
        leaving.hears("note")
        standby.hears("note")
        assert leaving.signalled(signal.SIGINT) == 130
        second.completes(1)
        drivers.let_end()
        assert second.ends() == 0
        assert standby.ends() == 0
        drivers.check_output()
    finally:
        drivers.close()


@pytest.mark.ci
def test_ctrl_c_cancels_the_job(drivers: Drivers) -> None:
    """A standby ends with it; the next run begins anew, and leaves alone what the first one retained."""
    first = drivers.start()
    first.completes(2)
    standby = drivers.start()
    standby.hears("note")
    assert first.signalled(signal.SIGINT) == 130
    assert standby.ends() == 0
    (job,) = drivers.jobs()
    retained = drivers.logged(job)
    assert retained
    second = drivers.start()
    assert second.hears("deploying").facts["checkpoint"] is None
    second.completes(1)
    assert second.signalled(signal.SIGINT) == 130
    assert len(drivers.jobs()) == 2
    assert drivers.logged(job) == retained


@pytest.mark.ci
def test_of_two_drivers_one_leads_and_the_other_takes_over(drivers: Drivers) -> None:
    """A third one that may not stand by stops with one sentence; Ctrl-C ends a standby, not the job."""
    first = drivers.start()
    first.completes(1)
    standby, impatient = drivers.start(), drivers.start("high-availability.standby=false")
    assert impatient.ends() == 75
    says = f"headgate: job 'counting' is led by process {first.process.pid} on "
    assert impatient.errors.strip().splitlines()[-1].startswith(says)
    leaving = drivers.start()
    leaving.hears("note")
    assert leaving.signalled(signal.SIGINT) == 130
    last = first.completes(len(first.watcher.checkpoints()) + 2)
    assert first.signalled(signal.SIGKILL) == -signal.SIGKILL
    assert standby.hears("deploying").facts["checkpoint"] >= last
    drivers.let_end()
    assert standby.ends() == 0
    drivers.check_output()


@pytest.mark.ci
def test_a_standby_ends_when_the_job_has_ended(drivers: Drivers) -> None:
    """With exit code 0, a line that says so, and an end for who reads its events."""
    first = drivers.start()
    first.completes(1)
    standby = drivers.start()
    standby.hears("note")
    drivers.let_end()
    assert first.ends() == 0
    assert standby.ends() == 0
    assert "has brought it to its end" in standby.watcher.named("note")[-1].facts["text"]
    assert standby.watcher.events[-1].name == "finished"
    assert drivers.totals(standby) == {"records_in": {}, "records_out": {}}
    drivers.check_output()


@pytest.mark.ci
def test_from_counts_only_before_the_first_checkpoint(drivers: Drivers) -> None:
    """The same command line later goes on from the job's own checkpoints, when what it names is gone."""
    earlier = drivers.start()
    earlier.completes(2)
    assert earlier.signalled(signal.SIGINT) == 130
    (origin,) = drivers.jobs()
    begin = drivers.logged(origin)[-1].checkpoint
    command = ["--from", str(drivers.folder / "checkpoints" / origin / f"chk-{begin}")]
    # As from nothing: the output so far is not the second job's.
    first = drivers.start(arguments=command)
    assert first.hears("deploying").facts["checkpoint"] == begin
    first.completes(2)
    assert first.signalled(signal.SIGKILL) == -signal.SIGKILL
    shutil.rmtree(drivers.folder / "checkpoints" / origin)
    (job,) = drivers.jobs()
    last = drivers.logged(job)[-1].checkpoint
    drivers.let_end()
    second = drivers.start(arguments=command)
    assert second.hears("deploying").facts["checkpoint"] == last
    assert second.ends() == 0
    assert drivers.totals(second)["records_in"]["numbers"] == RECORDS
