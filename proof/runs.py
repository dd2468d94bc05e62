"""One job on the Spark of this process, with faults one after the other, and its checks."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.deploy.spark.executor import SparkExecutor
from headgate.testing.mini_cluster import MiniCluster
from proof import checks
from proof.faults import GOES_ON, HEARTBEAT_TIMEOUT_S, LEASE_S, SPARK_KILLS_S, Fault, Scene
from proof.job import Answer, Place, build
from proof.modes import InFlight, Mode, check_restored, restored_by
from proof.record import FaultResult, RunResult
from proof.strikes import PROBE, Strikes
from proof.watcher import Event, Listener, Watcher

RATE_PER_S = 2400.0
"""Records per second while faults are due."""

BACKPRESSURE = 1.5
"""How much faster the source is than the keyed function, in modes that want records to queue up."""

SLOTS = 8
"""Four workers, and as many that were replaced but still hold a slot of Spark."""

RECOVERS_S = 40.0
PROGRESS_S = 20.0
TIME_LIMIT_S = 60.0
"""For a run without faults; a fault may add :data:`RECOVERS_S`."""


@dataclass(frozen=True)
class Form:
    """How the job is run.

    Attributes:
        mode: how barriers travel.
        parallelism: of all operators.
        interval_ms: between two checkpoints.
        source_parallelism: readers, when it is another number.
        on_spark: whether workers are processes of Spark, and not threads of the driver.
        rate_per_s: records per second that are read while faults are due.
        more: further settings.
    """

    mode: Mode
    parallelism: int
    interval_ms: int
    source_parallelism: int | None = None
    on_spark: bool = True
    rate_per_s: float = RATE_PER_S
    more: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """The settings; heartbeats are fast so that a stopped worker is found in seconds."""
        return {
            "execution.checkpointing.interval": self.interval_ms,
            "execution.checkpointing.num-retained": 2,
            "execution.checkpointing.tolerable-failed-checkpoints": 1000,
            "heartbeat.interval": "200ms",
            "heartbeat.timeout": f"{HEARTBEAT_TIMEOUT_S * 1000:.0f}ms",
            "headgate.lease": f"{LEASE_S * 1000:.0f}ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1000,
            "restart-strategy.fixed-delay.delay": "100ms",
            "headgate.spark.master": f"local[{SLOTS}]",
            "headgate.probe": PROBE,
            "headgate.progress": "off",
            **self.mode.options,
            **self.more,
        }

    def rates(self) -> tuple[float, float]:
        """Records per second that the source reads, and seconds that one costs the keyed function."""
        if not self.mode.backpressure:
            return self.rate_per_s, 0.0
        return self.rate_per_s * BACKPRESSURE, self.parallelism / self.rate_per_s


@dataclass(frozen=True)
class Plan:
    """A run to be made.

    Attributes:
        name: for people.
        seed: decides moments and victims.
        mode: how barriers travel.
        parallelism: of the job.
        interval_ms: between two checkpoints.
        faults: in order.
        late: whether the last fault falls into the time when the rest is read at full speed.
    """

    name: str
    seed: int
    mode: Mode
    parallelism: int
    interval_ms: int
    faults: tuple[Fault, ...]
    late: bool = False

    @property
    def time_limit_s(self) -> float:
        """After which the run counts as hanging."""
        return TIME_LIMIT_S + RECOVERS_S * len(self.faults)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """What is to strike."""
        return tuple(fault.name for fault in self.faults)

    @property
    def form(self) -> Form:
        """How the job is run."""
        alone = any(fault.one_source for fault in self.faults) and self.parallelism > 1
        return Form(self.mode, self.parallelism, self.interval_ms, self.parallelism - 1 if alone else None)


def execute(
    watcher: Watcher,
    place: Place,
    form: Form,
    restore_from: str | None = None,
    note: Callable[..., None] | None = None,
) -> hg.JobResult:
    """Run the job to its end in this process.

    Raises:
        HeadgateError: it failed for good.
    """
    listener = Listener(note or watcher.note, InFlight(place.storage).of)
    executor = SparkExecutor(listener) if form.on_spark else MiniCluster(listener)
    env = hg.Environment(parallelism=form.parallelism, executor=executor, config=form.config())
    env.config("execution.checkpointing.dir", str(place.storage))
    rate_per_s, cost_s = form.rates()
    build(env, place, rate_per_s, cost_s, form.source_parallelism)
    return env.execute("proof", restore_from=restore_from)


class Run:
    """Carries out one plan.

    Args:
        plan: what to do.
        place: where; removed at the end unless something was wrong.
        strikes: named places.
        answer: what the output must be.
        temporary: folder of this process's temporary files.
        told: is called with each fault's result.
    """

    def __init__(
        self,
        plan: Plan,
        place: Place,
        strikes: Strikes,
        answer: Answer,
        temporary: Path,
        told: Callable[[FaultResult], None],
    ) -> None:
        self.plan, self.watcher = plan, Watcher()
        self._place, self._answer, self._temporary, self._told = place, answer, temporary, told
        self._scene = Scene(self.watcher, strikes, place, random.Random(plan.seed))
        self.result = RunResult(plan.name, plan.seed, [plan.parallelism], plan.interval_ms, plan.mode.name)

    def carry_out(self) -> RunResult:
        """Run, hurt, check."""
        began = time.monotonic()
        before = {thread.name for thread in threading.enumerate()}
        saboteur = threading.Thread(target=self._sabotage, name="saboteur")
        saboteur.start()
        result = self.result
        try:
            done = execute(self.watcher, self._place, self.plan.form)
            result.checkpoints, result.restarts = done.checkpoints, done.restarts
        except hg.HeadgateError as error:
            result.violations.append(f"the job failed: {error}")
        finally:
            self.watcher.end()
            saboteur.join()
            self._scene.strikes.disarm()
        self._check(before)
        result.duration_s = round(time.monotonic() - began, 2)
        if result.wrong:
            result.story = self.watcher.story()
        else:
            shutil.rmtree(self._place.root)
        return result

    # -- faults ----------------------------------------------------------------------------------

    def _sabotage(self) -> None:
        faults: Sequence[Fault] = self.plan.faults
        try:
            for number, fault in enumerate(faults, 1):
                last = number == len(faults)
                told = FaultResult(fault.name, fault.group)
                self.result.faults.append(told)
                self._strike(fault, told, open_gate=last and self.plan.late)
                self._told(told)
        except Exception as error:  # reported as a violation; the job must not wait for ever
            self.result.violations.append(f"the harness failed: {error!r}")
        finally:
            self._place.gate.touch()

    def _strike(self, fault: Fault, told: FaultResult, open_gate: bool) -> None:
        watcher, scene = self.watcher, self._scene
        if not self._comes_to(open_gate):
            return
        scene.healed_s = None
        at_s = fault.strike(scene)
        if at_s is None:
            return
        told.struck, told.struck_s = True, round(at_s - watcher.events[0].at_s, 3)
        watcher.note("fault", name=fault.name)
        if fault.follows == GOES_ON:
            self._await_checkpoint(told, at_s)
        else:
            self._await_recovery(fault, told, at_s)

    def _comes_to(self, open_gate: bool) -> bool:
        """Wait for a random moment at which all subtasks run; False when the job ends first."""
        watcher, chance = self.watcher, self._scene.chance
        while watcher.wait(self._steady, RECOVERS_S):
            if chance.random() < 0.5:
                # At other times the fault may come before the attempt's first checkpoint.
                watcher.wait(partial(watcher.first, "checkpoint", time.monotonic()), PROGRESS_S)
            if open_gate:
                self._place.gate.touch()
            time.sleep(chance.uniform(0, 0.1 if open_gate else 2.5 * self.plan.interval_ms / 1000))
            if self._steady() and not watcher.over:
                return True
        return False

    def _steady(self) -> bool:
        """Whether all subtasks run, as far as the driver knows."""
        states = [event.name for event in self.watcher.events if event.name in ("running", "failed")]
        return bool(states) and states[-1] == "running"

    def _await_recovery(self, fault: Fault, told: FaultResult, at_s: float) -> None:
        watcher = self.watcher
        found: tuple[Event, Event] | None = watcher.wait(lambda: self._recovered(at_s), RECOVERS_S)
        failures = [event for event in watcher.named("failed") if event.at_s > at_s]
        if found is None and not failures and self._finished():
            # It struck at the final checkpoint, when no worker was needed any more: to be repeated.
            told.struck, told.detail = False, "the job was complete already"
            return
        if found is None:
            told.violations.append(f"{fault.name}: no progress within {RECOVERS_S:.0f} s")
            return
        running, checkpoint = found
        from_s = max(at_s, self._scene.healed_s or at_s)
        told.recovery_s = round(max(0.0, running.at_s - from_s), 3)
        told.progress_s = round(checkpoint.at_s - running.at_s, 3)
        told.restarts = sum(event.at_s < running.at_s for event in failures)
        told.detail = self._plainly(failures[0]) if failures else ""
        deploying, gang = watcher.first("deploying", at_s), watcher.first("gang", at_s)
        if fault.same_gang and gang is not None and deploying is not None and gang.at_s < deploying.at_s:
            told.violations.append(f"{fault.name}: the living gang was not used again")
        if not told.restarts:
            told.violations.append(f"{fault.name}: the job did not notice")

    def _plainly(self, failure: Event) -> str:
        error: str = failure.facts["error"]
        return error.replace(str(self._place.root), "<run>")

    def _finished(self) -> bool:
        """Whether the job ended in order."""
        ends = self.watcher.named("ended")
        return bool(ends) and ends[-1].facts["state"] == "finished"

    def _recovered(self, at_s: float) -> tuple[Event, Event] | None:
        """An attempt after the fault that runs and has completed a checkpoint."""
        watcher = self.watcher
        failures = watcher.named("failed")
        begun = [event for event in watcher.named("running") if event.at_s > at_s]
        if not begun or (failures and failures[-1].at_s > begun[-1].at_s):
            return None
        # Earlier ones may have run for a moment without the worker that was lost already.
        running = next(e for e in begun if not any(e.at_s < failure.at_s for failure in failures))
        checkpoint = watcher.first("checkpoint", running.at_s)
        return None if checkpoint is None else (running, checkpoint)

    def _await_checkpoint(self, told: FaultResult, at_s: float) -> None:
        watcher, healed_s = self.watcher, self._scene.healed_s or at_s
        checkpoint = watcher.wait(lambda: watcher.first("checkpoint", healed_s), PROGRESS_S)
        if checkpoint is None:
            told.violations.append(f"{told.fault}: no checkpoint within {PROGRESS_S:.0f} s")
            return
        told.recovery_s = told.progress_s = round(checkpoint.at_s - healed_s, 3)
        failures = [e for e in watcher.named("failed") if at_s < e.at_s < checkpoint.at_s]
        told.restarts = len(failures)
        for failure in failures:
            told.detail = self._plainly(failure)
            told.violations.append(f"{told.fault}: the job restarted: {failure.facts['error']}")

    # -- checks ----------------------------------------------------------------------------------

    def _check(self, threads: set[str]) -> None:
        result, watcher, scene = self.result, self.watcher, self._scene
        for timer in scene.stopped:
            timer.join()
        completed = watcher.checkpoints()
        expected = sum(f.struck and f.restarts > 0 for f in result.faults)
        if result.restarts < expected:
            result.violations.append(f"{result.restarts} restarts after {expected} faults")
        replaced = {event.facts["pid"] for event in watcher.named("worker")} - set(watcher.workers().values())
        result.restored = restored_by(watcher)
        result.violations += [
            *scene.wrong,
            *check_restored(self.plan.mode, result.restored),
            *checks.check_output(self._answer, self._place),
            *checks.check_order(completed),
            *checks.check_storage(self._place.storage, completed[-1] if completed else None),
            *checks.check_gone(replaced, SPARK_KILLS_S + 6),
            *checks.check_threads(threads, 3),
            *checks.check_temporary(self._temporary),
        ]
        result.lines = sum(self._answer.values())
