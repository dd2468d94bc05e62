"""What the measured jobs share: the counting sink, the function under test, and the job's own stopwatch."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil
from typing_extensions import override

import headgate as hg
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.common.errors import HeadgateError
from headgate.connectors.committed import DriverResults
from headgate.testing import Counters, JobListener

PARALLELISM = 2


class RunningCount(hg.KeyedProcessFunction[int, Any, tuple[int, int]]):
    """One Python state per key, one output per record."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record, ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.count.value += 1
        yield ctx.key, self.count.value


# --- the sink


class Sums(DriverResults):
    """What was committed, each committable once."""

    def __init__(self) -> None:
        super().__init__()
        self.records = self.total = self.highest = 0


class SummingSink(Sink[tuple[Any, int]]):
    """Forgets its records, but counts them and adds up their numbers, exactly once.

    Args:
        sleep_us: how long to sleep for each record, for the measurement of backpressure.
    """

    def __init__(self, sleep_us: float = 0.0) -> None:
        self.sums, self._sleep_us = Sums(), sleep_us

    @override
    def create_writer(
        self, context: SinkWriterContext, restored: Sequence[Plain]
    ) -> SinkWriter[tuple[Any, int]]:
        return SummingWriter(context, self._sleep_us)

    @override
    def create_committer(self) -> SinkCommitter:
        return _SummingCommitter(self.sums)

    @override
    def describe(self) -> str:
        return "count and add up"


class SummingWriter(SinkWriter[tuple[Any, int]]):
    """One subtask's part of it; see :class:`SummingSink`."""

    def __init__(self, context: SinkWriterContext, sleep_us: float) -> None:
        self._name = f"{context.job}/{context.uid}/{context.attempt}/{context.subtask}"
        self._sleep_us = sleep_us
        self._sequence = self._records = self._total = self._highest = 0

    @override
    def write(self, records: Any) -> None:
        numbers = list(map(itemgetter(1), records))
        self._records += len(numbers)
        self._total += sum(numbers)
        self._highest = max(self._highest, max(numbers, default=0))
        if self._sleep_us:
            time.sleep(len(numbers) * self._sleep_us / 1e6)

    @override
    def prepare_commit(self) -> list[Plain]:
        ready = [self._name, self._sequence, self._records, self._total, self._highest]
        self._sequence += 1
        self._records = self._total = 0
        return [ready]


class _SummingCommitter(SinkCommitter):
    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        sums = self._sums
        for writer, sequence, records, total, highest in committables:
            if sums.once.take(writer, sequence):
                sums.records += records
                sums.total += total
                sums.highest = max(sums.highest, highest)


# --- the stopwatch


class Stopwatch(JobListener):
    """Times a job in the driver, and reads the CPU clocks of its workers at both ends.

    Attributes:
        began_s: all subtasks run.
        ended_s: the last checkpoint was committed; a bounded job ends with one, whether checkpoints
            are on or not.
        checkpoints_ms: how long each took.
        failures: attempts that failed; a measurement with one does not count.
    """

    def __init__(self) -> None:
        self.began_s = self.ended_s = 0.0
        self.checkpoints_ms: list[int] = []
        self.failures: list[str] = []
        self._cpu_before: dict[int, float] = {}
        self._cpu_after: dict[int, float] = {}

    @property
    def running_s(self) -> float:
        """From all subtasks running to the last commit."""
        return self.ended_s - self.began_s

    @property
    def workers_cpu_s(self) -> float:
        """CPU seconds of the workers in that time."""
        return sum(cpu - self._cpu_before.get(pid, 0.0) for pid, cpu in self._cpu_after.items())

    def running(self, attempt: int) -> None:
        """See :class:`JobListener`."""
        self.began_s = time.monotonic()
        self._cpu_before = _cpu_of(worker_processes())
        tell(workers=sorted(self._cpu_before))

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """See :class:`JobListener`."""
        self.ended_s = time.monotonic()
        self.checkpoints_ms.append(took_ms)
        self._cpu_after = _cpu_of([psutil.Process(pid) for pid in self._cpu_before if psutil.pid_exists(pid)])

    def progress(self, counters: Sequence[Counters]) -> None:
        """See :class:`JobListener`."""

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """See :class:`JobListener`."""
        self.failures.append(str(error))

    def facts(self, records: int) -> dict[str, Any]:
        """For the RESULT line."""
        return {
            "events": records,
            "job_s": round(self.running_s, 3),
            "events_per_s": round(records / self.running_s) if self.running_s else None,
            "workers_cpu_us": round(self.workers_cpu_s / max(records, 1) * 1e6, 4),
            "checkpoints_ms": self.checkpoints_ms,
            "failures": self.failures,
        }


def worker_processes() -> list[psutil.Process]:
    """The Python workers of this process's Spark: what its worker daemons have forked."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and _is_daemon(process) and _is_daemon(parent):
                found.append(process)
    return found


def _is_daemon(process: psutil.Process) -> bool:
    return "pyspark.daemon" in process.cmdline()


def _cpu_of(processes: Sequence[psutil.Process]) -> dict[int, float]:
    found = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def environment(
    stopwatch: Stopwatch, checkpoints: str | None, storage: str, config: Mapping[str, str] | None = None
) -> hg.Environment:
    """Headgate as its users get it: local Spark, and checkpoints unless `checkpoints` is None.

    Args:
        stopwatch: listens.
        checkpoints: the interval, or None.
        storage: folder for them.
        config: further options, by key.
    """
    from headgate.deploy.spark.executor import SparkExecutor

    env = hg.Environment(parallelism=PARALLELISM, config=config, executor=SparkExecutor(stopwatch))
    if checkpoints is not None:
        env.checkpoints(every=checkpoints, storage=str(Path(storage) / "checkpoints"))
    return env


def tell(**facts: Any) -> None:
    """An EVENT line for whoever measures this process."""
    print("EVENT", json.dumps(facts), flush=True)


def result(**facts: Any) -> None:
    """A RESULT line for whoever measures this process."""
    print("RESULT", json.dumps(facts), flush=True)
