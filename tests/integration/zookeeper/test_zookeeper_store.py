"""The store of completed checkpoints on a real ZooKeeper: the shared suite, sessions, and a killed server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from store_suite import CompletedStoreSuite, add, ids
from zookeeper_server import SESSION_MS_MAX, ZooKeeperServer

from headgate.common.errors import ConfigError, FencedError, StorageError
from headgate.common.ids import CheckpointId
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore
from headgate.ha.zookeeper.kazoo_nodes import KazooNodes
from headgate.ha.zookeeper.znodes import Cause, Create, Delete, RejectedError, SetData

PATIENCE_S = 30.0

pytestmark = pytest.mark.ci

Connect = Callable[..., KazooNodes]


class RealZNodes:
    """A root on the server; every store has a session of its own."""

    def __init__(self, connect: Connect, root: str) -> None:
        self.connect, self.root = connect, root

    def open(self) -> ZooKeeperCheckpointStore:
        return ZooKeeperCheckpointStore(self.connect(), self.root)

    def entries(self) -> list[str]:
        return self.connect().children(f"{self.root}/checkpoints")

    def damage(self, checkpoint: int) -> str:
        nodes, path = self.connect(), f"{self.root}/checkpoints/{checkpoint:019d}"
        node = nodes.read(path)
        assert node is not None
        nodes.change([SetData(path, node.data[:-1])])
        return path


class TestRealZooKeeper(CompletedStoreSuite):
    """The suite on a real server."""

    @pytest.fixture
    def medium(self, connect: Connect, root: str) -> RealZNodes:
        return RealZNodes(connect, root)


def test_a_refused_transaction_says_which_change_and_why(connect: Connect, root: str) -> None:
    """Nothing of it happened, and the culprit is named by its place, not by its consequences."""
    nodes = connect()
    nodes.ensure(f"{root}/a/b")
    new = Create(f"{root}/c")
    for change, cause in (
        (Create(f"{root}/a"), Cause.NODE_EXISTS),
        (Create(f"{root}/none/x"), Cause.NO_NODE),
        (SetData(f"{root}/a", b"", 7), Cause.BAD_VERSION),
        (Delete(f"{root}/a"), Cause.NOT_EMPTY),
    ):
        with pytest.raises(RejectedError) as caught:
            nodes.change([new, change, Delete(f"{root}/a/b")])
        assert (caught.value.index, caught.value.cause) == (1, cause)
    assert nodes.children(root) == ["a"]
    made = nodes.change([new, Create(f"{root}/c/s-", sequential=True), SetData(f"{root}/a", b"1", 0)])
    assert made == [f"{root}/c", f"{root}/c/s-0000000000", f"{root}/a"]


def test_the_agreed_session_timeout_is_known(connect: Connect) -> None:
    """The lease is what the server granted, not what was asked for."""
    assert connect(session_ms=10 * SESSION_MS_MAX).session_ms == SESSION_MS_MAX
    assert connect(session_ms=5_000).session_ms == 5_000


def test_sr4_locks_on_the_real_server(connect: Connect, root: str) -> None:
    """sR4: suspended, nodes stay without locks; a new claim locks them; at the end the parent is gone."""
    nodes = connect()
    store = ZooKeeperCheckpointStore(nodes, root)
    permit = store.claim()
    add(store, permit, 1, 2)
    handle = f"{root}/checkpoints/{1:019d}"
    assert nodes.children(handle) == ["generation-1"]
    store.close(permit, terminal=False)
    assert nodes.children(handle) == []
    again = ZooKeeperCheckpointStore(connect(), root)
    following = again.claim()
    assert nodes.children(handle) == ["generation-2"]
    again.close(following, terminal=True)
    assert nodes.read(f"{root}/checkpoints") is None


def answered(store: ZooKeeperCheckpointStore) -> list[int]:
    """The ids, once a server that has just started answers again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ids(store)
        except StorageError:
            if time.monotonic() > deadline:
                raise


def test_the_server_is_killed_and_started_again(
    zookeeper: ZooKeeperServer, connect: Connect, root: str
) -> None:
    """What was acknowledged is there afterwards; the same session, or the next, goes on adding."""
    nodes = connect(session_ms=20_000)
    store = ZooKeeperCheckpointStore(nodes, root)
    permit = store.claim()
    done = []
    for round_ in range(3):
        first = 10 * round_ + 1
        for checkpoint in range(first, first + 3):
            store.append(permit, CheckpointId(checkpoint), "m", "00")
            done.append(checkpoint)
        zookeeper.kill()
        # It is asked while nobody answers, and waits, or fails and says so.
        outcomes: list[object] = []
        asking = threading.Thread(target=attempt, args=(store, permit, first + 3, outcomes))
        asking.start()
        zookeeper.start()
        asking.join()
        found = answered(store)
        assert outcomes != [None] or first + 3 in found
        assert [checkpoint for checkpoint in found if checkpoint != first + 3] == done
        done = found
    assert len(done) >= 9
    other = ZooKeeperCheckpointStore(connect(), root)
    other.claim()
    with pytest.raises(FencedError):
        store.append(permit, CheckpointId(99), "m", "00")


def attempt(store, permit, checkpoint: int, outcomes: list[object]) -> None:
    """Append in a thread, and keep what became of it."""
    try:
        store.append(permit, CheckpointId(checkpoint), "m", "00")
    except StorageError as error:
        outcomes.append(error)
    else:
        outcomes.append(None)


def test_no_server_is_said_in_one_sentence(zookeeper: ZooKeeperServer) -> None:
    """Where nobody listens the address is in the message; nonsense is refused before."""
    with pytest.raises(StorageError, match=r"no ZooKeeper answered at 127\.0\.0\.1:1 within"):
        KazooNodes("127.0.0.1:1", 1_000, 300)
    with pytest.raises(ConfigError, match="cannot be read"):
        KazooNodes(":x:", 1_000, 300)
