"""One query of Nexmark on the Spark of this process, its workers killed at random moments, and its checks."""

from __future__ import annotations

import faulthandler
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

import headgate as hg
from headgate.connectors.files import parquet_source
from headgate.connectors.generator import throttled
from headgate.deploy.spark.executor import SparkExecutor
from headgate.nexmark import Dataset
from headgate.nexmark.queries import QUERIES, Inputs
from headgate.testing import Counters
from proof import checks
from proof.faults import SPARK_KILLS_S, kill
from proof.job import Place
from proof.modes import InFlight, check_restored, mode_named, restored_by
from proof.nexmark_answers import Answers, differences, rows_of
from proof.record import FaultResult, RunResult
from proof.runs import Form
from proof.watcher import Event, Listener, Watcher

LEAST_S: Final = 10.0
"""A source takes at least this long for its records, so that a kill finds the job at work."""

INTERVAL_MS: Final = 500
TIME_LIMIT_S: Final = 900
"""After which a run counts as hanging: all stacks are shown, and the proof ends."""

KILLS: Final = (1, 1, 2, 3)
RECOVERING: Final = 0.3
"""Share of the further kills that strike a worker which has just replaced another."""

_POLL_S: Final = 0.005


@dataclass(frozen=True)
class Kill:
    """When a worker is killed.

    Attributes:
        share: of the input that has been read; None: at a time after the kill before.
        after_s: seconds after that.
        recovering: count `after_s` from the first new worker, and not from when all subtasks run again.
    """

    share: float | None
    after_s: float = 0.0
    recovering: bool = False

    def __str__(self) -> str:
        if self.share is not None:
            return f"at {self.share:.0%} of the input"
        return f"{self.after_s:.2f} s after {'a new worker came' if self.recovering else 'all ran again'}"


def kills_of(seed: int) -> tuple[Kill, ...]:
    """The kills of a run: one at a random place of its input, and perhaps more afterwards.

    Example:
        >>> kills_of(1)[0].share is not None, kills_of(1) == kills_of(1)
        (True, True)
    """
    chance = random.Random(seed)
    kills = [Kill(chance.uniform(0.03, 0.85))]
    for _ in range(chance.choice(KILLS) - 1):
        recovering = chance.random() < RECOVERING
        kills.append(Kill(None, chance.uniform(0, 0.2 if recovering else 2.0), recovering))
    return tuple(kills)


@dataclass(frozen=True)
class NexmarkPlan:
    """A run to be made.

    Attributes:
        name: for people.
        seed: decides moments and victims.
        query: by its name.
        parallelism: of the job.
        backend: of keyed state.
        mode: the name of how barriers travel.
        kills: in order.
    """

    name: str
    seed: int
    query: str
    parallelism: int
    backend: str
    mode: str
    kills: tuple[Kill, ...]

    @property
    def text(self) -> str:
        """What is run, for people."""
        return (
            f"{self.query}, parallelism {self.parallelism}, {self.backend}, {self.mode} checkpoints, "
            f"{len(self.kills)} kills, seed {self.seed}"
        )

    @property
    def config(self) -> dict[str, Any]:
        """The settings of its job."""
        form = Form(
            mode_named(self.mode), self.parallelism, INTERVAL_MS, more={"state.backend.type": self.backend}
        )
        return {key: value for key, value in form.config().items() if key != "headgate.probe"}


@dataclass
class NexmarkResult(RunResult):
    """One run from its start to its end.

    Attributes:
        query: by its name.
        backend: of keyed state.
    """

    query: str = ""
    backend: str = ""


class SlowInputs(Inputs):
    """The tables of a dataset, each of which takes some time to be read.

    Args:
        env: takes them up.
        dataset: the events.
        least_s: seconds.
    """

    def __init__(self, env: hg.Environment, dataset: Dataset, least_s: float) -> None:
        super().__init__(env, dataset.directory)
        self._dataset, self._least_s = dataset, least_s
        self.first_rows = 0

    @override
    def table(self, name: str) -> Any:
        rows = sum(map(rows_of, self._dataset.paths(name)))
        self.first_rows = self.first_rows or rows
        source = throttled(parquet_source(self._dataset.directory / name), max(1.0, rows / self._least_s))
        return self._env.from_source(source, uid=name).to_table().with_watermark("dateTime", "4s")


class _Progress(Listener):
    """Knows besides how many records the first source has read since the attempt began."""

    def __init__(self, note: Callable[..., None], in_flight: Callable[[int], int | None]) -> None:
        super().__init__(note, in_flight)
        self.read = 0

    @override
    def progress(self, counters: Sequence[Counters]) -> None:
        self.read = sum(each.records_in for each in counters if each.vertex == 0)


class NexmarkRun:
    """Carries out one plan.

    Args:
        plan: what to do.
        root: folder for the run; removed at the end unless something was wrong.
        dataset: its input.
        answers: of its queries.
        temporary: folder of this process's temporary files.
    """

    def __init__(
        self, plan: NexmarkPlan, root: Path, dataset: Dataset, answers: Answers, temporary: Path
    ) -> None:
        self._plan, self._place = plan, Place(root, dataset.directory)
        self._dataset, self._answers, self._temporary = dataset, answers, temporary
        self._watcher, self._chance = Watcher(), random.Random(plan.seed)
        self._listener = _Progress(self._watcher.note, InFlight(self._place.storage).of)
        self._first_rows = 0
        self.result = NexmarkResult(
            plan.name,
            plan.seed,
            [plan.parallelism],
            INTERVAL_MS,
            plan.mode,
            query=plan.query,
            backend=plan.backend,
        )

    def carry_out(self) -> NexmarkResult:
        """Run, kill, compare."""
        began, result = time.monotonic(), self.result
        before = {thread.name for thread in threading.enumerate()}
        answer = self._answers.of(self._plan.query)
        self._place.root.mkdir()
        env = self._built()
        saboteur = threading.Thread(target=self._sabotage, name="saboteur")
        faulthandler.dump_traceback_later(TIME_LIMIT_S, exit=True)
        saboteur.start()
        try:
            done = env.execute(self._plan.query)
            result.checkpoints, result.restarts = done.checkpoints, done.restarts
        except hg.HeadgateError as error:
            result.violations.append(f"the job failed: {error}")
        finally:
            self._watcher.end()
            saboteur.join()
        self._check(before, answer)
        faulthandler.cancel_dump_traceback_later()
        result.duration_s = round(time.monotonic() - began, 2)
        if result.wrong:
            result.story = self._watcher.story()
        else:
            shutil.rmtree(self._place.root)
        return result

    def _built(self) -> hg.Environment:
        plan, place = self._plan, self._place
        env = hg.Environment(
            parallelism=plan.parallelism, executor=SparkExecutor(self._listener), config=plan.config
        )
        env.config("execution.checkpointing.dir", str(place.storage))
        inputs = SlowInputs(env, self._dataset, LEAST_S)
        QUERIES[plan.query](inputs).write_parquet(place.out, uid="out")
        self._first_rows = inputs.first_rows
        return env

    # -- kills -----------------------------------------------------------------------------------

    def _sabotage(self) -> None:
        last_s = time.monotonic()
        for each in self._plan.kills:
            told = FaultResult("worker killed", "a", detail=str(each))
            self.result.faults.append(told)
            if not self._comes_to(each, last_s):
                break
            workers = self._watcher.workers()
            if not workers:
                break
            last_s = kill(self._chance.choice(sorted(workers.values())))
            self._watcher.note("fault", name=str(each))
            told.struck, told.struck_s = True, round(last_s - self._watcher.events[0].at_s, 3)

    def _comes_to(self, moment: Kill, last_s: float) -> bool:
        """Wait for the moment of a kill; False when the job ends first."""
        watcher = self._watcher
        if moment.share is not None:
            while self._listener.read < moment.share * self._first_rows:
                if watcher.over:
                    return False
                time.sleep(_POLL_S)
            return not watcher.over
        event = "worker" if moment.recovering else "running"
        if watcher.wait(lambda: watcher.first(event, last_s), TIME_LIMIT_S) is None:
            return False
        time.sleep(moment.after_s)
        return not watcher.over

    # -- checks ----------------------------------------------------------------------------------

    def _check(self, threads: set[str], answer: Path) -> None:
        result, watcher, place = self.result, self._watcher, self._place
        self._recoveries()
        completed = watcher.checkpoints()
        replaced = {event.facts["pid"] for event in watcher.named("worker")} - set(watcher.workers().values())
        result.restored = restored_by(watcher)
        result.lines = rows_of(answer)
        result.violations += [
            *self._not_hurt(),
            *check_restored(mode_named(self._plan.mode), result.restored),
            *differences(self._plan.query, answer, place.out, self._temporary),
            *checks.check_pending(place),
            *checks.check_order(completed),
            *checks.check_storage(place.storage, completed[-1] if completed else None),
            *checks.check_gone(replaced, SPARK_KILLS_S + 6),
            *checks.check_threads(threads, 3),
        ]

    def _recoveries(self) -> None:
        """How long each kill kept the job from running."""
        for fault in self.result.faults:
            if fault.struck and fault.struck_s is not None:
                at_s = self._watcher.events[0].at_s + fault.struck_s
                running: Event | None = self._watcher.first("running", at_s)
                fault.recovery_s = None if running is None else round(running.at_s - at_s, 3)

    def _not_hurt(self) -> Iterator[str]:
        """A run without a kill that the job noticed proves nothing."""
        if not any(fault.struck for fault in self.result.faults):
            yield "no worker was killed before the job ended"
        elif not self.result.restarts and not self.result.violations:
            yield "a worker was killed, but the job did not restart"
