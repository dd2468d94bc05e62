"""Stores of completed checkpoints: the shared suite on files and on a tree of nodes, and each one's own."""

from __future__ import annotations

import pytest
from fake_disks import MemoryDisk
from store_suite import CompletedStoreSuite, add, ids
from znode_tree import TreeNodes, ZNodeTree

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.entries import Completed, decode_entry
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import IDS_AHEAD
from headgate.common.errors import ConfigError, FencedError, InternalError, StorageError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.requests import CheckpointSettings
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore

ROOT = "/headgate/default/jobs/j"


class Files:
    """A folder."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()

    def open(self) -> CompletedCheckpointLog:
        return CompletedCheckpointLog(MemoryDisk(self.disk.files), "j/log")

    def entries(self) -> list[str]:
        return sorted(self.disk.files)

    def damage(self, checkpoint: int) -> str:
        for name, data in self.disk.files.items():
            entry = decode_entry(data, name)
            if isinstance(entry, Completed) and entry.checkpoint == checkpoint:
                self.disk.files[name] = data[:-1]
                return name
        raise AssertionError(f"checkpoint {checkpoint} is not there")


class Tree:
    """A tree of nodes."""

    def __init__(self) -> None:
        self.tree = ZNodeTree()
        self.clients: list[TreeNodes] = []

    def open(self) -> ZooKeeperCheckpointStore:
        self.clients.append(TreeNodes(self.tree))
        return ZooKeeperCheckpointStore(self.clients[-1], ROOT)

    def entries(self) -> list[str]:
        return sorted(path for path in self.tree.nodes if "/checkpoints/" in path)

    def damage(self, checkpoint: int) -> str:
        path = f"{ROOT}/checkpoints/{checkpoint:019d}"
        data, version, owner = self.tree.nodes[path]
        self.tree.nodes[path] = (data[:-1], version, owner)
        return path


class TestFiles(CompletedStoreSuite):
    """The suite on files."""

    @pytest.fixture
    def medium(self) -> Files:
        return Files()


class TestZNodes(CompletedStoreSuite):
    """The suite on a tree of nodes."""

    @pytest.fixture
    def medium(self) -> Tree:
        return Tree()


def test_sr1_keeping_none_is_refused() -> None:
    """sR1: a store that keeps nothing is no store."""
    with pytest.raises(ConfigError, match="num_retained is 0"):
        CheckpointSettings(interval_ms=1000, num_retained=0)


def test_a_terminal_end_loses_against_a_claim() -> None:
    """A job master that was replaced while it ended removes nothing of its successor's."""
    files = Files()
    old = files.open()
    permit = old.claim()
    add(old, permit, 1)
    # The claim comes after the look of `close` and before its last entry.
    check = old.check
    old.check = lambda permit: (check(permit), files.open().claim())  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        old.close(permit, terminal=True)
    assert ids(files.open()) == [1]


def test_sr4_locks_are_released_and_nodes_removed() -> None:
    """sR4: handles have the lock of their master; given up they have none; at the end they are gone."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    add(store, permit, 1, 2)
    handles = [f"{ROOT}/checkpoints/{i:019d}" for i in (1, 2)]
    assert tree.entries() == sorted([*handles, *(f"{handle}/generation-1" for handle in handles)])
    store.close(permit, terminal=False)
    assert tree.entries() == handles
    again = tree.open()
    following = again.claim()
    assert tree.entries() == sorted([*handles, *(f"{handle}/generation-2" for handle in handles)])
    again.close(following, terminal=True)
    assert tree.entries() == []
    assert f"{ROOT}/checkpoints" not in tree.tree.nodes


def test_sr4_locks_of_a_dead_master_do_not_keep_handles() -> None:
    """sR4: a claimant trims handles although the session of the one before it has not expired yet."""
    tree = Tree()
    old, new = tree.open(), tree.open()
    add(old, old.claim(), 1, 2)
    permit = new.claim()
    add(new, permit, 3, keep=1)
    assert ids(new) == [3]


def test_sr4_a_reader_keeps_its_checkpoint() -> None:
    """sR4: what somebody reads from is not trimmed, by a message; when he is through, or dead, it is."""
    tree = Tree()
    store, reader = tree.open(), tree.open()
    permit = store.claim()
    add(store, permit, 1, 2)
    with reader.reading(CheckpointId(1)):
        with pytest.raises(StorageError, match="still read from"):
            store.trim(permit, CheckpointId(2))
        assert ids(store) == [1, 2]
    store.trim(permit, CheckpointId(2))
    assert ids(store) == [2]
    with pytest.raises(StorageError, match="not in"), reader.reading(CheckpointId(1)):
        raise AssertionError("there is nothing to read")
    with reader.reading(CheckpointId(2)):
        tree.clients[1].close()
        add(store, permit, 3, keep=1)
    assert ids(store) == [3]


def test_the_counter_never_goes_back() -> None:
    """Ids that a dead master may have used for checkpoints that failed are not used again."""
    tree = Tree()
    first = tree.open()
    first.claim()
    begin = first.first_checkpoint_id(CheckpointId(1))
    used = begin + IDS_AHEAD - 1
    second = tree.open()
    following = second.claim()
    assert second.first_checkpoint_id(CheckpointId(1)) > used
    second.close(following, terminal=True)
    third = tree.open()
    third.claim()
    assert third.first_checkpoint_id(CheckpointId(1)) > used + IDS_AHEAD
    for replaced in (first, second, tree.open()):
        with pytest.raises(FencedError):
            replaced.first_checkpoint_id(CheckpointId(1))


def test_ids_that_were_reserved_are_not_given_again() -> None:
    """However many checkpoints failed in between; a master that was replaced reserves nothing."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    first = store.first_checkpoint_id(CheckpointId(1))
    store.reserve_ids(permit, CheckpointId(first + 10 * IDS_AHEAD))
    store.reserve_ids(permit, CheckpointId(first + IDS_AHEAD))
    again = tree.open()
    again.claim()
    assert again.first_checkpoint_id(CheckpointId(1)) == first + 10 * IDS_AHEAD
    with pytest.raises(FencedError):
        store.reserve_ids(permit, CheckpointId(5000))


def test_a_long_lived_master_takes_more_ids_in_time() -> None:
    """The counter is moved with the checkpoint that needs it, not by a request of its own."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    first = store.first_checkpoint_id(CheckpointId(1))
    for checkpoint in range(first, first + 2 * IDS_AHEAD, IDS_AHEAD // 2):
        add(store, permit, checkpoint, keep=1)
        assert int(tree.tree.nodes[f"{ROOT}/checkpoint-id-counter"][0]) > checkpoint


def test_ids_must_increase() -> None:
    """The greatest id is the latest, so a smaller one behind it is a fault of ours."""
    store = Tree().open()
    permit = store.claim()
    add(store, permit, 5)
    with pytest.raises(InternalError, match="must increase"):
        add(store, permit, 4)


def test_an_answer_that_is_lost_is_looked_for_at_once() -> None:
    """A change that happened counts although its answer was lost; one that did not is a plain failure."""
    for how, found in (("after", [1]), ("lost", []), ("late", [])):
        tree = Tree()
        store = tree.open()
        permit = store.claim()
        failures = iter([how])
        tree.clients[0].fail = lambda operation, path, f=failures: (
            next(f, None) if operation == "change" else None
        )
        if found:
            add(store, permit, 1)
        else:
            with pytest.raises(StorageError) as caught:
                store.append(permit, CheckpointId(1), "m", "00")
            assert not isinstance(caught.value, UnsureWriteError)
        tree.tree.deliver_late()
        assert ids(store) == found
        add(store, permit, 2)
        assert ids(tree.open()) == [*found, 2]


def test_what_cannot_be_looked_for_stays_unsure() -> None:
    """While no server answers nobody says that an entry is not there; the next call finds out."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    add(store, permit, 1)
    tree.clients[0].fail = lambda operation, path: "after"
    with pytest.raises(UnsureWriteError, match="may exist"):
        store.append(permit, CheckpointId(2), "m", "00")
    tree.clients[0].fail = lambda operation, path: None
    assert ids(store) == [1, 2]
    add(store, permit, 3)
    assert ids(store) == [1, 2, 3]


def test_the_store_outlives_its_session() -> None:
    """A session that expires takes the locks along and nothing else: the fence is the claim."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    add(store, permit, 1)
    tree.tree.expire(tree.clients[0].session)
    tree.clients[0].renew_session()
    add(store, permit, 2, keep=1)
    assert ids(store) == [2]


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("generation", b"\xff", "is damaged"),
        ("checkpoint-id-counter", b"x", "expected a number"),
        ("checkpoints/12", b"", "19 digits"),
    ],
)
def test_a_damaged_node_is_named(path: str, data: bytes, said: str) -> None:
    """What cannot be read is said by its path, with what to do; nothing is guessed."""
    tree = Tree()
    store = tree.open()
    store.claim()
    store.first_checkpoint_id(CheckpointId(1))
    tree.tree.nodes[f"{ROOT}/{path}"] = (data, 0, None)
    with pytest.raises(StorageError, match=said) as caught:
        tree.open().claim()
    assert path.split("/")[0] in str(caught.value)


def test_an_entry_in_the_place_of_another_is_refused() -> None:
    """A handle tells its own id; one that was copied is not believed."""
    tree = Tree()
    store = tree.open()
    add(store, store.claim(), 1)
    nodes = tree.tree.nodes
    nodes[f"{ROOT}/checkpoints/{2:019d}"] = nodes[f"{ROOT}/checkpoints/{1:019d}"]
    with pytest.raises(StorageError, match="another place"):
        tree.open().completed()


def test_many_handles_are_removed_in_parts() -> None:
    """A transaction stays small however much there is to lock or to remove."""
    tree = Tree()
    store = tree.open()
    permit = store.claim()
    for checkpoint in range(1, 151):
        store.append(permit, CheckpointId(checkpoint), "m", "00")
    again = tree.open()
    following = again.claim()
    again.trim(following, CheckpointId(150))
    assert ids(again) == [150]
