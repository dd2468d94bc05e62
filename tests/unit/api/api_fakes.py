"""A source, sinks and executors that do nothing, for tests of what the API refuses and builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import headgate as hg
from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.errors import UsageError


class Numbers(hg.Source[int]):
    """A source of nothing."""

    def __init__(self, complaint: str | None = None) -> None:
        self.complaint = complaint

    def create_enumerator(self, restored: Any) -> Any:
        return None

    def create_reader(self, context: hg.SourceReaderContext) -> Any:
        return None

    def validate(self) -> None:
        if self.complaint:
            raise UsageError(self.complaint)


class Shelf(hg.Sink[Any]):
    """A sink that commits nothing."""

    guarantee = "at-least-once"

    def create_writer(self, context: hg.SinkWriterContext, restored: Sequence[Any]) -> Any:
        return None


class Safe(Shelf):
    """A sink that commits."""

    guarantee = "exactly-once"

    def create_committer(self) -> Any:
        return None


class RecordingExecutor:
    """Keeps the jobs that it is given, and ends them at once."""

    def __init__(self) -> None:
        self.jobs: list[JobSpec] = []

    def execute(self, job: JobSpec) -> hg.JobResult:
        self.jobs.append(job)
        return hg.JobResult(job_id="j1", name=job.name)


class Refusing(RecordingExecutor):
    """Refuses what it is given, as long as it is told to."""

    refuses = True

    def execute(self, job: JobSpec) -> hg.JobResult:
        if self.refuses:
            raise hg.UsageError("too few slots")
        return super().execute(job)


class Count(hg.KeyedProcessFunction[str, int, tuple[str, int]]):
    """Counts per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[str]) -> Any:
        self.count.value += 1
        yield ctx.key, self.count.value


class Plain(hg.KeyedProcessFunction[str, int, int]):
    """Neither state nor timers."""

    def process(self, record: int, ctx: hg.KeyedContext[str]) -> Any:
        yield record


class Ticking(Plain):
    """Timers without state."""

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Any:
        yield timestamp


class Split(hg.ProcessFunction[int, str]):
    """Not keyed."""

    def process(self, record: int, ctx: Any) -> Any:
        yield str(record)
