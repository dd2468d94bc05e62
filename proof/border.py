"""SIGKILL of workers, feeders, executors and drivers of a job with Spark at both ends.

Each driver of a run is a process; when one is killed the next finds the job by its name. At the end the
Parquet table must hold the batch answer, and no epoch twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from proof import border_checks as border
from proof import checks
from proof.border_driver import INTERVAL_MS, PARALLELISM, BorderOrder, batch_answer_in
from proof.drivers import LEAVES_S, START_S, STRIKE_S, Driver
from proof.job import FILES, Answer, Place
from proof.modes import ALIGNED, Mode, check_restored, restored_by
from proof.record import FaultResult, RunResult
from proof.relays import Found, check_nothing_lost, look
from proof.standalone import EXECUTOR_CLASS, StandaloneCluster, command_of
from proof.strikes import KILL_SELF, Strikes
from proof.watcher import Watcher

GROUP = "i"
EPOCH_S = 2.0
"""What an epoch takes in the feeding tasks, and in the keyed function, until the gate is open."""

WORKER, EXECUTOR, DRIVER, FEEDER = "worker", "executor", "driver", "feeder"
RANDOM = "a random moment"


@dataclass(frozen=True)
class Kill:
    """One process that is killed.

    Attributes:
        what: WORKER, EXECUTOR, DRIVER or FEEDER.
        place: where it is when it is killed, or RANDOM.
    """

    what: str
    place: str = RANDOM

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.what} killed at {self.place}, Spark at both ends"


KILLS = (
    Kill(WORKER),
    Kill(WORKER, "user.process"),
    Kill(FEEDER, "feeder.task"),
    Kill(DRIVER),
    *(
        Kill(DRIVER, place)
        for place in (
            "checkpoint.triggered",
            "checkpoint.storing",
            "checkpoint.logged",
            "sinks.committing",
            "write.begins",
            "write.published",
            "sinks.committed",
        )
    ),
)
"""What is killed on local Spark."""

ON_CLUSTER = (
    *(Kill(EXECUTOR),) * 3,
    Kill(WORKER),
    Kill(FEEDER, "feeder.task"),
    Kill(DRIVER, "write.published"),
)
"""What is killed on a standalone cluster."""


@dataclass(frozen=True)
class Border:
    """A run to be made.

    Attributes:
        name: for people.
        seed: decides moments and victims.
        kills: in order.
        on_cluster: whether Spark is a standalone cluster of several processes.
        mode: how barriers travel.
        files_per_epoch: of the input: each kill takes one or two epochs.
        parallelism: of the job.
    """

    name: str
    seed: int
    kills: tuple[Kill, ...]
    on_cluster: bool = False
    mode: Mode = ALIGNED
    files_per_epoch: int = 1
    parallelism: int = PARALLELISM

    @property
    def epochs(self) -> int:
        """Of the source, in the whole input."""
        return -(-FILES // self.files_per_epoch)

    @property
    def time_limit_s(self) -> float:
        """After which the run counts as hanging."""
        return (START_S + STRIKE_S) * (len(self.kills) + 2)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """What is to strike."""
        return tuple(kill.name for kill in self.kills)


class BorderRun:
    """Carries out one run.

    Args:
        plan: what to do.
        place: where.
        strikes: named places.
        answer: of the other runs' job, whose counts are this one's.
        told: is called with each fault's result.
    """

    def __init__(
        self,
        plan: Border,
        place: Place,
        strikes: Strikes,
        answer: Answer,
        told: Callable[[FaultResult], None],
    ) -> None:
        self.plan, self._place, self._strikes, self._told = plan, place, strikes, told
        self._answer = border.counts_of(answer)
        self._chance, self._log = random.Random(plan.seed), place.root / "drivers.log"
        self._drivers: list[Driver] = []
        self._cluster: StandaloneCluster | None = None
        self._found, self._source, self._committed = Found(), None, set[int]()
        self.result = RunResult(plan.name, plan.seed, [plan.parallelism], INTERVAL_MS, plan.mode.name)

    @property
    def watcher(self) -> Watcher:
        """Of the present driver."""
        return self._drivers[-1].watcher if self._drivers else Watcher()

    def carry_out(self) -> RunResult:
        """Run, kill, go on, check."""
        began, result = time.monotonic(), self.result
        self._place.root.mkdir(parents=True, exist_ok=True)
        try:
            if self.plan.on_cluster:
                self._cluster = _cluster(self._place.root / "cluster")
            self._start()
            if all(self._strike(kill) for kill in self.plan.kills):
                self._place.gate.touch()
                result.violations += self._drivers[-1].left()
        finally:
            self._strikes.disarm()
            self._end_all()
        self._check()
        result.duration_s = round(time.monotonic() - began, 2)
        if not result.wrong:
            shutil.rmtree(self._place.root)
        return result

    # -- kills -----------------------------------------------------------------------------------

    def _start(self) -> None:
        # More slots than the gang and its feeders need: a replaced worker holds its own for seconds.
        master = f"local[{PARALLELISM + 4}]" if self._cluster is None else self._cluster.url
        plan, rows = self.plan, self._answer.total() / self.plan.epochs
        cost_s = EPOCH_S * PARALLELISM / rows
        order = BorderOrder(
            str(self._place.root),
            str(self._place.data),
            master,
            plan.mode.name,
            plan.files_per_epoch,
            cost_s,
            EPOCH_S / plan.files_per_epoch,
        )
        self._drivers.append(Driver(order, self._log))

    def _strike(self, kill: Kill) -> bool:
        """One kill and what follows; whether it makes sense to go on."""
        told = FaultResult(kill.name, GROUP)
        self.result.faults.append(told)
        watcher = self.watcher
        after = watcher.events[-1].at_s if watcher.events else 0.0
        if not watcher.wait(lambda: watcher.first("checkpoint", after), START_S):
            told.violations.append("no checkpoint completed before the kill")
            return False
        time.sleep(self._chance.uniform(0, EPOCH_S))
        self._drivers[-1].look()
        killed_s = self._kill(kill, told)
        if killed_s is None:
            return False
        # A cluster repeats a feeder's task: the job does not notice. Local Spark fails the query at once.
        unnoticed = kill.what == FEEDER and self.plan.on_cluster
        told.struck, told.restarts = True, int(not unnoticed)
        told.struck_s = round(killed_s - self._drivers[0].watcher.events[0].at_s, 3)
        if kill.what == DRIVER:
            self._drivers[-1].process.wait()
            self._inspect(told)
            told.violations += self._drivers[-1].left()
            self._start()
        self._await_recovery(kill, told, killed_s)
        self._told(told)
        return not told.violations

    def _kill(self, kill: Kill, told: FaultResult) -> float | None:
        """When it was done (monotonic clock)."""
        if kill.place != RANDOM:
            return self._wait_for_strike(kill, told)
        victim = self._victim(kill.what)
        if victim is None:
            told.violations.append(f"there is no {kill.what}")
            return None
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            told.violations.append(f"the {kill.what} had ended before")
            return None
        return time.monotonic()

    def _wait_for_strike(self, kill: Kill, told: FaultResult) -> float | None:
        only = self._drivers[-1].process.pid if kill.what == DRIVER else None
        self._strikes.arm(kill.place, KILL_SELF, only_pid=only)
        deadline = time.monotonic() + STRIKE_S
        while (at_s := self._strikes.struck_at(kill.place)) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        self._strikes.disarm()
        if at_s is None:
            told.violations.append(f"no process came to {kill.place}")
        return at_s

    def _victim(self, what: str) -> int | None:
        if what == DRIVER:
            return self._drivers[-1].process.pid
        found = sorted(self.watcher.workers().values())
        if not found:
            return None
        worker = self._chance.choice(found)
        return _executor_of(worker) if what == EXECUTOR else worker

    def _await_recovery(self, kill: Kill, told: FaultResult, killed_s: float) -> None:
        sign, watcher = "running" if told.restarts else "checkpoint", self.watcher
        back = watcher.wait(lambda: watcher.first(sign, killed_s), START_S)
        if back is None:
            told.violations.append("the job did not get to run again")
            return
        told.recovery_s = round(back.at_s - killed_s, 3)

    def _end_all(self) -> None:
        for driver in self._drivers:
            if driver.process.poll() is None:
                driver.process.kill()
                driver.left()
        if self._cluster is not None:
            workers = [pid for driver in self._drivers for pid in _workers_ever(driver.watcher)]
            self._cluster.stop()
            self.result.violations += checks.check_gone(workers, LEAVES_S)

    # -- checks ----------------------------------------------------------------------------------

    def _inspect(self, told: FaultResult) -> None:
        """What a dead driver has left: whole, nothing lost, nothing twice."""
        found = look(self._place.storage, told.violations)
        told.violations += check_nothing_lost(self._found, found, self.watcher.checkpoints())
        source = border.source_epoch(self._place.storage, found)
        told.violations += border.check_source(self._source, source, self.plan.epochs - 1)
        table = self._check_table(told.violations, over=False)
        told.violations += border.not_too_many(self._answer, table.rows, "the table")
        told.detail = f"source at epoch {source}, {len(table.epochs)} epochs in the table"
        self._found, self._source = found, source

    def _check_table(self, wrong: list[str], *, over: bool) -> border.Table:
        table = border.published(self._place.out)
        kept, unreadable = border.journal(self._place.storage)
        wrong += [*unreadable, *border.check_journal(self._committed, kept, table.numbers, over=over)]
        self._committed |= border.committed(kept)
        return table

    def _check(self) -> None:
        result = self.result
        for driver in self._drivers:
            completed = driver.watcher.checkpoints()
            result.checkpoints += len(completed)
            result.violations += checks.check_order(completed)
            result.restored.add(restored_by(driver.watcher))
        result.violations += check_restored(self.plan.mode, result.restored)
        result.restarts = sum(fault.restarts for fault in result.faults)
        ended = self.watcher.named("ended")
        if ended and ended[-1].facts["state"] == "finished":
            self._check_finished()
        else:
            result.violations.append(f"the last driver ended as {ended}")
        if result.wrong:
            for number, driver in enumerate(self._drivers, 1):
                result.story += [f"driver {number}", *driver.watcher.story()]
            result.story += self._log.read_text(errors="replace").splitlines()[-60:]

    def _check_finished(self) -> None:
        """The table is the batch answer, plain Python's and Spark's; every epoch is in it, once."""
        place, wrong = self._place, self.result.violations
        found = look(place.storage, wrong)
        wrong += check_nothing_lost(self._found, found, self.watcher.checkpoints())
        source = border.source_epoch(place.storage, found)
        wrong += border.check_source(self._source, source, self.plan.epochs - 1)
        table = self._check_table(wrong, over=True)
        wrong += [
            *border.compare(self._answer, table.rows, "the table"),
            *border.compare(
                border.rows_in(batch_answer_in(place)), table.rows, "the table against Spark's answer"
            ),
            *border.check_epochs(table.epochs),
            *border.check_tidy(place),
        ]
        given = 0 if source is None else source + 1
        # Barriers that overtake records part an epoch of the source into two of the sink.
        if not self.plan.mode.backpressure and len(table.epochs) != given:
            wrong.append(f"{len(table.epochs)} epochs are in the table; the last checkpoint holds {given}")
        self.result.lines = table.rows.total()


def _workers_ever(watcher: Watcher) -> list[int]:
    return [event.facts["pid"] for event in watcher.named("worker")]


def _executor_of(worker: int) -> int | None:
    """The JVM that a worker's process belongs to."""
    try:
        above = psutil.Process(worker).parents()
    except psutil.NoSuchProcess:
        return None
    return next((each.pid for each in above if EXECUTOR_CLASS in " ".join(command_of(each))), None)


def _cluster(folder: Path) -> StandaloneCluster:
    folder.mkdir(parents=True)
    cluster = StandaloneCluster(folder)
    for _ in range(2):
        cluster.start_worker("127.0.0.1", cores=4)
    cluster.await_workers()
    return cluster
