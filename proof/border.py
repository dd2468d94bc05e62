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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from proof import checks
from proof.border_driver import PARALLELISM, BorderOrder
from proof.drivers import START_S, STRIKE_S, Driver
from proof.job import Answer, Place, line
from proof.modes import ALIGNED, Mode
from proof.record import FaultResult, RunResult
from proof.standalone import StandaloneCluster
from proof.strikes import KILL_SELF, Strikes
from proof.watcher import Watcher

GROUP = "i"
INTERVAL_MS = 1000
RECORD_COST_S = 0.002
"""In each of two subtasks: half a minute for the whole input, and what a kill throws back comes on top."""

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

ON_CLUSTER = (Kill(EXECUTOR), Kill(WORKER), Kill(EXECUTOR), Kill(DRIVER, "write.published"), Kill(EXECUTOR))
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
        parallelism: of the job.
    """

    name: str
    seed: int
    kills: tuple[Kill, ...]
    on_cluster: bool = False
    mode: Mode = ALIGNED
    parallelism: int = PARALLELISM

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
        self._answer = counts_of(answer)
        self._chance, self._log = random.Random(plan.seed), place.root / "drivers.log"
        self._drivers: list[Driver] = []
        self._cluster: StandaloneCluster | None = None
        self.result = RunResult(plan.name, plan.seed, [plan.parallelism], INTERVAL_MS, plan.mode.name)

    @property
    def watcher(self) -> Watcher:
        """Of the present driver."""
        return self._drivers[-1].watcher

    def carry_out(self) -> RunResult:
        """Run, kill, go on, check."""
        began, result = time.monotonic(), self.result
        self._place.root.mkdir(parents=True, exist_ok=True)
        try:
            if self.plan.on_cluster:
                self._cluster = _cluster(self._place.root / "cluster")
            self._start()
            for kill in self.plan.kills:
                if not self._strike(kill):
                    break
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
        order = BorderOrder(str(self._place.root), str(self._place.data), master, RECORD_COST_S)
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
        time.sleep(self._chance.uniform(0, 1.0))
        self._drivers[-1].look()
        killed_s = self._kill(kill, told)
        if killed_s is None:
            return False
        told.struck, told.restarts = True, int(kill.what != FEEDER)
        if kill.what == DRIVER:
            self._drivers[-1].process.wait()
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
        if what == EXECUTOR:
            assert self._cluster is not None
            found = [process.pid for worker in self._cluster.workers for process in worker.executors()]
        else:
            found = list(self.watcher.workers().values())
        return self._chance.choice(sorted(found)) if found else None

    def _await_recovery(self, kill: Kill, told: FaultResult, killed_s: float) -> None:
        # A feeder's task is repeated by Spark: the job does not notice, its epoch comes later.
        sign, watcher = "checkpoint" if kill.what == FEEDER else "running", self.watcher
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
            self._cluster.stop()

    # -- checks ----------------------------------------------------------------------------------

    def _check(self) -> None:
        result = self.result
        for driver in self._drivers:
            completed = driver.watcher.checkpoints()
            result.checkpoints += len(completed)
            result.violations += checks.check_order(completed)
        result.restarts = sum(fault.restarts for fault in result.faults)
        ended = self.watcher.named("ended")
        if not ended or ended[-1].facts["state"] != "finished":
            result.violations.append(f"the last driver ended as {ended}")
        rows, epochs = published(self._place.out)
        result.violations += [*compare(self._answer, rows), *check_epochs(epochs)]
        result.lines = sum(rows.values())
        if result.wrong:
            for number, driver in enumerate(self._drivers, 1):
                result.story += [f"driver {number}", *driver.watcher.story()]
            result.story += self._log.read_text(errors="replace").splitlines()[-60:]


def counts_of(answer: Answer) -> Answer:
    """Of the batch answer of the proof's other job, what this one writes too."""
    return Counter({text: times for text, times in answer.items() if '"count"' in text})


def published(folder: Path) -> tuple[Answer, list[tuple[str, int]]]:
    """The table's rows, and the epochs that are in it, with the lineage of each."""
    rows: Answer = Counter()
    epochs = []
    for place in sorted(folder.glob("_lineage=*/_sink=*/_epoch=*")):
        epochs.append((place.parts[-3], int(place.name.partition("=")[2])))
        for path in sorted(place.glob("*.parquet")):
            rows.update(map(line, pq.read_table(path, partitioning=None).to_pylist()))
    return rows, epochs


def compare(answer: Answer, rows: Answer) -> Iterator[str]:
    """Rows that are missing, and rows too many."""
    missing, more = answer - rows, rows - answer
    if missing:
        yield f"{sum(missing.values())} lines are missing, such as {sorted(missing)[:3]}"
    if more:
        yield f"{sum(more.values())} lines are too many, such as {sorted(more)[:3]}"


def check_epochs(epochs: Sequence[tuple[str, int]]) -> Iterator[str]:
    """All drivers are of one line, and every epoch is there once."""
    lines = {lineage for lineage, _ in epochs}
    if len(lines) != 1:
        yield f"the epochs are of {len(lines)} lines: {sorted(lines)}"
    twice = [epoch for epoch, times in Counter(epochs).items() if times > 1]
    if twice:
        yield f"epochs were published twice: {twice[:5]}"


def _cluster(folder: Path) -> StandaloneCluster:
    folder.mkdir(parents=True)
    cluster = StandaloneCluster(folder)
    for _ in range(2):
        cluster.start_worker("127.0.0.1", cores=4)
    cluster.await_workers()
    return cluster
