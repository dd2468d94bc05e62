"""One query of Nexmark on the Spark of this process, its workers killed and its parallelism changed at random
moments, and its checks.
"""

from __future__ import annotations

import faulthandler
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

import headgate as hg
from headgate.common.errors import HeadgateError
from headgate.connectors.files import parquet_source
from headgate.connectors.generator import throttled
from headgate.deploy.spark.executor import SparkExecutor
from headgate.graph.physical import PhysicalPlan
from headgate.nexmark import Dataset
from headgate.nexmark.queries import QUERIES, Inputs
from headgate.testing import Counters
from proof import checks
from proof.faults import SPARK_KILLS_S, kill
from proof.job import Place
from proof.modes import InFlight, check_restored, mode_named, restored_by
from proof.nexmark_answers import Answers, differences, rows_of
from proof.nexmark_plans import INTERVAL_MS, NONE, Kill, NexmarkPlan, rescale_of
from proof.record import FaultResult, RunResult
from proof.watcher import Event, Listener, Watcher

LEAST_S: Final = 10.0
"""A source takes at least this long for its records, so that a kill finds the job at work."""

TIME_LIMIT_S: Final = 900
"""After which a run counts as hanging: all stacks are shown, and the proof ends."""

ANSWER_S: Final = 30.0
"""How long a request may be without an answer when its job has ended."""

_POLL_S: Final = 0.005
_AGAIN_S: Final = 0.1


@dataclass
class NexmarkResult(RunResult):
    """One run from its start to its end.

    Attributes:
        query: by its name.
        backend: of keyed state.
        rescale: whether it was to go on with more subtasks, or with fewer.
        rescaled: whether it did.
        refusals: of requests to rescale, each of which was repeated.
    """

    query: str = ""
    backend: str = ""
    rescale: str = NONE
    rescaled: bool = False
    refusals: list[str] = field(default_factory=list)


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
    """Knows besides how many records the first source has read, as far as they count."""

    def __init__(self, note: Callable[..., None], in_flight: Callable[[int], int | None]) -> None:
        super().__init__(note, in_flight)
        self.read = 0
        self._before = 0  # by earlier attempts, up to the checkpoint from which the present one began
        self._at: dict[int | None, int] = {}

    @override
    def progress(self, counters: Sequence[Counters]) -> None:
        self.read = self._before + sum(each.records_in for each in counters if each.vertex == 0)

    @override
    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._at[checkpoint] = self.read
        super().checkpoint_completed(checkpoint, took_ms)

    @override
    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.read = self._before = self._at.get(checkpoint, 0)
        super().deploying(attempt, checkpoint)

    @override
    def rescaled(self, plan: PhysicalPlan) -> None:
        self._note("rescaled", slots=plan.slots)

    @override
    def reverted(self, attempt: int, error: HeadgateError) -> None:
        self._note("reverted", attempt=attempt, error=str(error))


def replaced_workers(events: Iterable[Event]) -> set[int]:
    """Processes that had to end because a worker beside them was lost.

    Those that a rescale has dismissed may wait for other work of Spark, which ends them by itself when they
    have waited for a minute.
    """
    replaced: set[int] = set()
    gang: set[int] = set()
    dismissed = False
    for event in events:
        match event.name:
            case "worker":
                gang.add(event.facts["pid"])
            case "failed" | "reverted":
                replaced |= gang
            case "rescaled":
                dismissed = True
            case "gang":
                replaced |= set() if dismissed else gang
                gang, dismissed = set(), False
    return replaced


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
        self._first_rows, self._changes = 0, False
        self.result = NexmarkResult(
            plan.name,
            plan.seed,
            plan.widths,
            INTERVAL_MS,
            plan.mode,
            query=plan.query,
            backend=plan.backend,
            rescale=plan.rescale,
        )

    def carry_out(self) -> NexmarkResult:
        """Run, kill, compare."""
        began, result = time.monotonic(), self.result
        before = {thread.name for thread in threading.enumerate()}
        answer = self._answers.of(self._plan.query)
        self._place.root.mkdir()
        env = self._built()
        faulthandler.dump_traceback_later(TIME_LIMIT_S, exit=True)
        try:
            self._execute(env)
        except hg.HeadgateError as error:
            result.violations.append(f"the job failed: {error}")
        self._check(before, answer)
        faulthandler.cancel_dump_traceback_later()
        result.duration_s = round(time.monotonic() - began, 2)
        if result.wrong:
            result.story = self._watcher.story()
        else:
            shutil.rmtree(self._place.root)
        return result

    def _execute(self, env: hg.Environment) -> None:
        handle = env.execute_async(self._plan.query)
        disturbing = [threading.Thread(target=self._sabotage, name="saboteur")]
        if self._plan.rescale != NONE:
            # A daemon: a request that is never answered must not keep the proof from ending.
            asking = threading.Thread(target=self._rescale, args=(handle,), name="rescaler", daemon=True)
            disturbing.append(asking)
        for thread in disturbing:
            thread.start()
        try:
            done = handle.result()
            self.result.checkpoints, self.result.restarts = done.checkpoints, done.restarts
        finally:
            self._watcher.end()
            for thread in disturbing:
                thread.join(ANSWER_S)
                if thread.is_alive():
                    self.result.violations.append(f"the job has ended, but its {thread.name} still waits")

    def _built(self) -> hg.Environment:
        plan, place = self._plan, self._place
        env = hg.Environment(
            parallelism=plan.widths[0], executor=SparkExecutor(self._listener), config=plan.config
        )
        env.config("execution.checkpointing.dir", str(place.storage))
        inputs = SlowInputs(env, self._dataset, LEAST_S)
        table = QUERIES[plan.query](inputs)
        self._changes = table.schema.updating
        if self._changes:
            table.write_changelog(place.out, uid="out")
        else:
            table.write_parquet(place.out, uid="out")
        self._first_rows = inputs.first_rows
        return env

    # -- kills and rescaling ---------------------------------------------------------------------

    def _sabotage(self) -> None:
        last_s = time.monotonic()
        for each in self._plan.kills:
            told = FaultResult("worker killed", "a", detail=str(each))
            self.result.faults.append(told)
            if not self._comes_to(each, last_s):
                break
            workers = self._watcher.wait(self._workers, TIME_LIMIT_S)
            if not workers:
                break
            last_s = kill(self._chance.choice(sorted(workers.values())))
            self._watcher.note("fault", name=str(each))
            told.struck, told.struck_s = True, round(last_s - self._watcher.events[0].at_s, 3)

    def _workers(self) -> dict[int, int]:
        """Slot -> process of the workers that are needed: none while a rescale dismisses them."""
        last = [event.name for event in self._watcher.events if event.name in ("gang", "rescaled")][-1:]
        return {} if last == ["rescaled"] else self._watcher.workers()

    def _comes_to(self, moment: Kill, last_s: float) -> bool:
        """Wait for the moment of a kill; False when the job ends first."""
        watcher = self._watcher
        if moment.share is not None:
            return self._has_read(moment.share)
        event = "worker" if moment.recovering else "running"
        if watcher.wait(lambda: watcher.first(event, last_s), TIME_LIMIT_S) is None:
            return False
        time.sleep(moment.after_s)
        return not watcher.over

    def _has_read(self, share: float) -> bool:
        """Wait until so much of the input has been read; False when the job ends first."""
        while self._listener.read < share * self._first_rows:
            if self._watcher.over:
                return False
            time.sleep(_POLL_S)
        return not self._watcher.over

    def _rescale(self, handle: hg.JobHandle) -> None:
        """Ask for the other parallelism until it is there; while a job recovers it refuses."""
        moment = rescale_of(self._plan.seed)
        if not self._has_read(moment.share):
            return
        while not self._watcher.over:
            self._watcher.note("asked to rescale", parallelism=self._plan.widths[1])
            try:
                handle.rescale(self._plan.widths[1], moment.from_last)
            except hg.HeadgateError as error:
                self._watcher.note("refused to rescale", error=str(error))
                self.result.refusals.append(str(error))
                time.sleep(_AGAIN_S)
            else:
                self.result.rescaled = True
                return

    # -- checks ----------------------------------------------------------------------------------

    def _check(self, threads: set[str], answer: Path) -> None:
        result, watcher, place = self.result, self._watcher, self._place
        self._recoveries()
        completed = watcher.checkpoints()
        replaced = replaced_workers(watcher.events) - set(watcher.workers().values())
        result.restored = restored_by(watcher)
        result.lines = rows_of(answer)
        result.violations += [
            *self._not_hurt(),
            *check_restored(mode_named(self._plan.mode), result.restored),
            *differences(self._plan.query, answer, place.out, self._temporary, self._changes),
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
        elif not self.result.restarts and not self._watcher.named("reverted") and not self.result.violations:
            yield "a worker was killed, but the job did not restart"
        if self._plan.rescale != NONE and not self.result.rescaled and not self.result.violations:
            why = self.result.refusals[-1:] or ["it ended before so much was read"]
            yield f"the job did not change its parallelism: {why[0]}"
