"""SIGKILL of leading drivers: the job is found again by its name and goes on from what its log holds.

All drivers of a relay are started alike. One leads; it is killed at a named place between the trigger of a
checkpoint and its last consequence, or at a random moment of its life, and the next one takes over: at some
kills it stands by already, at the others it is started afterwards.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.entries import Completed
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.verifying import verify
from headgate.common.ids import JobId
from proof import checks
from proof.driver import Order
from proof.drivers import START_S, STRIKE_S, Driver, check_drivers
from proof.job import Answer, Place
from proof.modes import Mode
from proof.record import FaultResult, RunResult
from proof.strikes import FOLDER_VARIABLE, KILL_SELF, Strikes
from proof.watcher import Event, Watcher

STEPS = (
    "checkpoint.triggered",
    "checkpoint.acknowledged",
    "checkpoint.storing",
    "checkpoint.metadata-written",
    "checkpoint.logged",
    "sinks.committing",
    "sink.commit",
    "sinks.committed",
    "checkpoint.notified",
    "checkpoint.retired",
)
"""Places of a driver in the order in which a checkpoint comes to them."""

STARTING, RUNNING = "a random moment of its start", "a random moment"
RANDOM = (STARTING, RUNNING)

GROUP = "h"
RATE_PER_S = 600.0
LEASE_S = 2.0
INTERVAL_MS = 200
NUM_RETAINED = 3


@dataclass(frozen=True)
class Relay:
    """A run to be made by drivers that take over from each other.

    Attributes:
        name: for people.
        seed: decides moments.
        mode: how barriers travel.
        places: where each driver but the last is killed: one of STEPS or RANDOM.
        on_spark: whether workers are processes of Spark, and not threads of the driver.
        parallelism: of all drivers.
    """

    name: str
    seed: int
    mode: Mode
    places: tuple[str, ...]
    on_spark: bool = False
    parallelism: int = 2

    @property
    def time_limit_s(self) -> float:
        """After which the run counts as hanging."""
        return (START_S + STRIKE_S) * (len(self.places) + 1)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """What is to strike."""
        return tuple(map(fault_name, self.places))

    def order(self, place: Place) -> Order:
        """For each of its drivers."""
        options = {
            "high-availability.type": "filesystem",
            "high-availability.lease": f"{LEASE_S:.0f}s",
            "execution.checkpointing.num-retained": NUM_RETAINED,
            # Files of their own, so that there is something to be left over.
            "execution.checkpointing.data-inline-threshold": 0,
        }
        return Order(
            str(place.root),
            str(place.data),
            self.mode.name,
            self.parallelism,
            INTERVAL_MS,
            on_spark=self.on_spark,
            rate_per_s=RATE_PER_S,
            options=options,
        )


def fault_name(place: str) -> str:
    """What the death of a leader at a place is called."""
    return f"leader killed at {place}"


@dataclass(frozen=True)
class Found:
    """What a dead driver left on the disk.

    Attributes:
        logged: completed checkpoints, oldest first.
        left_over: files that no completed checkpoint needs, and unfinished ones; not those of a whole one
            that is newer than the log, which stays until a newer one is complete.
    """

    logged: tuple[Completed, ...] = ()
    left_over: frozenset[str] = frozenset()

    @property
    def newest(self) -> int | None:
        """The last completed checkpoint."""
        return self.logged[-1].checkpoint if self.logged else None


def look(storage: Path, wrong: list[str]) -> Found:
    """Verify everything that is complete, byte by byte; `wrong` is told what does not hold."""
    jobs = _jobs(storage)
    if not jobs:
        return Found()
    if len(jobs) > 1:
        wrong.append(f"the drivers ran {len(jobs)} jobs instead of one: {jobs}")
    disk = LocalDisk(storage)
    report = verify(str(storage / jobs[0]))
    wrong += [f"after the kill: {text}" for text in report.damaged]
    logged = CompletedCheckpointLog(disk, log_folder(JobId(jobs[0]))).completed()
    return Found(tuple(logged), frozenset([*report.orphans, *report.unfinished]))


def _jobs(storage: Path) -> list[str]:
    if not storage.exists():
        return []
    return sorted(path.name for path in storage.iterdir() if (path / "log").is_dir())


def check_nothing_lost(before: Found, now: Found, told: Iterator[int] | list[int]) -> Iterator[str]:
    """What was complete stays complete: only the oldest may be retired, and each that was told of is there.

    Args:
        before: what the driver before had left.
        now: what this one has left.
        told: checkpoints of which this one told that they were complete.
    """
    if now.newest is None:
        if before.logged:
            yield f"the log is empty, and held checkpoint {before.newest}"
        return
    oldest = now.logged[0].checkpoint
    kept = [entry for entry in before.logged if entry.checkpoint >= oldest]
    if list(now.logged[: len(kept)]) != kept:
        yield f"the log held {_ids(before)} and holds {_ids(now)}: that is no continuation"
    if before.newest is not None and now.newest < before.newest:
        yield f"the log ended with {before.newest} and ends with {now.newest}"
    lost = {checkpoint for checkpoint in told if checkpoint >= oldest} - set(_ids(now))
    if lost:
        yield f"checkpoints {sorted(lost)} were complete and are not in the log"
    if len(now.logged) > 1 and any(b.checkpoint <= a.checkpoint for a, b in itertools.pairwise(now.logged)):
        yield f"the log is out of order: {_ids(now)}"


def _ids(found: Found) -> list[int]:
    return [entry.checkpoint for entry in found.logged]


class RelayRun:
    """Carries out one relay.

    Args:
        plan: what to do.
        place: where.
        strikes: named places.
        answer: what the output must be.
        told: is called with each fault's result.
    """

    def __init__(
        self,
        plan: Relay,
        place: Place,
        strikes: Strikes,
        answer: Answer,
        told: Callable[[FaultResult], None],
    ) -> None:
        self.plan, self._place, self._strikes, self._answer = plan, place, strikes, answer
        self._told, self._chance = told, random.Random(plan.seed)
        self._log = place.root / "drivers.log"
        self._drivers: list[Driver] = []
        self._found, self._killed_s = Found(), 0.0
        self.result = RunResult(plan.name, plan.seed, [plan.parallelism], INTERVAL_MS, plan.mode.name)

    @property
    def watcher(self) -> Watcher:
        """Of the driver that was started last."""
        return self._drivers[-1].watcher

    def carry_out(self) -> RunResult:
        """Run, kill, take over, check."""
        assert os.environ.get(FOLDER_VARIABLE)
        began, result = time.monotonic(), self.result
        self._place.root.mkdir(parents=True, exist_ok=True)
        leader: Driver | None = self._start()
        for number, (place, following) in enumerate(zip(self.plan.places, [*self.plan.places[1:], None])):
            leader = self._next_leader(leader, place, following, standby=number % 2 == 1)
            if leader is None:
                break
        else:
            self._place.gate.touch()
            result.violations += self._drivers[-1].left()
        self._check()
        result.duration_s = round(time.monotonic() - began, 2)
        self._tidy()
        return result

    def _next_leader(
        self, leader: Driver, place: str, following: str | None, *, standby: bool
    ) -> Driver | None:
        """Kill the leader at a place; who takes over from it, or None when it makes no sense to go on."""
        if place == STARTING:
            told = self._kill(leader, place, self._wait_a_moment)
        else:
            told = self._kill_running(leader, place, standby=standby)
        if told is None:
            return None
        successor = self._drivers[-1] if self._drivers[-1] is not leader else self._start()
        # One that is to die while it starts has no time to run.
        took_over = following == STARTING or self._takes_over(successor, told)
        self._told(told)
        return successor if took_over else None

    def _start(self) -> Driver:
        driver = Driver(self.plan.order(self._place), self._log)
        self._drivers.append(driver)
        return driver

    # -- kills -----------------------------------------------------------------------------------

    def _kill_running(self, leader: Driver, place: str, *, standby: bool) -> FaultResult | None:
        """Kill a leader that has completed a checkpoint, with another one waiting or without."""
        if not leader.watcher.wait(lambda: leader.watcher.first("checkpoint", 0), START_S):
            self.result.violations.append("a leader completed no checkpoint")
            return None
        if standby:
            waiting = self._start().watcher
            waiting.wait(lambda: waiting.first("note", 0), START_S)
        time.sleep(self._chance.uniform(0, 0.5))
        if place == RUNNING:
            return self._kill(leader, place, lambda _: None)
        return self._kill(leader, place, self._wait_for_strike(place))

    def _wait_a_moment(self, _: Driver) -> None:
        """In this time the driver imports, is elected, claims, restores, and begins to run."""
        time.sleep(self._chance.uniform(0.5, LEASE_S + 1.5))

    def _wait_for_strike(self, place: str) -> Callable[[Driver], str | None]:
        def strike(leader: Driver) -> str | None:
            self._strikes.arm(place, KILL_SELF, only_pid=leader.process.pid)
            deadline = time.monotonic() + STRIKE_S
            while self._strikes.struck_at(place) is None and time.monotonic() < deadline:
                time.sleep(0.005)
            self._strikes.disarm()
            return None if self._strikes.struck_at(place) else f"the leader never came to {place}"

        return strike

    def _kill(self, leader: Driver, place: str, when: Callable[[Driver], str | None]) -> FaultResult | None:
        told = FaultResult(fault_name(place), GROUP)
        self.result.faults.append(told)
        leader.look()
        if wrong := when(leader):
            told.violations.append(wrong)
        leader.look()
        leader.process.kill()
        self._killed_s = at_s = self._strikes.struck_at(place) or time.monotonic()
        leader.process.wait()
        if leader.process.returncode == 0:
            told.violations.append("the job had ended before")
            return None
        told.struck, told.struck_s = not wrong, round(at_s - self._began_s(leader, at_s), 3)
        self._inspect(leader, told)
        told.violations += leader.left()
        return None if wrong else told

    def _began_s(self, driver: Driver, otherwise: float) -> float:
        return driver.watcher.events[0].at_s if driver.watcher.events else otherwise

    def _inspect(self, dead: Driver, told: FaultResult) -> None:
        """What the dead one has left must be whole, and nothing of what was complete may be lost."""
        found = look(self._place.storage, told.violations)
        told.violations += check_nothing_lost(self._found, found, dead.watcher.checkpoints())
        told.violations += checks.check_not_too_many(self._answer, self._place)
        told.detail = f"checkpoints {_ids(found)}, {len(found.left_over)} files left over"
        self._found = found

    # -- what follows ----------------------------------------------------------------------------

    def _takes_over(self, leader: Driver, told: FaultResult) -> bool:
        """The next driver begins at the newest completed checkpoint, and sweeps what was left over."""
        watcher = leader.watcher
        running: Event | None = watcher.wait(lambda: watcher.first("running", 0), START_S)
        if running is None:
            told.violations.append("the next driver did not get the job to run")
            return False
        told.restarts = 1
        told.recovery_s = round(running.at_s - self._killed_s, 3)
        begun = watcher.named("deploying")[0].facts["checkpoint"]
        if begun != self._found.newest:
            told.violations.append(f"it began at checkpoint {begun} instead of {self._found.newest}")
        # Swept before the first deployment; a name that came back would be one that is used twice.
        stay = [uri for uri in self._found.left_over if Path(uri.removeprefix("file://")).is_file()]
        if stay:
            told.violations.append(f"{len(stay)} files stay that nothing needs, such as {stay[0]}")
        return True

    # -- checks ----------------------------------------------------------------------------------

    def _check(self) -> None:
        result, storage = self.result, self._place.storage
        last = check_drivers(result, self.plan.mode, self._drivers, self._answer, self._place)
        if last is not None:
            result.violations += [
                *check_nothing_lost(self._found, look(storage, result.violations), last),
                *_check_markers(storage),
            ]

    def _tidy(self) -> None:
        for driver in self._drivers:
            with suppress(ProcessLookupError):
                driver.process.kill()
            driver.left()
        if not self.result.wrong:
            shutil.rmtree(self._place.root)
            return
        for number, driver in enumerate(self._drivers, 1):
            self.result.story += [f"driver {number}", *driver.watcher.story()]
        self.result.story += self._log.read_text(errors="replace").splitlines()[-60:]


def _check_markers(storage: Path) -> Iterator[str]:
    """Whoever takes over removes the marker by which the workers of the dead one knew the storage."""
    left = [path.name for path in (storage / ".headgate-probe").glob("*of*")]
    if left:
        yield f"{len(left)} markers of dead drivers are left"
