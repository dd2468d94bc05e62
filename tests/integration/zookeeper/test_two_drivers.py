"""Two driver processes of one job with a real ZooKeeper: one is killed, or stopped beyond its session."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from zookeeper_server import ZooKeeperServer

sys.path.append(str(Path(__file__).parents[1] / "drivers"))

from driver_processes import Drivers

pytestmark = pytest.mark.ci

SESSION = "2s"


@pytest.fixture
def drivers(tmp_path: Path, zookeeper: ZooKeeperServer, root: str) -> Iterator[Drivers]:
    """Starts drivers whose completed checkpoints are listed in ZooKeeper."""
    options = (
        "high-availability.type=zookeeper",
        f"high-availability.zookeeper.quorum={zookeeper.address}",
        f"high-availability.zookeeper.path.root={root}",
        f"high-availability.zookeeper.client.session-timeout={SESSION}",
    )
    made = Drivers(tmp_path, options)
    yield made
    made.close()


def handles(address: str, root: str, job: str) -> list[int]:
    """Ids of the completed checkpoints that ZooKeeper lists."""
    client, folder = KazooClient(address), f"{root}/default/jobs/{job}/checkpoints"
    client.start()
    try:
        return sorted(int(name) for name in client.get_children(folder)) if client.exists(folder) else []
    finally:
        client.stop()
        client.close()


def test_a_killed_leader_is_followed_by_its_standby(
    drivers: Drivers, zookeeper: ZooKeeperServer, root: str
) -> None:
    """When its session has ended; a job that has ended leaves no handle behind."""
    first = drivers.start()
    first.completes(2)
    standby = drivers.start()
    standby.hears("note")
    assert first.signalled(signal.SIGKILL) == -signal.SIGKILL
    (job,) = drivers.jobs()
    last = handles(zookeeper.address, root, job)[-1]
    assert standby.hears("deploying").facts["checkpoint"] == last
    standby.completes(1)
    assert standby.signalled(signal.SIGKILL) == -signal.SIGKILL

    last = handles(zookeeper.address, root, job)[-1]
    drivers.let_end()
    third = drivers.start()
    assert third.hears("deploying").facts["checkpoint"] == last
    assert third.ends() == 0
    assert handles(zookeeper.address, root, job) == []
    assert drivers.jobs() == [job]
    assert drivers.markers() == []
    drivers.check_output()


def test_a_leader_that_was_stopped_beyond_its_session_commits_nothing(
    drivers: Drivers, zookeeper: ZooKeeperServer, root: str
) -> None:
    """It says that it does not lead any more and ends with 75; what the other completed is all there is."""
    first = drivers.start()
    first.completes(2)
    standby = drivers.start()
    standby.hears("note")
    first.process.send_signal(signal.SIGSTOP)
    standby.completes(1)
    began = standby.hears("deploying").facts["checkpoint"]
    before = len(first.watcher.checkpoints())
    assert first.signalled(signal.SIGCONT) == 75
    assert first.was_replaced(), first.errors
    assert all(checkpoint <= began for checkpoint in first.watcher.checkpoints()[before:])
    drivers.let_end()
    assert standby.ends() == 0
    drivers.check_output()


def test_sigterm_hands_over_and_ctrl_c_cancels(drivers: Drivers) -> None:
    """As on files: the next driver goes on at once, and after Ctrl-C the next run begins anew."""
    first = drivers.start()
    last = first.completes(2)
    assert first.signalled(signal.SIGTERM) == 143
    second = drivers.start()
    assert second.hears("deploying").facts["checkpoint"] >= last
    second.completes(1)
    assert second.signalled(signal.SIGINT) == 130
    third = drivers.start()
    assert third.hears("deploying").facts["checkpoint"] is None
    third.completes(1)
    assert len(drivers.jobs()) == 2
