"""The data that the HTTP endpoint shows of a job: JSON made from the job master's state and its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from headgate.api.jobs.executor_contract import JobControl
from headgate.checkpoint.history_file import plain
from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.plain_data import Json
from headgate.common.process.log_lines import LoggedJob
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.page.kept_page import PageKeeper
from headgate.runtime.driver.endpoint.page.plan_facts import plan_facts
from headgate.runtime.driver.metrics.job_metrics import Family
from headgate.runtime.driver.metrics.prometheus_text import text_of
from headgate.runtime.job.live_state import LiveState

LOOP_WAIT_S: Final = 10.0

T = TypeVar("T")


class Traces(Protocol):
    """Follows single records of a job; for any thread."""

    def begin(self, every: int, seconds: int) -> None:
        """Follow one record in `every` for so many seconds from now on."""

    def found(self, plan: PhysicalPlan) -> dict[str, Json]:
        """Return what was found until now: the fields of docs/trace.md."""


@dataclass(frozen=True, slots=True)
class ServedJob:
    """A job as its HTTP endpoint sees it; `plan`, `records` return facts, `post` runs calls in its loop."""

    job_id: str
    name: str
    started_ms: int
    control: JobControl
    live: LiveState
    plan: Callable[[], PhysicalPlan]  # returns the running plan; from any thread
    records: Callable[[], Sequence[CheckpointRecord]]  # returns its checkpoints; in the job master's loop
    metrics: Callable[[], Sequence[Family]]  # returns its metrics; in the job master's loop
    post: Callable[[Callable[[], None]], None]  # has the job master's loop call a callback
    watch: JobWatch
    set_level: Callable[[str, str | None], dict[str, str]] | None = None  # of a logger; None: as it was
    traces: Traces | None = None  # of single records
    keeper: PageKeeper | None = None  # of its page; None where checkpoints are off
    storage: str | None = None  # URI of the checkpoint storage; None when checkpoints are off
    named: LoggedJob = field(default_factory=lambda: LoggedJob(""))  # its secrets, and its last warnings

    def recorded(self) -> Sequence[CheckpointRecord]:
        """Return the records of the job's checkpoints: waits for the job master's loop, and raises
        OperatingError if it does not answer within 10 seconds.
        """
        return self._in_loop(self.records)

    def families(self) -> Sequence[Family]:
        """Return all metrics of the job; waits as :meth:`recorded` does."""
        return self._in_loop(self.metrics)

    def metrics_text(self, *, open_metrics: bool) -> str:
        """Return all metrics of the job as text for Prometheus, or as OpenMetrics; waits as
        :meth:`recorded` does.
        """
        labels = {"job_name": self.name, "job_id": self.job_id}
        return text_of(self.families(), labels, open_metrics=open_metrics)

    def _in_loop(self, ask: Callable[[], T]) -> T:
        if self.watch.state is not None:
            return ask()  # the loop has ended
        answer: Future[T] = Future()
        self.post(lambda: answer.set_result(ask()))
        try:
            return answer.result(LOOP_WAIT_S)
        except TimeoutError:
            raise OperatingError(
                f"the loop of job {self.name!r} did not answer within {LOOP_WAIT_S:.0f} s; the job is "
                "over, or its driver overloaded"
            ) from None

    def checkpoints(self) -> dict[str, Json]:
        """Return :meth:`recorded` as JSON, with the fields of `headgate checkpoints --json`."""
        found = self.recorded()
        return {"job": self.job_id, "job_name": self.name, "checkpoints": [plain(each) for each in found]}

    def shown_plan(self) -> dict[str, Json]:
        return plan_facts(self.name, self.plan())


def error_facts(error: HeadgateError) -> dict[str, Json]:
    """Return an error as JSON: its type and message, from which `api.jobs.remote_job` makes it again."""
    return {"error": {"kind": type(error).__name__, "message": str(error)}}
