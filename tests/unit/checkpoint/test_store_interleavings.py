"""Job masters on one store, in every order of their steps and with every kind of failure: no split brain."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from fake_disks import FailingDisk, MemoryDisk
from store_history import History, master
from turns import Turns, preempting
from znode_tree import Fail, TreeNodes, ZNodeTree, no_failure

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import CompletedCheckpointStore
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore

Pause = Callable[[str], None]


LATE_BY = 12
"""Operations of whomever until a creation that got no answer happens."""


class PausingDisk(FailingDisk):
    """Lets others have a turn before every operation; a creation that fails "late" happens after all."""

    def __init__(
        self, files: dict[str, bytes], fail: Fail, pause: Pause, late: list[tuple[int, str, bytes]]
    ) -> None:
        super().__init__(files, self._verdict)
        self.told, self.pause, self.late = fail, pause, late
        self.data = b""

    def _verdict(self, operation: str, name: str) -> str | None:
        when = self.told(operation, name)
        if when == "late" and operation == "create_if_absent":
            self.late.append((LATE_BY, name, self.data))
            raise UnsureWriteError(f"no answer came about {name}")
        return "before" if when == "late" else when

    def _turn(self, what: str) -> None:
        self.pause(what)
        self.late[:] = [(left - 1, name, data) for left, name, data in self.late]
        while self.late and self.late[0][0] == 0:
            MemoryDisk.create_if_absent(self, *self.late.pop(0)[1:])

    def create(self, name, parts):
        self._turn(f"create {name}")
        super().create(name, parts)

    def create_if_absent(self, name, data):
        self._turn(f"create {name}")
        self.data = data
        return super().create_if_absent(name, data)

    def read(self, name):
        self._turn(f"read {name}")
        return super().read(name)

    def list(self, prefix):
        self._turn(f"list {prefix}")
        return super().list(prefix)

    def delete(self, name):
        self._turn(f"delete {name}")
        super().delete(name)


class FileMedium:
    """The log in a folder that outlives its masters."""

    kinds = ("before", "after", "late")

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.late: list[tuple[int, str, bytes]] = []

    def open(self, fail: Fail, pause: Pause) -> CompletedCheckpointStore:
        return CompletedCheckpointLog(PausingDisk(self.files, fail, pause, self.late), "job/log")

    def reader(self) -> CompletedCheckpointStore:
        return CompletedCheckpointLog(MemoryDisk(self.files), "job/log")


class ZNodeMedium:
    """The handles in a tree that outlives its masters."""

    kinds = ("before", "after", "lost", "late")

    def __init__(self) -> None:
        self.tree = ZNodeTree()

    def open(self, fail: Fail, pause: Pause) -> CompletedCheckpointStore:
        nodes = TreeNodes(self.tree, fail, pause)
        return ZooKeeperCheckpointStore(nodes, "/jobs/j", random.Random(nodes.session).randbytes)

    def reader(self) -> CompletedCheckpointStore:
        return ZooKeeperCheckpointStore(TreeNodes(self.tree), "/jobs/j")


def run(medium, choose, fails: tuple[Fail, ...], rounds: int) -> tuple[History, int]:
    """Let one master for each of `fails` live its life, in the order that `choose` says."""
    history, turns = History(), Turns(choose)

    def life(fail: Fail) -> Callable[[Pause], None]:
        return lambda pause: master(history, medium.open(fail, pause), rounds)

    turns.run([life(fail) for fail in fails])
    history.check(medium.reader())
    return history, turns.steps


def search(medium, switches_max: int) -> None:
    """Every order of two masters' steps with so many switches."""
    quiet = (no_failure, no_failure)
    steps = run(medium(), preempting(()), quiet, 2)[1]
    seen: set[tuple[tuple[int, int], ...]] = set()
    for count in range(switches_max + 1):
        for switches in itertools.combinations(range(1, steps + 1), count):
            history, _ = run(medium(), preempting(switches), quiet, 2)
            seen.add(tuple(history.acknowledged))
            assert max(generation for _, generation in history.acknowledged) == max(history.claims)
    assert len(seen) >= 3, "the switches made no difference; the search looked at one order only"


@pytest.mark.parametrize("medium", [FileMedium, ZNodeMedium])
@pytest.mark.parametrize("switches_max", [2, pytest.param(3, marks=pytest.mark.proof)])
def test_every_interleaving_of_two_masters(medium, switches_max: int) -> None:
    """Whatever the order of their steps: one generation at a time, nothing lost, nothing invented."""
    search(medium, switches_max)


@pytest.mark.parametrize("medium", [FileMedium, ZNodeMedium])
def test_random_turns_and_failures(medium) -> None:
    """Three masters, any turn, one operation in eight fails in any way: the same promises hold."""
    unsure = acknowledged = 0
    for seed in range(250):
        chance, at = random.Random(seed), medium()

        def fail(operation: str, path: str, chance=chance, at=at) -> str | None:
            return chance.choice(at.kinds) if chance.random() < 0.125 else None

        history, _ = run(at, lambda _, ready, c=chance: c.choice(ready), (fail,) * 3, 4)
        unsure, acknowledged = unsure + len(history.possible), acknowledged + len(history.acknowledged)
    assert unsure > 100
    assert acknowledged > 500


@pytest.mark.parametrize("fault", ["no fence", "no settling", "no chain of versions"])
@pytest.mark.ci
def test_the_search_finds_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that forgets one of its rules is caught."""
    plant(fault, monkeypatch)
    with pytest.raises(AssertionError):
        search(ZNodeMedium, 2)
        test_random_turns_and_failures(ZNodeMedium)


def plant(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break one rule of the store on ZooKeeper."""
    if fault == "no settling":
        monkeypatch.setattr(ZooKeeperCheckpointStore, "_resolved_at_once", lambda self, permit, error: False)
        monkeypatch.setattr(ZooKeeperCheckpointStore, "_resolve", lambda self, permit: None)
        return
    change = TreeNodes.change

    def careless(self, changes):
        first = changes[0]
        if "/owner/" in first.path and fault == "no fence":
            return change(self, changes[1:]) if len(changes) > 1 else []
        if "/owner/" in first.path:
            changes = [type(first)(first.path, first.data, None), *changes[1:]]
        return change(self, changes)

    monkeypatch.setattr(TreeNodes, "change", careless)
