"""The faults: what each does to a running job, and what must follow.

Each is a function of the scene; it returns when the fault has struck, with the moment, or None when
the job ended first. What is awaited afterwards is the same for all of a kind.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from proof.checks import check_gone
from proof.job import Place
from proof.strikes import KILL, KILL_SELF, RAISE, Strikes
from proof.watcher import Watcher

STRIKE_S = 20.0
"""How long an armed place may take to be reached."""

ZOMBIE_ENDS_S = 2.5

RESTART, GOES_ON = "restart", "goes on"


@dataclass
class Scene:
    """A running job and the tools to hurt it.

    Attributes:
        watcher: what the driver tells.
        strikes: named places.
        place: the job's folders.
        chance: decides which worker and when.
        stopped: continuations of stopped workers that are still to come.
        healed_s: when what was out of order was in order again: recovery counts from there.
        wrong: what did not hold.
    """

    watcher: Watcher
    strikes: Strikes
    place: Place
    chance: random.Random
    stopped: list[threading.Timer] = field(default_factory=list)
    healed_s: float | None = None
    wrong: list[str] = field(default_factory=list)

    def any_worker(self) -> int:
        """The process of some worker."""
        return self.chance.choice(sorted(self.watcher.workers().values()))

    def struck(self, place: str) -> float | None:
        """Wait until the armed place was reached."""
        deadline = time.monotonic() + STRIKE_S
        while (at_s := self.strikes.struck_at(place)) is None:
            if self.watcher.over or time.monotonic() > deadline:
                self.strikes.disarm()
                return self.strikes.struck_at(place)
            time.sleep(0.005)
        return at_s


Strike = Callable[[Scene], float | None]


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: for the record.
        group: the letter of its group.
        strike: does it.
        follows: RESTART, or GOES_ON when the job must not restart.
        same_gang: whether the restart must find the living gang good enough.
        one_source: whether it wants a worker without a source.
    """

    name: str
    group: str
    strike: Strike
    follows: str = RESTART
    same_gang: bool = False
    one_source: bool = False


def kill(pid: int) -> float:
    """SIGKILL; a process that is gone already is fine."""
    at_s = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return at_s


def kill_random(scene: Scene) -> float | None:
    """One worker, any moment."""
    return kill(scene.any_worker())


def kill_all(scene: Scene) -> float | None:
    """All workers at once."""
    return min(kill(pid) for pid in scene.watcher.workers().values())


def kill_without_source(scene: Scene) -> float | None:
    """The worker of the last slot, which has no source where the source has fewer subtasks."""
    return kill(max(scene.watcher.workers().items())[1])


def kill_during_recovery(scene: Scene) -> float | None:
    """One worker, and one of those that should replace the gang: just registered, deploying, running."""
    at_s = kill(scene.any_worker())
    moment = scene.chance.choice(("worker", "deploying", "running"))
    if scene.watcher.wait(lambda: scene.watcher.first(moment, at_s), STRIKE_S) is None:
        return None
    time.sleep(scene.chance.uniform(0, 0.05))
    workers = scene.watcher.workers()
    return kill(scene.chance.choice(sorted(workers.values()))) if workers else None


def worker_dies_at(place: str) -> Strike:
    """A worker kills itself where the runtime tells its probe."""

    def strike(scene: Scene) -> float | None:
        scene.strikes.arm(place, KILL_SELF, only_pid=scene.any_worker())
        return scene.struck(place)

    return strike


def driver_kills_at(place: str) -> Strike:
    """The driver stands at a place of its own while a worker is killed, and goes on."""

    def strike(scene: Scene) -> float | None:
        scene.strikes.arm(place, KILL, victim=scene.any_worker())
        return scene.struck(place)

    return strike


def raises_at(place: str) -> Strike:
    """User code or a connector raises."""

    def strike(scene: Scene) -> float | None:
        scene.strikes.arm(place, RAISE)
        return scene.struck(place)

    return strike


def stop_for(seconds: float | None) -> Strike:
    """SIGSTOP of a worker, and SIGCONT after a while; None is never."""

    def strike(scene: Scene) -> float | None:
        pid = scene.any_worker()
        at_s = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        if seconds is not None:
            timer = threading.Timer(seconds, _go_on, (scene, pid))
            scene.stopped.append(timer)
            timer.start()
        return at_s

    return strike


def _go_on(scene: Scene, pid: int) -> None:
    """SIGCONT; a worker that was replaced must end by itself, long before Spark would kill it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    scene.wrong.extend(f"continued, but {text}" for text in check_gone([pid], ZOMBIE_ENDS_S))


def storage_trouble(also_kill: bool) -> Strike:
    """The job's checkpoint folder cannot be used for a while; perhaps a worker dies meanwhile."""

    def strike(scene: Scene) -> float | None:
        folder = max((f for f in scene.place.storage.glob("[!.]*") if f.is_dir()), key=os.path.getmtime)
        with out_of_order(folder):
            at_s = time.monotonic()
            if also_kill:
                time.sleep(scene.chance.uniform(0, 0.3))
                kill(scene.any_worker())
            time.sleep(1.2)
        scene.healed_s = time.monotonic()
        return at_s

    return strike


def output_trouble(scene: Scene) -> float | None:
    """The sink's folder of pending files cannot be used for a while."""
    with out_of_order(scene.place.out / "_pending"):
        at_s = time.monotonic()
        time.sleep(1.2)
    scene.healed_s = time.monotonic()
    return at_s


@contextmanager
def out_of_order(folder: Path) -> Iterator[None]:
    """A file stands where the folder is: every access below fails, for every user, and no file is lost.

    The two are exchanged in one step of the file system, so nothing can be written in between.
    """
    stand_in = folder.with_name(f".stand-in-{folder.name}")
    stand_in.touch()
    _exchange(stand_in, folder)
    try:
        yield
    finally:
        _exchange(stand_in, folder)
        stand_in.unlink()


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot exchange: {os.strerror(number)}", str(one), None, str(other))


WORKER_PLACES = ("snapshot.drawn", "ack.before", "ack.after")
DRIVER_PLACES = ("checkpoint.metadata-written", "checkpoint.logged", "sinks.committed")

LEASE_S, HEARTBEAT_TIMEOUT_S = 1.5, 2.0
SPARK_KILLS_S = 6.0
"""From a cancel to Spark's own SIGKILL; long, so that a worker must end itself to be gone earlier."""

FAULTS: tuple[Fault, ...] = (
    Fault("worker killed at a random moment", "a", kill_random),
    Fault("all workers killed at once", "a", kill_all),
    Fault("worker without a source killed", "a", kill_without_source, one_source=True),
    Fault("worker killed during recovery", "a", kill_during_recovery),
    *(Fault(f"worker killed at {place}", "b", worker_dies_at(place)) for place in WORKER_PLACES),
    *(Fault(f"worker killed, driver at {place}", "c", driver_kills_at(place)) for place in DRIVER_PLACES),
    # It goes on when its lease is over but the driver has not yet given it up; when others have begun to
    # replace it; when the new gang runs; never.
    Fault("worker stopped beyond its lease", "d", stop_for(1.8)),
    Fault("worker stopped beyond the heartbeat timeout", "d", stop_for(2.3)),
    Fault("worker stopped until the new gang runs", "d", stop_for(4.0)),
    Fault("worker stopped for good", "d", stop_for(None)),
    Fault("exception in user code", "e", raises_at("user.process"), same_gang=True),
    Fault("exception in prepare_commit", "e", raises_at("sink.prepare-commit"), same_gang=True),
    Fault("exception in commit", "e", raises_at("sink.commit"), same_gang=True),
    Fault("checkpoint storage out of order", "g", storage_trouble(also_kill=False), follows=GOES_ON),
    Fault("worker killed, checkpoint storage out of order", "g", storage_trouble(also_kill=True)),
    Fault("output folder out of order", "g", output_trouble),
)
"""All but those of the driver's own death, which are in `drivers.py`."""
