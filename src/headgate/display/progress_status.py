"""The numbers that describe a running job to people: rate, totals, the age of the last checkpoint.

Written by the job master's thread, read by a display's: every field is one value that is replaced as a whole.
It shows nothing and reads no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, TypedDict

from headgate.common.errors import HeadgateError, UserFunctionError
from headgate.display.rate_line import RateLine
from headgate.display.time_to_go import TimeToGo
from headgate.display.vertex_paces import VertexPaces
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.protocol.messages import Counters

RATE_WINDOW_MS: Final = 5_000  # records per second are counted over this time

_SAMPLE_GAP_MS: Final = 200
_SHOWN_LENGTH: Final = 2_000


class JobProgress:
    """The present state and totals of one job, updated by a listener and read by displays.

    Times are milliseconds of the monotonic clock. `sources` are ids of the vertices that begin with a source;
    None: no record counts. `now_ms` is when the job was submitted. `state` is "starting", "deploying",
    "running", "restarting", "failing", "finished", "failed" or "cancelled"; `attempt` counts from 1, 0 is
    before the first deployment; `checkpoint` is the id of the last complete one, None before it.
    """

    def __init__(self, name: str, sources: Collection[int] | None, now_ms: int) -> None:
        self.name, self.attempt = name, 0  # 0 before the first deployment
        # Also "deploying", "running", "restarting", "failing", "finished", "failed" or "cancelled".
        self.state = "starting"
        self.restarts = self.checkpoints = 0
        self.records_attempt = self.skipped_attempt = 0  # what the sources read and skipped in this attempt
        self.longest_step_ms = 0.0  # for which one step held up a worker's loop, in all attempts
        self.checkpoint: int | None = None
        self.checkpoint_at_ms = self.checkpoint_took_ms = 0
        self.error: HeadgateError | None = None
        self.reading, self.paces = TimeToGo(), VertexPaces()
        self.rates = RateLine()  # of the sources, from the begin on
        self.plan: PhysicalPlan | None = None  # the running plan, if it is known
        self._sources, self._began_ms = sources, now_ms
        self._records_before = self._skipped_before = 0
        self._samples: deque[tuple[int, int]] = deque()
        self._rate: tuple[int, float] | None = None

    @property
    def records(self) -> int | None:
        """Records that the sources read in all attempts: what a restart reads again counts again."""
        return None if self._sources is None else self._records_before + self.records_attempt

    @property
    def skipped(self) -> int:
        return self._skipped_before + self.skipped_attempt

    def duration_ms(self, now_ms: int) -> int:
        return now_ms - self._began_ms

    def rate(self, now_ms: int) -> float | None:
        """Return the sources' records per second in the last 5 s; None without a report in that time."""
        rate = self._rate
        return None if rate is None or now_ms - rate[0] > RATE_WINDOW_MS else rate[1]

    def deploying(self, attempt: int) -> None:
        """Record that an attempt begins: add the previous one's counts to the totals, and reset them."""
        self.state, self.attempt = "deploying", attempt
        self._records_before += self.records_attempt
        self._skipped_before += self.skipped_attempt
        self.records_attempt = self.skipped_attempt = 0
        self._samples.clear()
        self._rate = None
        self.reading.restarted()
        self.paces.restarted()

    def rescaled(self, sources: Collection[int]) -> None:
        if self._sources is not None:
            self._sources = sources

    def running(self, now_ms: int) -> None:
        self.state = "running"
        self._samples.append((now_ms, 0))

    def progress(self, counters: Sequence[Counters], now_ms: int) -> None:
        """Update totals and rate from `counters` of all subtasks, which count from the attempt's begin.
        Records and skipped ones are counted at the sources only. `now_ms`: by the monotonic clock.
        """
        self.longest_step_ms = max(self.longest_step_ms, *(entry.longest_step_ms for entry in counters), 0.0)
        self.paces.update(counters, now_ms)
        if self._sources is None:
            return
        of_sources = [entry for entry in counters if entry.vertex in self._sources]
        self.records_attempt = sum(entry.records_in for entry in of_sources)
        self.skipped_attempt = sum(entry.skipped for entry in of_sources)
        samples = self._samples
        if len(samples) > 1 and now_ms - samples[-2][0] < _SAMPLE_GAP_MS:
            samples.pop()  # heartbeats of many workers come close together: keep the latest total
        samples.append((now_ms, self.records_attempt))
        while len(samples) > 2 and now_ms - samples[0][0] > RATE_WINDOW_MS:
            samples.popleft()
        (first_ms, first), (last_ms, last) = samples[0], samples[-1]
        if last_ms > first_ms and self.state == "running":
            self._rate = now_ms, max(0, last - first) * 1000 / (last_ms - first_ms)
            self.rates.add(self._rate[1], now_ms)

    def checkpoint_completed(self, checkpoint: int, took_ms: int, now_ms: int) -> None:
        self.checkpoint_at_ms, self.checkpoint_took_ms = now_ms, took_ms
        self.checkpoint = checkpoint
        self.checkpoints += 1

    def failed(self, error: HeadgateError, another: bool) -> None:
        self.error, self.state = error, "restarting" if another else "failing"
        self._rate = None


class ErrorFacts(TypedDict, total=False):
    """An error as plain values for JSON; only an error of user code has more than kind and message."""

    kind: str
    message: str
    operator: str
    record: str
    attempt: int
    traceback: str


def error_facts(error: BaseException) -> ErrorFacts:
    """Return an error as plain JSON values, long texts cut; of user code also operator, record, traceback.

    Example:
        >>> error_facts(HeadgateError("no such file"))
        {'kind': 'HeadgateError', 'message': 'no such file'}
    """
    kind = type(error).__name__
    if not isinstance(error, UserFunctionError):
        return {"kind": kind, "message": _cut(str(error))}
    return {
        "kind": kind,
        "message": _cut(error.raised),
        "operator": error.operator,
        "record": _cut(error.record),
        "attempt": error.attempt,
        "traceback": _cut(error.traceback_text, keep_end=True),
    }


def error_line(facts: ErrorFacts) -> str:
    """Return one line about an error, without its traceback; `facts` are from :func:`error_facts`.

    Example:
        >>> error = UserFunctionError("'map' (uid 'm')", record="7", traceback_text="ValueError: odd")
        >>> error_line(error_facts(error))
        "'map' (uid 'm') raised ValueError: odd for record 7"
    """
    if "operator" in facts:
        return f"{facts['operator']} raised {facts['message']} for record {facts['record']}"
    return facts["message"].strip().partition("\n")[0] or facts["kind"]


def _cut(text: str, keep_end: bool = False) -> str:
    if len(text) <= _SHOWN_LENGTH:
        return text
    return f"...{text[3 - _SHOWN_LENGTH :]}" if keep_end else f"{text[: _SHOWN_LENGTH - 3]}..."
