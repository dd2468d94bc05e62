"""Remembers of a running job what its web page shows: rates of subtasks, ten minutes of history, attempts.

The job master's loop reports, the endpoint's thread reads; a lock is held for as long as one of them copies.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from headgate.api.jobs.executor_contract import JobStatus, RepeatingFailure
from headgate.common.errors import HeadgateError
from headgate.common.plain_data import Json
from headgate.common.ports import Clock
from headgate.common.process.kept_lines import LogLine
from headgate.common.process.system import SystemClock
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.core.bottleneck.evidence import AlignmentSeen, Evidence
from headgate.core.bottleneck.judge import judge
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.driver.endpoint.page.failure_story import Story
from headgate.runtime.driver.endpoint.page.job_evidence import Stacks, alignment_of, evidence_of
from headgate.runtime.driver.endpoint.page.log_book import LogBook
from headgate.runtime.driver.endpoint.page.rate_history import RateHistory
from headgate.runtime.driver.endpoint.page.recent_rates import RecentRates, shown_numbers, shown_part
from headgate.runtime.driver.endpoint.page.shown_settings import ShownSettings
from headgate.runtime.driver.endpoint.page.worker_rates import WorkerRates
from headgate.runtime.job.listener import JobListener
from headgate.runtime.protocol.messages import Counters, Heartbeat

EARLY_MS: Final = 3_000
"""Before an attempt has run for so long, nothing is said of it: caches are empty, modules being loaded."""

PRINTED_MAX: Final = 500
LINE_MAX: Final = 2_000  # characters of a printed line
TEXT_MAX: Final = 4_000  # characters of a failure's text in the status
_PASSED_ON: Final = (
    *("begins", "controllable", "checkpoint_completed", "savepoint_completed", "told", "traced", "unread"),
)
"""Reports of a job listener from which nothing is remembered."""


class Profiles(Protocol):
    """Samples the stacks of a job's workers for its page."""

    def begin(self, seconds: int) -> None:
        """Sample for so many seconds from now on."""

    def found(self) -> dict[str, Json]:
        """Return `number` of the last sampling, whether it `runs`, and `stacks` with how often each came."""

    def recent(self) -> Stacks:
        """Return the stacks of each worker, if they were sampled lately."""


class JobWatch(JobListener):
    """The job listener that remembers what the job's page shows, and passes all reports on to `listener`. Its
    driver makes one per run. Every method but the reports may be called from any thread.
    """

    def __init__(
        self, plan: PhysicalPlan, config: Config, listener: JobListener, clock: Clock | None = None
    ) -> None:
        self._plan, self._next, self._clock = plan, listener, clock or SystemClock()
        for report in _PASSED_ON:
            setattr(self, report, getattr(listener, report))
        self.settings = ShownSettings(config)
        self.state: str | None = None  # in which the job ended; None: it has not
        self.profiles: Profiles | None = None  # set by the driver before the job begins
        # Return the last heartbeats by slot, and the records of checkpoints; called in the job master's loop.
        self.beats: Callable[[], Mapping[int, Heartbeat]] = dict
        self.records: Callable[[], Sequence[CheckpointRecord]] = tuple
        self.streams = 0  # open streams of events; counted by the endpoint's thread
        self.wake: Callable[[], None] | None = None  # called when there is news that should not wait
        self._lock, self._rates, self._story = threading.Lock(), RecentRates(), Story()
        self._history, self._processes = RateHistory(), WorkerRates()
        self._alignment: AlignmentSeen | None = None
        self._credit = config.get(o.CREDIT_INITIAL)
        self._workers: dict[int, tuple[str, int]] = {}
        self._printed: deque[str] = deque(maxlen=PRINTED_MAX)
        self.logs = LogBook()  # the newest lines of the logs of driver and workers
        self._plans = self._printed_ever = 0

    @property
    def plan(self) -> PhysicalPlan:
        """The running plan, or the next one."""
        return self._plan

    # -- what is shown -----------------------------------------------------------------------------------

    def snapshot(self, status: JobStatus) -> dict[str, Json]:
        """Return the job's `status` as plain data, with the newest rates of each vertex and their cause."""
        facts: dict[str, Json] = msgspec.to_builtins(status)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            rates = [self._rates.of_vertex(vertex, now_ms) for vertex in self._plan.vertices]
            settled = (self._runs_ms() or 0) >= EARLY_MS
            cause = judge(self._evidence(now_ms)) if settled else None
            last = self._story.attempts[-1] if self._story.attempts else None
            facts |= {
                "failures": self._story.failures,
                "restart_at_ms": last.restart_at_ms if last is not None and last.end == "failed" else None,
                "notes": len(self._story.notes),
                "plans": self._plans,
                "printed": self._printed_ever,
                "logged": self.logs.ever,
                "over": self.state is not None,
                # After the end nothing more can be asked.
                "story": None if self.state is None else self._story.facts(),
            }
        for text in ("last_failure", "last_checkpoint_failure"):
            facts[text] = _cut(facts[text])
        vertices: list[Json] = msgspec.to_builtins(rates)
        facts |= {"time_ms": self._clock.now_ms(), "vertices": vertices}
        return {**facts, "bottleneck": msgspec.to_builtins(cause)}

    def failures_within(self, past_ms: int) -> tuple[int, int | None]:
        """Return how many attempts have failed in the last `past_ms`, and how long (ms) the present one has
        run; None: it does not run yet.
        """
        now_ms = self._clock.now_ms()
        with self._lock:
            attempts = list(self._story.attempts)
            runs_ms = None if attempts and attempts[-1].end else self._runs_ms()
        failed = [
            each for each in attempts if each.end == "failed" and now_ms - (each.ended_ms or 0) <= past_ms
        ]
        return len(failed), runs_ms

    def _runs_ms(self) -> int | None:
        last = self._story.attempts[-1] if self._story.attempts else None
        if last is None or last.running_ms is None:
            return None
        return (last.ended_ms or self._clock.now_ms()) - last.running_ms

    def evidence(self, stacks: Stacks) -> Evidence:
        """Return what is known about what holds the job up, with samples of the workers' loops."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            return self._evidence(now_ms, stacks)

    def _evidence(self, now_ms: int, stacks: Stacks | None = None) -> Evidence:
        return evidence_of(
            self._plan, self._rates, self._processes, now_ms, credit_initial=self._credit,
            process_of=self._process_of, alignment=self._alignment, stacks=stacks,
        )  # fmt: skip

    def _process_of(self, slot: int) -> str:
        host, pid = self._workers.get(slot, ("", 0))
        return f"process {pid} on {host}" if pid else ""

    def subtasks(self) -> dict[str, Json]:
        """Return the newest numbers of each subtask by vertex: the series of docs/metrics.md, and rates."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            return {
                "time_ms": self._clock.now_ms(),
                "vertices": [self._vertex(vertex, now_ms) for vertex in self._plan.vertices],
            }

    def history(self) -> dict[str, Json]:
        """Return ten minutes of each vertex's rates, a number a second; None for what was not known then."""
        with self._lock:
            return self._history.columns([vertex.id for vertex in self._plan.vertices])

    def story(self) -> dict[str, Json]:
        with self._lock:
            return self._story.facts()

    def output(self) -> dict[str, Json]:
        """Return the newest lines that user code has printed, and how many there were in all."""
        with self._lock:
            return {"lines": list(self._printed), "ever": self._printed_ever}

    def _vertex(self, vertex: Vertex, now_ms: int) -> dict[str, Json]:
        return {
            "id": vertex.id,
            "name": vertex.name,
            "uids": [node.known_as for node in vertex.chain],
            "subtasks": [self._subtask(vertex.id, subtask, now_ms) for subtask in range(vertex.parallelism)],
        }

    def _subtask(self, vertex: int, subtask: int, now_ms: int) -> dict[str, Json]:
        newest = self._rates.newest((vertex, subtask))
        host, pid = self._workers.get(subtask, (None, None))
        rates = self._rates.of_subtask((vertex, subtask), now_ms)
        return {
            "subtask": subtask,
            "host": host,
            "pid": pid,
            "numbers": {} if newest is None else {**shown_numbers(newest)},
            "rates": msgspec.to_builtins(rates),
            "parts": [] if newest is None else [shown_part(part) for part in newest.parts],
        }

    # -- JobListener -------------------------------------------------------------------------------------

    def gang_submitted(self, gang: int, slots: int) -> None:
        with self._lock:
            self._workers.clear()
        self._next.gang_submitted(gang, slots)

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        with self._lock:
            self._workers[slot] = host, pid
        self._next.worker_registered(slot, pid, host)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        with self._lock:
            self._forget_rates()
            self._story.deploying(attempt, checkpoint, self._clock.now_ms())
        self._next.deploying(attempt, checkpoint)
        self._news()

    def running(self, attempt: int) -> None:
        with self._lock:
            self._story.running(self._clock.now_ms())
        self._next.running(attempt)
        self._news()

    def progress(self, counters: Sequence[Counters]) -> None:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._rates.heard(counters, now_ms)
            self._processes.heard(self.beats())
            if self._history.due(now_ms):
                rates = [self._rates.of_vertex(vertex, now_ms) for vertex in self._plan.vertices]
                self._history.add(self._clock.now_ms(), rates)
                self._alignment = alignment_of(self.records(), self._clock.now_ms())
        self._next.progress(counters)

    def rescaled(self, plan: PhysicalPlan) -> None:
        with self._lock:
            self._plan, self._plans = plan, self._plans + 1
            self._forget_rates()
        self._next.rescaled(plan)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        with self._lock:
            self._story.failed(attempt, error, restart_in_ms, "failed", self._clock.now_ms())
        self._next.failed(attempt, error, restart_in_ms)
        self._news()

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        with self._lock:
            self._story.failed(attempt, error, 0, "reverted", self._clock.now_ms())
        self._next.reverted(attempt, error)
        self._news()

    def repeats(self, failure: RepeatingFailure) -> None:
        with self._lock:
            self._story.repeated(failure.times, failure.text)
        self._next.repeats(failure)

    def printed(self, lines: list[str], left_out: int) -> None:
        with self._lock:
            self._printed.extend(line[:LINE_MAX] for line in lines)
            self._printed_ever += len(lines) + left_out
        self._next.printed(lines, left_out)

    def logged(self, slot: int, lines: list[LogLine], left_out: int) -> None:
        self.logs.sent(slot, lines, left_out)
        self._next.logged(slot, lines, left_out)

    def note(self, text: str) -> None:
        with self._lock:
            self._story.note(text, self._clock.now_ms())
        self._next.note(text)

    def ended(self, state: str) -> None:
        with self._lock:
            self.state = state
            self._story.ended(state, self._clock.now_ms())
        self._next.ended(state)
        self._news()

    def _forget_rates(self) -> None:
        self._rates.clear()
        self._processes.clear()
        self._alignment = None

    def _news(self) -> None:
        wake = self.wake
        if wake is not None:
            wake()


def _cut(text: Json) -> Json:
    return f"{text[:TEXT_MAX]}..." if isinstance(text, str) and len(text) > TEXT_MAX else text
