"""SIGKILL of whole drivers: each in a chain is killed at a named place, the next restores from its log."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from proof import checks
from proof.driver import Order
from proof.faults import DRIVER_PLACES
from proof.job import Answer, Place
from proof.modes import Mode, check_restored, restored_by
from proof.record import ROOT, FaultResult, RunResult
from proof.strikes import FOLDER_VARIABLE, KILL_SELF, Strikes
from proof.watcher import Watcher

START_S = 120.0
STRIKE_S = 30.0
ENDS_S = 120.0
LEAVES_S = 20.0


@dataclass(frozen=True)
class Chain:
    """A run to be made by several drivers, one after the other.

    Attributes:
        name: for people.
        seed: decides moments.
        mode: how barriers travel.
        parallelism: of each driver; the last one runs to the end.
        interval_ms: between two checkpoints.
        places: where each but the last is killed.
        sources: readers of every driver's job; None: as many as its parallelism, which must not shrink then.
    """

    name: str
    seed: int
    mode: Mode
    parallelism: tuple[int, ...]
    interval_ms: int
    places: tuple[str, ...] = DRIVER_PLACES
    sources: int | None = None

    @property
    def time_limit_s(self) -> float:
        """After which the run counts as hanging."""
        return (START_S + ENDS_S) * len(self.parallelism)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """What is to strike."""
        return tuple(map(fault_name, self.places))

    def order(self, place: Place, parallelism: int, origin: str | None) -> Order:
        """For one of its drivers."""
        return Order(
            str(place.root),
            str(place.data),
            self.mode.name,
            parallelism,
            self.interval_ms,
            self.sources,
            origin,
        )


def fault_name(place: str) -> str:
    """What the death of a driver at a place is called."""
    return f"driver killed at {place}"


class Driver:
    """One driver process and what it tells."""

    def __init__(self, order: Order, log: Path) -> None:
        self.watcher, self.family = Watcher(), set[psutil.Process]()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                order.command(),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"driver-{self.process.pid}")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            self.watcher.note(told["name"], **told["facts"])
        self.watcher.end()

    def look(self) -> None:
        """Note the processes below it that are there now."""
        with suppress(psutil.NoSuchProcess):
            self.family.update(psutil.Process(self.process.pid).children(recursive=True))

    def left(self) -> list[str]:
        """Wait for its end and that of all its processes; what stays."""
        try:
            self.process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return [f"driver {self.process.pid} did not end within {ENDS_S:.0f} s"]
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return list(checks.check_gone((process.pid for process in self.family), LEAVES_S))


class ChainRun:
    """Carries out one chain.

    Args:
        chain: what to do.
        place: where.
        strikes: named places.
        answer: what the output must be.
        told: is called with each fault's result.
    """

    def __init__(
        self,
        chain: Chain,
        place: Place,
        strikes: Strikes,
        answer: Answer,
        told: Callable[[FaultResult], None],
    ) -> None:
        self.plan, self._place, self._strikes, self._answer = chain, place, strikes, answer
        self._told, self._chance = told, random.Random(chain.seed)
        self._log = place.root / "drivers.log"
        self._drivers: list[Driver] = []
        self.result = RunResult(
            chain.name, chain.seed, list(chain.parallelism), chain.interval_ms, chain.mode.name
        )

    @property
    def watcher(self) -> Watcher:
        """Of the present driver."""
        return self._drivers[-1].watcher

    def carry_out(self) -> RunResult:
        """Run, kill, restore, check."""
        assert os.environ.get(FOLDER_VARIABLE)
        began, result = time.monotonic(), self.result
        self._place.root.mkdir(parents=True, exist_ok=True)
        origin, killed_s = None, None
        for number, parallelism in enumerate(self.plan.parallelism):
            last = number == len(self.plan.places)
            if last:
                self._place.gate.touch()
            driver = Driver(self.plan.order(self._place, parallelism, origin), self._log)
            self._drivers.append(driver)
            if not self._comes_up(driver, killed_s):
                break
            if not last:
                killed_s = self._kill(driver, self.plan.places[number])
            result.violations += driver.left()
            if killed_s is None:
                break
            origin = str(self._place.storage / checks.newest_job(self._place.storage))
        self._check()
        result.duration_s = round(time.monotonic() - began, 2)
        if not result.wrong:
            shutil.rmtree(self._place.root)
        else:
            result.story = [line for driver in self._drivers for line in driver.watcher.story()]
            result.story += self._log.read_text(errors="replace").splitlines()[-40:]
        return result

    def _comes_up(self, driver: Driver, killed_s: float | None) -> bool:
        running = driver.watcher.wait(lambda: driver.watcher.first("running", 0), START_S)
        if running is None:
            self.result.violations.append("a driver did not get its job to run")
            driver.process.kill()
            self.result.violations += driver.left()
            return False
        if killed_s is not None:
            self.result.faults[-1].recovery_s = round(running.at_s - killed_s, 3)
            self._told(self.result.faults[-1])
        return True

    def _kill(self, driver: Driver, place: str) -> float | None:
        """Let it complete a checkpoint, then kill it at the place; gives the moment."""
        told = FaultResult(fault_name(place), "f")
        self.result.faults.append(told)
        watcher = driver.watcher
        watcher.wait(lambda: watcher.first("checkpoint", 0), STRIKE_S)
        time.sleep(self._chance.uniform(0, 1.0))
        driver.look()
        self._strikes.arm(place, KILL_SELF, only_pid=driver.process.pid)
        deadline = time.monotonic() + STRIKE_S
        while (at_s := self._strikes.struck_at(place)) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if at_s is None:
            self._strikes.disarm()
            driver.process.kill()
            self.result.violations.append(f"the driver never came to {place}")
            return None
        told.struck, told.restarts = True, 1
        told.struck_s = round(at_s - watcher.events[0].at_s, 3)
        return at_s

    def _check(self) -> None:
        check_drivers(self.result, self.plan.mode, self._drivers, self._answer, self._place)


def check_drivers(
    result: RunResult, mode: Mode, drivers: Sequence[Driver], answer: Answer, place: Place
) -> list[int] | None:
    """What must hold of drivers of which each but the last was killed; it is noted in `result`.

    Returns:
        the checkpoints that the last driver told of; None where it did not finish the job.
    """
    completed: list[int] = []
    for driver in drivers:
        completed = driver.watcher.checkpoints()
        result.checkpoints += len(completed)
        result.violations += checks.check_order(completed)
        result.restored.add(restored_by(driver.watcher))
    result.violations += check_restored(mode, result.restored)
    result.restarts = len(drivers) - 1
    ended = drivers[-1].watcher.named("ended")
    if not ended or ended[-1].facts["state"] != "finished":
        result.violations.append(f"the last driver ended as {ended}")
        return None
    last = completed[-1] if completed else None
    result.violations += [
        *checks.check_output(answer, place),
        *checks.check_storage(place.storage, last, killed_drivers=result.restarts),
    ]
    result.lines = sum(answer.values())
    return completed
