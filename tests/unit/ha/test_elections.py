"""Elections on files and in ZooKeeper: drivers with delays, pauses and failures, and one that may commit."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.common.errors import StorageError
from headgate.core.leadership import LeadershipState, LeadershipTerm
from headgate.ha.contract.election import Candidacy, LostLeadershipError
from headgate.ha.files.file_election import FileElection
from headgate.ha.zookeeper.zookeeper_election import ZooKeeperElection

sys.path.append(str(Path(__file__).parents[1] / "checkpoint"))  # its fakes are those of these tests, too

from fake_disks import FailingDisk, MemoryDisk
from turns import Turns
from znode_tree import Fail, TreeNodes, ZNodeTree, no_failure

LEASE = 900


class World:
    """Real time, and what passes of it in every operation."""

    def __init__(self, seed: int = 0, slow: float = 0.0) -> None:
        self.chance, self.slow, self.now_ms = random.Random(seed), slow, 0
        self.turn: Callable[[str], None] = lambda what: None

    def take(self, what: str) -> None:
        """An operation takes some time, now and then more than a lease, and others go on meanwhile."""
        if self.slow:
            long = self.chance.random() < self.slow
            self.now_ms += self.chance.randrange(LEASE * 2) if long else self.chance.randrange(30)
            self.turn(what)


class OwnClock:
    """A driver's monotonic clock: begins anywhere."""

    def __init__(self, world: World) -> None:
        self.world, self.offset = world, world.chance.randrange(10**6)

    def monotonic_ms(self) -> int:
        return self.world.now_ms + self.offset

    def now_ms(self) -> int:
        return self.world.now_ms

    def precise_ms(self) -> float:
        return float(self.monotonic_ms())


class TimedDisk(FailingDisk):
    """Takes time before and after every operation has its effect."""

    def __init__(self, files: dict[str, bytes], fail: Fail, world: World) -> None:
        super().__init__(files, fail)
        self.world = world

    def create(self, name, parts):
        self.world.take(name)
        super().create(name, parts)
        self.world.take(name)

    def create_if_absent(self, name, data):
        self.world.take(name)
        created = super().create_if_absent(name, data)
        self.world.take(name)
        return created

    def read(self, name):
        self.world.take(name)
        data = super().read(name)
        self.world.take(name)
        return data

    def list(self, prefix):
        self.world.take(prefix)
        return super().list(prefix)


class TimedTree(ZNodeTree):
    """Ends sessions that were not heard of for a lease."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.heard = world, dict[int, int]()

    def hear(self, session: int) -> None:
        """A request of a session arrived; whoever was silent for long has none any more."""
        for other, at in list(self.heard.items()):
            if self.world.now_ms - at >= LEASE:
                self.expire(other)
                del self.heard[other]
        self.heard[session] = self.world.now_ms


class TimedNodes(TreeNodes):
    """A client with a way to the server that takes time; gets a new session where its own is over."""

    def __init__(self, tree: TimedTree, fail: Fail, world: World) -> None:
        super().__init__(tree, fail, world.take)
        self.world, self.session_ms = world, LEASE

    def arrive(self) -> None:
        if self.session not in self.tree.heard:
            self.renew_session()
        self.tree.hear(self.session)

    def read(self, path):
        self.arrive()
        return super().read(path)

    def change(self, changes):
        self.world.take("the way there")
        self.arrive()
        results = super().change(changes)
        self.world.take("the way back")
        return results


class Driver:
    """A driver that runs its election step by step."""

    def __init__(self, election: FileElection | ZooKeeperElection, clock: OwnClock) -> None:
        self.election, self.clock = election, clock
        self.term = LeadershipTerm("j", election.lease_ms, election.margin_ms, election.regains)
        self.led = self.regained = 0

    def step(self) -> Candidacy | None:
        """One look, or one proof."""
        if self.term.state is LeadershipState.CANDIDATE:
            return self._campaign()
        if self.term.state is LeadershipState.LAPSED:
            self._regain()
            return None
        sent = self.clock.monotonic_ms()
        try:
            self.election.renew()
        except LostLeadershipError:
            self.term.expired()
        except StorageError:
            self.term.suspended(self.clock.monotonic_ms())
        else:
            self.term.renewed(sent, self.clock.monotonic_ms())
        return None

    def _campaign(self) -> Candidacy | None:
        try:
            seen = self.election.campaign()
        except StorageError:
            return None
        if seen.won_ms is not None and self.term.granted(seen.won_ms, self.clock.monotonic_ms()):
            self.led += 1
        return seen

    def _regain(self) -> None:
        try:
            seen = self.election.regain()
        except LostLeadershipError:
            self.term.expired()
        except StorageError:
            return
        else:
            if seen.won_ms is not None and self.term.granted(seen.won_ms, self.clock.monotonic_ms()):
                self.regained += 1

    def may_commit(self) -> bool:
        return self.term.may_commit(self.clock.monotonic_ms())


class Shared:
    """What all drivers of a world see; makes their elections."""

    def __init__(self, kind: str, world: World) -> None:
        self.kind, self.world = kind, world
        self.files: dict[str, bytes] = {}
        self.tree = TimedTree(world)

    def driver(self, fail: Fail = no_failure) -> Driver:
        clock = OwnClock(self.world)
        token = random.Random(clock.offset).randbytes
        if self.kind == "files":
            disk = TimedDisk(self.files, fail, self.world)
            return Driver(FileElection(disk, "leaders/j", clock, LEASE, token, f"d{clock.offset}"), clock)
        nodes = TimedNodes(self.tree, fail, self.world)
        return Driver(ZooKeeperElection(nodes, "/leaders/j", clock, token, f"d{clock.offset}"), clock)


KINDS = ["files", "zookeeper"]


def test_what_dead_drivers_left_half_written_goes_a_lease_later(tmp_path: Path) -> None:
    """Not at once: a driver may be writing it. What comes later is not looked at."""
    world = World()
    clock = OwnClock(world)
    election = FileElection(LocalDisk(tmp_path), "leaders/j", clock, LEASE)
    folder = tmp_path / "leaders" / "j"
    folder.mkdir(parents=True)
    (folder / ".tmp-0123").write_bytes(b"half a be")
    assert election.campaign().won_ms is not None
    world.now_ms += LEASE - 1
    election.renew()
    assert (folder / ".tmp-0123").exists()
    (folder / ".tmp-4567").write_bytes(b"")
    world.now_ms += 1
    election.renew()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".tmp-")] == [".tmp-4567"]
    election.renew()


REGAINED: list[int] = []


def play(kind: str, seed: int, drivers: int = 3, rounds: int = 40) -> int:
    """Drivers in random turns, changed within every operation, with failures; the number of leaderships."""
    REGAINED.append(0)
    world = World(seed, slow=0.02)
    shared, chance = Shared(kind, world), world.chance
    kinds = ("before", "after") if kind == "files" else ("before", "after", "lost", "late")
    alive: dict[int, Driver] = {}
    terms = 0

    def fail(operation: str, path: str) -> str | None:
        return chance.choice(kinds) if chance.random() < 0.03 else None

    def check() -> None:
        # Whatever may be committed now is committed by one only, also if all asked at this very moment.
        able = [driver for driver in alive.values() if driver.may_commit()]
        assert len(able) <= 1, f"seed {seed}: {len(able)} drivers may commit at {world.now_ms} ms"

    def life(who: int) -> Callable[[Callable[[str], None]], None]:
        def live(pause: Callable[[str], None]) -> None:
            nonlocal terms
            alive[who] = shared.driver(fail)
            for _ in range(rounds):
                driver, leads, again = alive[who], alive[who].led, alive[who].regained
                driver.step()
                REGAINED[-1] += driver.regained - again
                terms += driver.led - leads
                check()
                world.now_ms += chance.randrange(60)
                driver.term.tick(driver.clock.monotonic_ms())
                if driver.term.state is LeadershipState.LOST:
                    alive[who] = shared.driver(fail)
                pause("between two rounds")

        return live

    turns = Turns(lambda _, ready: chance.choice(ready))
    world.turn = lambda what: turns.pause()
    turns.run([life(who) for who in range(drivers)])
    return terms


@pytest.mark.parametrize("kind", KINDS)
def test_one_driver_at_a_time_may_commit(kind: str) -> None:
    """Whatever is slow, paused, lost or repeated: never two drivers that may commit."""
    REGAINED.clear()
    assert sum(play(kind, seed) for seed in range(60)) + sum(REGAINED) > 100, "hardly anybody ever led"
    assert (sum(REGAINED) > 10) is (kind == "files")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("files", "impatient"),
        ("files", "late proofs"),
        ("files", "the old term regained"),
        ("zookeeper", "no margin of time"),
    ],
)
def test_planted_faults_of_elections_are_found(
    kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that waits too short, a proof that is believed too late, a lease counted from its answer."""
    if fault == "impatient":
        lapsed = FileElection._lapsed

        def impatient(self, term, beat, looked_ms):
            self.lease_ms = LEASE // 4
            return lapsed(self, term, beat, looked_ms)

        monkeypatch.setattr(FileElection, "_lapsed", impatient)
    elif fault == "the old term regained":

        def regain(self):
            sent_ms = self._clock.monotonic_ms()
            self.renew()
            return Candidacy(sent_ms)

        monkeypatch.setattr(FileElection, "regain", regain)
    elif fault == "late proofs":
        monkeypatch.setattr(LeadershipTerm, "tick", lambda self, now_ms: False)
    else:
        renewed = LeadershipTerm.renewed
        monkeypatch.setattr(
            LeadershipTerm, "renewed", lambda self, sent_ms, now_ms: renewed(self, now_ms + LEASE, now_ms)
        )
    with pytest.raises(AssertionError, match="may commit at"):
        for seed in range(400):
            play(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_standby_takes_over_after_a_lease(kind: str) -> None:
    """Not before, and not much later; who led is told meanwhile."""
    world = World()
    shared = Shared(kind, world)
    first, second = shared.driver(), shared.driver()
    won = first.step()
    assert won is not None
    assert won.won_ms is not None
    seen = second.step()
    assert seen is not None
    assert (seen.won_ms, seen.leader) == (None, f"d{first.clock.offset}")
    waited = 0
    while not second.led:
        world.now_ms += 10
        waited += 10
        second.step()
        assert not (first.may_commit() and second.may_commit())
    assert LEASE <= waited <= LEASE + 20
    first.step()  # its proof comes too late
    first.step()
    assert first.term.state is LeadershipState.LOST


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_resigns_is_followed_at_once(kind: str) -> None:
    """A driver that gives up leaves no lease to wait for; the run goes on."""
    shared = Shared(kind, World())
    first, second = shared.driver(), shared.driver()
    first.step()
    second.step()
    first.election.resign()
    second.step()
    won = second.step() or second.step()
    assert second.led == 1
    assert won is None or won.run == 0


@pytest.mark.parametrize("kind", KINDS)
def test_standbys_hear_of_the_end_and_later_drivers_begin_anew(kind: str) -> None:
    """Who waited while the job ended has nothing to do; who comes later runs it once more, as another run."""
    shared = Shared(kind, World())
    first, waiting = shared.driver(), shared.driver()
    won = first.step()
    assert won is not None
    assert won.run == 0
    waiting.step()
    first.election.end()
    first.election.resign()
    seen = waiting.step()
    assert seen is not None
    assert seen.ended
    assert not waiting.led
    if kind == "zookeeper":
        waiting.election.resign()  # its process ends, and its session
    later = shared.driver()
    won = later.step()
    assert won is not None
    assert (later.led, won.run) == (1, 1)
    later.election.resign()
    again = shared.driver().step()
    assert again is not None
    assert again.run == 1, "given up is not ended"


@pytest.mark.parametrize("kind", KINDS)
def test_an_end_on_record_outlives_the_driver_that_ended_the_job(kind: str) -> None:
    """It died before it made room: who waits for its lease has nothing to do, also who was started anew."""
    shared = Shared(kind, World())
    first, waiting = shared.driver(), shared.driver()
    first.step()
    waiting.step()
    first.election.end()
    first.election.end()
    seen = None
    while seen is None or not seen.ended:
        shared.world.now_ms += 10
        seen = waiting.step()
        assert not waiting.led
        assert shared.world.now_ms <= 2 * LEASE
    if kind == "zookeeper":
        waiting.election.resign()  # its process ends, and its session
    won = shared.driver().step()
    assert won is not None
    assert (won.won_ms is not None, won.run) == (True, 1), "who comes behind it wants another run"


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_started_in_place_of_a_driver_that_died_behind_the_end_has_nothing_to_do(kind: str) -> None:
    """A supervisor starts it, because the other was killed; the next one is another run's."""
    shared = Shared(kind, World())
    first = shared.driver()
    first.step()
    first.election.end()
    again = shared.driver()
    seen = again.step()
    while seen is None or not seen.ended:
        shared.world.now_ms += 10
        seen = again.step()
        assert not again.led
        assert shared.world.now_ms <= 3 * LEASE
    if kind == "zookeeper":
        again.election.resign()
    won = shared.driver().step()
    assert won is not None
    assert (won.won_ms is not None, won.run) == (True, 1)


def test_a_beat_that_arrives_late_does_not_undo_the_end() -> None:
    """A store may carry out a write of before, whose answer was lost, behind the last one."""
    shared = Shared("files", World())
    first = shared.driver()
    first.step()
    first.step()
    beat = next(name for name in shared.files if name.endswith(".beat"))
    late = shared.files[beat]
    first.election.end()
    first.election.resign()
    shared.files[beat] = late
    later = shared.driver()
    later.step()
    shared.world.now_ms += 2 * LEASE
    seen = later.step()
    assert seen is not None
    assert seen.ended


def test_a_session_that_has_expired_ends_no_job() -> None:
    """Its word would come behind that of the driver that leads now."""
    shared = Shared("zookeeper", World())
    first = shared.driver()
    first.step()
    shared.world.now_ms += LEASE
    second = shared.driver()
    won = second.step()
    assert won is not None
    assert won.won_ms is not None
    with pytest.raises(LostLeadershipError, match="expired"):
        first.election.end()
    second.election.resign()
    again = shared.driver().step()
    assert again is not None
    assert again.run == 0


def test_terms_that_are_over_leave_nothing() -> None:
    """The folder of an election does not grow."""
    shared = Shared("files", World())
    for _ in range(5):
        driver = shared.driver()
        driver.step()
        driver.step()
        driver.election.resign()
    assert sorted(shared.files) == [f"leaders/j/{5:019d}", f"leaders/j/{5:019d}.beat"]


def test_a_term_whose_creation_was_unsure_is_read_back() -> None:
    """An unsure first file counts where it is there, and is nobody's where it is not."""
    for there in (True, False):
        failures = iter(["after"])
        files: dict[str, bytes] = {}
        disk = FailingDisk(files, lambda op, name, f=failures: next(f, None) if "absent" in op else None)
        if not there:
            disk.create_if_absent = lambda name, data: (_ for _ in ()).throw(UnsureWriteError(name))  # type: ignore[method-assign]
        election = FileElection(disk, "leaders/j", OwnClock(World()), LEASE)
        assert (election.campaign().won_ms is not None) == there


def test_who_cannot_rewrite_its_beat_wins_no_term_again() -> None:
    """A disk that takes new files only: each new term would hold a standby up for another lease, for ever."""
    files: dict[str, bytes] = {}
    broken: list[str] = []
    disk = FailingDisk(files, lambda op, name: "before" if op == "create" and broken else None)
    election = FileElection(disk, "leaders/j", OwnClock(World()), LEASE)
    assert election.campaign().won_ms is not None
    broken.append("from now on")
    with pytest.raises(StorageError):
        election.regain()
    assert max(files) == f"leaders/j/{1:019d}"
    broken.clear()
    assert election.regain().won_ms is not None
    assert f"leaders/j/{2:019d}" in files


def damaged_beat(shared: Shared) -> Callable[[], object]:
    """A driver that finds a beat it cannot read."""
    shared.driver().step()
    name = next(iter(shared.files))
    shared.files[name] = b"\xc1"
    return FileElection(MemoryDisk(shared.files), "leaders/j", OwnClock(shared.world), LEASE).campaign


def damaged_count(shared: Shared) -> Callable[[], object]:
    """A driver that finds a number of runs it cannot read."""
    shared.driver().step()
    shared.tree.nodes["/leaders/j"] = (b"x", 0, None)
    return ZooKeeperElection(TreeNodes(shared.tree), "/leaders/j", OwnClock(shared.world)).campaign


@pytest.mark.parametrize(("kind", "damage"), [("files", damaged_beat), ("zookeeper", damaged_count)])
def test_a_damaged_election_is_refused_by_name(
    kind: str, damage: Callable[..., Callable[[], object]]
) -> None:
    """Nobody guesses who led, or which run it is: that would be another job's id."""
    with pytest.raises(StorageError, match=r"leaders/j.*stop all"):
        damage(Shared(kind, World()))()


def test_a_session_that_became_shorter_proves_nothing() -> None:
    """A server that keeps sessions for less than the lease cannot be relied on for it."""
    shared = Shared("zookeeper", World())
    nodes = TimedNodes(shared.tree, no_failure, shared.world)
    election = ZooKeeperElection(nodes, "/leaders/j", OwnClock(shared.world))
    assert election.campaign().won_ms is not None
    election.renew()
    nodes.session_ms = LEASE - 1
    with pytest.raises(StorageError, match="maxSessionTimeout"):
        election.renew()
