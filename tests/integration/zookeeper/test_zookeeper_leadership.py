"""Two drivers of one job on a real ZooKeeper: sessions that expire, a network that is cut, no split brain."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cut_proxy import CutProxy, Network
from kazoo.client import KazooClient
from store_history import History, master
from zookeeper_server import ZooKeeperServer

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId
from headgate.common.process.system import SystemClock
from headgate.common.settings.config import Config
from headgate.ha.high_availability import HighAvailability, LedJob, open_leadership
from headgate.ha.leading import Leadership, LedStore
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore
from headgate.ha.zookeeper.kazoo_nodes import KazooNodes
from headgate.ha.zookeeper.zookeeper_election import ZooKeeperElection

pytestmark = pytest.mark.ci

Connect = Callable[..., KazooNodes]
NOTICED_S = 50.0
ROUNDS = 40


class Contender:
    """A driver's leadership and store over a connection of its own."""

    def __init__(self, nodes: KazooNodes, root: str) -> None:
        self.nodes, clock = nodes, SystemClock()
        self.leadership = Leadership("j", ZooKeeperElection(nodes, f"{root}/leaders", clock), clock)
        nodes.on_disconnect(self.leadership.suspended)
        self.raw = ZooKeeperCheckpointStore(nodes, f"{root}/jobs")
        self.store = LedStore(self.raw, self.leadership)
        self.lost: list[FencedError] = []
        self.heard = threading.Event()
        self.permit: CommitPermit | None = None

    def lead(self) -> None:
        """Wait for the right and claim the job."""
        assert self.leadership.wait(lambda text: None) is not None
        self.leadership.on_lost(lambda error: (self.lost.append(error), self.heard.set()))
        self.permit = self.store.claim()

    def append(self, checkpoint: int) -> None:
        assert self.permit is not None
        self.store.append(self.permit, CheckpointId(checkpoint), "m", "00")

    def may_commit(self) -> bool:
        try:
            self.leadership.require()
        except (FencedError, StorageError):
            return False
        return True


@pytest.fixture
def contenders(root: str):
    """Makes contenders, and ends what they began."""
    made: list[Contender] = []

    def make(nodes: KazooNodes) -> Contender:
        made.append(Contender(nodes, root))
        return made[-1]

    yield make
    for each in made:
        each.leadership.close()


def expire(nodes: KazooNodes, address: str) -> None:
    """Have the server end a session: another client takes it over by number and password, and closes it."""
    thief = KazooClient(hosts=address, timeout=2.0, client_id=nodes.session)
    thief.start(timeout=10)
    thief.stop()
    thief.close()


def test_an_expired_session_ends_the_leadership(
    zookeeper: ZooKeeperServer, connect: Connect, contenders: Callable[[KazooNodes], Contender]
) -> None:
    """The leader is told once, commits nothing more, and the standby leads with a higher generation."""
    first, second = contenders(connect()), contenders(connect())
    first.lead()
    first.append(1)
    standby = threading.Thread(target=second.lead)
    standby.start()
    expire(first.nodes, zookeeper.address)
    assert first.heard.wait(NOTICED_S)
    standby.join(NOTICED_S)
    assert not standby.is_alive()
    assert "goes on from the last completed checkpoint" in str(first.lost)
    for _ in range(2):
        with pytest.raises(FencedError):
            first.append(2)
    assert first.permit is not None
    assert second.permit is not None
    assert second.permit.generation > first.permit.generation
    # Without its own guard, too: the client has a session again, but the claim is another's.
    with pytest.raises(FencedError):
        first.raw.append(first.permit, CheckpointId(2), "m", "00")
    second.append(2)
    assert [(e.checkpoint, e.generation) for e in second.store.completed()] == [(1, 1), (2, 2)]
    assert len(first.lost) == 1


def test_a_leader_that_is_cut_off_stops_before_the_next_one_leads(
    connect: Connect, proxy: Callable[[], CutProxy], contenders: Callable[[KazooNodes], Contender]
) -> None:
    """However the network breaks: at no moment may both commit, and the one that is cut off is told."""
    for network in (Network.CUT, Network.NO_ANSWERS, Network.NO_REQUESTS):
        way = proxy()
        first, second = contenders(connect(way.address)), contenders(connect())
        first.lead()
        assert first.may_commit()
        standby = threading.Thread(target=second.lead)
        standby.start()
        way.become(network)
        while second.permit is None:
            assert not (second.may_commit() and first.may_commit())
            time.sleep(0.005)
        assert not first.may_commit()
        assert first.heard.wait(NOTICED_S)
        standby.join()
        second.leadership.close()


def test_a_short_break_only_suspends(
    connect: Connect, proxy: Callable[[], CutProxy], contenders: Callable[[KazooNodes], Contender]
) -> None:
    """A connection that comes back within the session costs nobody the leadership."""
    way = proxy()
    leader = contenders(connect(way.address, session_ms=60_000))
    leader.lead()
    leader.append(1)
    way.become(Network.CUT)
    while leader.may_commit():
        time.sleep(0.01)
    way.become(Network.WHOLE)
    deadline = time.monotonic() + NOTICED_S
    while not leader.may_commit():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    leader.append(2)
    assert leader.lost == []


def test_the_server_restarts_under_a_leader(
    zookeeper: ZooKeeperServer, connect: Connect, contenders: Callable[[KazooNodes], Contender]
) -> None:
    """Sessions outlive a killed server: the leader goes on where it was."""
    leader = contenders(connect(session_ms=60_000))
    leader.lead()
    leader.append(1)
    zookeeper.kill()
    while leader.may_commit():
        time.sleep(0.01)
    with pytest.raises(StorageError, match="cannot be proved"):
        leader.append(2)
    zookeeper.start()
    deadline = time.monotonic() + NOTICED_S
    while not leader.may_commit():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    leader.append(3)
    assert [entry.checkpoint for entry in leader.store.completed()] == [1, 3]
    assert leader.lost == []


@pytest.mark.parametrize("seed", [1, 2])
def test_no_split_brain_under_random_cuts(
    connect: Connect, proxy: Callable[[], CutProxy], root: str, seed: int
) -> None:
    """Two job masters that both believe to lead, over networks that break in every way all the time."""
    chance, history, ways = random.Random(seed), History(), [proxy(), proxy()]
    sessions = [connect(way.address) for way in ways]
    errors: list[BaseException] = []

    def live(nodes: KazooNodes) -> None:
        try:
            for _ in range(ROUNDS):
                master(history, ZooKeeperCheckpointStore(nodes, root), rounds=5)
        except BaseException as error:
            errors.append(error)

    lives = [threading.Thread(target=live, args=(nodes,)) for nodes in sessions]
    for life in lives:
        life.start()
    while any(life.is_alive() for life in lives):
        way = chance.choice(ways)
        way.become(chance.choice([*Network, Network.WHOLE]))
        time.sleep(chance.uniform(0.0, 0.25))
        way.become(Network.WHOLE)
        time.sleep(chance.uniform(0.0, 0.1))
    assert errors == []
    history.check(ZooKeeperCheckpointStore(connect(), root))
    assert len(history.acknowledged) > 20, "hardly anything was completed; the cuts tested nothing"
    assert len(history.claims) > 10
    assert history.possible, "no outcome was ever in doubt; the cuts tested nothing"


def test_drivers_of_one_job_by_configuration(zookeeper: ZooKeeperServer, tmp_path: Path, root: str) -> None:
    """The whole of it by options: one leads, one waits and says for whom, and goes on with the same job."""
    config = Config().with_program(
        {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": zookeeper.address,
            "high-availability.zookeeper.path.root": root,
            "high-availability.zookeeper.client.session-timeout": "10s",
        }
    )
    disk, clock = LocalDisk(tmp_path), SystemClock()

    def opened() -> HighAvailability:
        part = open_leadership(config, "clicks", disk, clock)
        assert part is not None
        return part

    first, second = opened(), opened()
    led = first.wait(lambda text: None)
    assert led is not None
    permit = led.store.claim()
    led.store.append(permit, CheckpointId(1), f"{led.job}/chk-1/_metadata", "00")
    said: list[str] = []
    waits, won = threading.Event(), list[LedJob | None]()

    def waiting(text: str) -> None:
        said.append(text)
        waits.set()

    standby = threading.Thread(target=lambda: won.append(second.wait(waiting)))
    standby.start()
    assert waits.wait(NOTICED_S)
    with suppress(FencedError):
        led.store.close(permit, terminal=False)
    first.close(ended=False)
    standby.join(NOTICED_S)
    assert "job 'clicks' is led by process" in said[0]
    assert won[0] is not None
    assert won[0].job == led.job
    assert [entry.checkpoint for entry in won[0].store.completed()] == [1]
    second.close(ended=True)
    third = opened()
    following = third.wait(lambda text: None)
    assert following is not None
    assert following.job != led.job, "what was brought to its end is not gone on with"
    assert following.store.completed() == []
    third.close(ended=False)
