"""No id of a checkpoint is used by two drivers, however many failed without a trace."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import IDS_AHEAD
from headgate.common.errors import OperatingError, StorageError
from headgate.common.ids import JobId
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore
from headgate.runtime.master.checkpoints.checkpoint_ids import CheckpointIds

sys.path.append(str(Path(__file__).parents[2] / "checkpoint"))  # its fakes are those of these tests, too

from fake_disks import MemoryDisk
from znode_tree import TreeNodes, ZNodeTree


class Loop:
    """A job master's loop and its background thread, moved by hand."""

    def __init__(self) -> None:
        self.work: deque[tuple[Any, Any]] = deque()
        self.posted: deque[Callable[[], None]] = deque()

    def submit(self, work: Any, done: Any) -> None:
        self.work.append((work, done))

    def turn(self) -> None:
        """All work is done, and told."""
        while self.work:
            work, done = self.work.popleft()
            try:
                done(work(), None)
            except StorageError as error:
                done(None, error)
        while self.posted:
            self.posted.popleft()()


class Driver:
    """One driver of the job."""

    def __init__(self, tree: ZNodeTree, fail: Any = None) -> None:
        nodes = TreeNodes(tree, fail) if fail is not None else TreeNodes(tree)
        store = ZooKeeperCheckpointStore(nodes, "/jobs/j")
        self.service = CheckpointService(MemoryDisk(), JobId("j"), log=store)
        self.loop, permit = Loop(), self.service.claim()
        self.first = self.service.next_checkpoint_id()
        self.ids = CheckpointIds(self.service, permit, self.loop, self.loop.posted.append)


def test_a_thousand_failures_without_a_trace_repeat_nothing() -> None:
    """The next driver begins behind them all; only now and then the store is asked."""
    tree = ZNodeTree()
    first = Driver(tree)
    asked = 0
    for checkpoint in range(first.first, first.first + 1000):
        first.ids.require(checkpoint)
        asked += len(first.loop.work)
        first.loop.turn()
    assert Driver(tree).first > first.first + 999
    assert 0 < asked < 1000 // 16


def test_an_id_that_is_not_reserved_is_not_used() -> None:
    """Where the store is out of reach for long; when it answers again, checkpoints go on."""
    tree, away = ZNodeTree(), [False]

    def fail(operation: str, path: str) -> str | None:
        return "before" if away[0] else None

    driver = Driver(tree, fail)
    away[0] = True
    for checkpoint in range(driver.first, driver.first + IDS_AHEAD):
        driver.ids.require(checkpoint)
        driver.loop.turn()
    beyond = driver.first + IDS_AHEAD
    with pytest.raises(OperatingError, match=f"id {beyond} is not reserved yet"):
        driver.ids.require(beyond)
    driver.loop.turn()
    away[0] = False
    with pytest.raises(OperatingError):
        driver.ids.require(beyond + 1)
    driver.loop.turn()
    driver.ids.require(beyond + 2)
    assert Driver(tree).first > beyond + 2


def test_without_checkpoints_nothing_is_reserved() -> None:
    """Savepoints of such a job have ids, too, which nobody else has."""
    loop = Loop()
    ids = CheckpointIds(None, None, loop, loop.posted.append)
    for checkpoint in range(1, 200):
        ids.require(checkpoint)
    assert not loop.work
