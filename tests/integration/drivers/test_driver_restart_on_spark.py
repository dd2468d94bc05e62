"""Drivers on Spark, whose workers are processes: old ones are gone, or fenced, before new ones write."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from driver_processes import ON_FILES, Driver, Drivers

pytestmark = pytest.mark.ci

QUICK = (
    "headgate.spark.master=local[4]",
    "heartbeat.interval=200ms",
    "headgate.lease=1s",
    "heartbeat.timeout=3s",
)


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    """Starts drivers on Spark; the lease of a worker is shorter than that of a driver."""
    made = Drivers(tmp_path, (*ON_FILES, *QUICK), "spark")
    yield made
    made.close()


def workers(driver: Driver) -> list[psutil.Process]:
    """The processes that run Python below a driver."""
    return [process for process in driver.family() if "python" in process.name()]


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all of them have ended within a few seconds."""
    return not psutil.wait_procs(processes, timeout=20)[1]


def alive(processes: list[psutil.Process]) -> set[int]:
    """Those that still run; nobody need have looked after the others yet."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
    return found


def writers(drivers: Drivers) -> set[int]:
    """The processes whose records are part of the output, which is complete."""
    return {record["pid"] for record in drivers.check_output()}


def test_a_killed_driver_takes_its_workers_along(drivers: Drivers) -> None:
    """The standby goes on with workers of its own; every count comes once."""
    first = drivers.start()
    first.completes(2)
    old = workers(first)
    standby = drivers.start()
    standby.hears("note")
    assert first.signalled(signal.SIGKILL) == -signal.SIGKILL
    assert gone(old)
    (job,) = drivers.jobs()
    last = drivers.logged(job)[-1].checkpoint
    assert standby.hears("deploying").facts["checkpoint"] == last
    standby.completes(1)
    drivers.let_end()
    assert standby.ends() == 0
    assert drivers.jobs() == [job]
    assert writers(drivers) - {process.pid for process in old}


@pytest.mark.proof
def test_workers_of_a_stopped_driver_stop_before_they_are_replaced(drivers: Drivers) -> None:
    """Their lease ends first. The driver that goes on afterwards commits nothing and ends with 75."""
    first = drivers.start()
    first.completes(2)
    old = workers(first)
    standby = drivers.start()
    standby.hears("note")
    first.process.send_signal(signal.SIGSTOP)
    standby.hears("running")
    still = alive(old)
    standby.completes(1)
    assert first.signalled(signal.SIGCONT) == 75
    assert first.was_replaced(), first.errors
    assert gone(old)
    drivers.let_end()
    assert standby.ends() == 0
    wrote = writers(drivers) & {process.pid for process in old}
    assert wrote
    assert not wrote & still
