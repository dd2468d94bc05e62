"""Shows a running job to the user who started it: chooses a display, and sends it the job's events.

A display never disturbs the job: one that can no longer write is dropped.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Unpack

from headgate.api.jobs.executor_contract import RepeatingFailure
from headgate.api.source import InputLeft
from headgate.common.errors import HeadgateError
from headgate.common.ports import Clock
from headgate.common.process.system import SystemClock
from headgate.common.refusals.cells import with_cell_names
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.options import ProgressDisplay
from headgate.display.event_texts import END_EVENTS, Display, Facts, phrases, sentence
from headgate.display.notebook_card import card
from headgate.display.printed import Cell, ShowsInCell, notebook_display
from headgate.display.progress_logged import LogDisplay
from headgate.display.progress_status import JobProgress, error_facts
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.protocol.messages import Counters

PROGRESS_EVERY_MS: Final = 900
"""Least time between two ``progress`` events: a little below the second between two heartbeats."""

PLAIN_EVERY_MS: Final = 5_000  # least time between two lines of progress where there is no terminal
CELL_EVERY_MS: Final = 400  # least time between two updates of a notebook's cell
LASTING_MAX: Final = 8  # how many lines about restarts and the like are kept: the last ones

_LOG: Final = logging.getLogger("headgate.job")


class Narrator(JobListener):
    """A job's listener that keeps `status` current and sends each event, with its facts, to a display.

    Events of progress are sent at most once in 0.9 seconds. A failed rescale (`reverted`) counts as no
    restart. A display that raises OSError or ValueError, as its terminal or pipe is closed, gets no more
    events.
    """

    def __init__(self, status: JobProgress, display: Display, clock: Clock) -> None:
        self.status, self._clock = status, clock
        self._display: Display | None = display
        self._progress_at_ms: int | None = None

    def gang_submitted(self, gang: int, slots: int) -> None:
        self._show("submitted", gang=gang, slots=slots)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.status.deploying(attempt)
        self._show("deploying", attempt=attempt, checkpoint=checkpoint)

    def running(self, attempt: int) -> None:
        self._progress_at_ms = self._clock.monotonic_ms()
        self.status.running(self._progress_at_ms)
        self._show("running", attempt=attempt)

    def unread(self, left: Mapping[str, InputLeft | None]) -> None:
        self.status.reading.update(left, self._clock.monotonic_ms())

    def progress(self, counters: Sequence[Counters]) -> None:
        now = self._clock.monotonic_ms()
        self.status.progress(counters, now)
        due = self._progress_at_ms is not None and now - self._progress_at_ms >= PROGRESS_EVERY_MS
        if due and self.status.state == "running":
            self._progress_at_ms = now
            rate = self.status.rate(now)
            facts = self._totals()
            facts["records_in_attempt"] = None if self.status.records is None else self.status.records_attempt
            facts["records_per_second"] = None if rate is None else round(rate, 1)
            share = self.status.reading.share
            facts["read_share"] = None if share is None else round(share, 4)
            facts["to_go_ms"] = self.status.reading.to_go_ms
            self._show("progress", **facts)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.status.checkpoint_completed(checkpoint, took_ms, self._clock.monotonic_ms())
        self._show("checkpoint", checkpoint=checkpoint, took_ms=took_ms, checkpoints=self.status.checkpoints)

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        self._show("savepoint", checkpoint=checkpoint, uri=uri, took_ms=took_ms)

    def rescaled(self, plan: PhysicalPlan) -> None:
        self.status.rescaled(_sources(plan))
        self.status.plan = plan
        self._show("rescaled", slots=plan.slots)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self.status.failed(error, restart_in_ms is not None)
        if restart_in_ms is not None:
            self.status.restarts += 1
            self._restarting(attempt, error, restart_in_ms)

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        self.status.failed(error, True)
        self._restarting(attempt, error, 0)

    def _restarting(self, attempt: int, error: HeadgateError, restart_in_ms: int) -> None:
        restarts, facts = self.status.restarts, error_facts(error)
        self._show("restarting", attempt=attempt, restart_in_ms=restart_in_ms, restarts=restarts, error=facts)

    def repeats(self, failure: RepeatingFailure) -> None:
        self._show(
            "same-failure",
            operator=failure.operator,
            kind=failure.kind,
            line=failure.line,
            times=failure.times,
            since=failure.since,
            text=failure.text,
        )

    def note(self, text: str) -> None:
        self._show("note", text=text)

    def ended(self, state: str) -> None:
        self.status.state = state
        if state == "finished":
            self.status.reading.finished()
        facts = self._totals()
        facts["duration_ms"] = self.status.duration_ms(self._clock.monotonic_ms())
        if state == "failed":
            facts["error"] = None if self.status.error is None else error_facts(self.status.error)
        self._show(state, **facts)

    def _totals(self) -> Facts:
        status = self.status
        return {
            "attempt": status.attempt,
            "records_in": status.records,
            "records_skipped": status.skipped,
            "checkpoints": status.checkpoints,
            "restarts": status.restarts,
            "longest_step_ms": round(status.longest_step_ms, 1),
        }

    def _show(self, event: str, **facts: Unpack[Facts]) -> None:
        if self._display is None:
            return
        try:
            self._display.show(event, {"time_ms": self._clock.now_ms(), "job": self.status.name, **facts})
        except (OSError, ValueError) as error:
            # The terminal or pipe was closed; that is no reason for a job to fail.
            self._display = None
            _LOG.warning("job %s is no longer shown: %s", self.status.name, error)


class WarningsDisplay:
    """A display, for `headgate.progress=off`, that shows nothing but logs what matters.

    Restarts and repeated failures are warnings, notes are infos, of the logger "headgate.job".
    """

    def show(self, event: str, facts: Facts) -> None:
        if event == "restarting":
            _LOG.warning("job %s: %s", facts["job"], sentence(event, facts))
        elif event == "same-failure":
            _LOG.warning("job %s: %s", facts["job"], facts["text"])
        elif event == "note":
            _LOG.info("job %s: %s", facts["job"], facts["text"])


class PlainDisplay:
    """A display without a terminal: lines about events on standard error, progress every 5 seconds."""

    def __init__(self, status: JobProgress, clock: Clock) -> None:
        self._status, self._clock = status, clock
        self._line_at_ms: int | None = None

    def show(self, event: str, facts: Facts) -> None:
        now = self._clock.monotonic_ms()
        if event == "progress":
            if self._line_at_ms is not None and now - self._line_at_ms < PLAIN_EVERY_MS:
                return
            self._line_at_ms = now
            text: str | None = "  ".join(phrases(self._status, now))
        else:
            text = sentence(event, facts)
        if text is not None:
            sys.stderr.write(f"{facts['job']}: {text}\n")
            sys.stderr.flush()


class CellDisplay:
    """A display in a notebook's cell: a card kept current, which at last shows how the job ended.

    It has the job's progress, graph and rates, and the last lines about restarts, notes and the end. As text
    it is these lines, and below them the progress. The last card is complete in itself: it is what the
    notebook keeps.
    """

    def __init__(self, status: JobProgress, clock: Clock, display: ShowsInCell) -> None:
        self._status, self._clock, self._cell = status, clock, Cell(display)
        self._lasting: list[str] = []
        self._shown_at_ms: int | None = None

    def show(self, event: str, facts: Facts) -> None:
        lasts = event in ("restarting", "same-failure", "note") or event in END_EVENTS
        now = self._clock.monotonic_ms()
        if not lasts and self._shown_at_ms is not None and now - self._shown_at_ms < CELL_EVERY_MS:
            return
        self._shown_at_ms = now
        if lasts:
            self._lasting = [*self._lasting, sentence(event, facts) or event][-LASTING_MAX:]
        lines, goes = list(self._lasting), phrases(self._status, now)
        if event not in END_EVENTS:
            lines.append("  ".join(goes))
        lasting = [with_cell_names(line) for line in self._lasting]
        html = card(self._status, [] if event in END_EVENTS else goes[1:], lasting)
        self._cell.show(with_cell_names("\n".join(f"{self._status.name}: {line}" for line in lines)), html)


def listener_for(
    config: Config, job_name: str, plan: PhysicalPlan | None = None, clock: Clock | None = None
) -> JobListener:
    """Return the listener that shows a job as the option ``headgate.progress`` says.

    Args:
        config: the job's settings.
        job_name: under which the job is shown.
        plan: by it the vertices are known that read records; None: no record counts are shown.
        clock: None is the machine's.
    """
    clock = clock or SystemClock()
    sources = None if plan is None else _sources(plan)
    status = JobProgress(job_name, sources, clock.monotonic_ms())
    status.plan = plan
    chosen = config.get(o.PROGRESS)
    if (
        chosen is ProgressDisplay.AUTO
        and config.get(o.LOGS_FORMAT) is o.LogFormat.JSON
        and not notebook_display()
    ):
        return Narrator(status, LogDisplay(status, clock), clock)
    return Narrator(status, _display(chosen, status, clock), clock)


def _sources(plan: PhysicalPlan) -> frozenset[int]:
    return frozenset(vertex.id for vertex in plan.vertices if isinstance(vertex.chain[0], SourceNode))


def _display(chosen: ProgressDisplay, status: JobProgress, clock: Clock) -> Display:
    if chosen is ProgressDisplay.AUTO:
        terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        chosen = ProgressDisplay.LIVE if terminal else ProgressDisplay.PLAIN
    # Imported where chosen: a job in a script without a terminal needs no `rich`.
    if chosen is ProgressDisplay.LIVE:
        from headgate.display.progress_live import LiveDisplay

        return LiveDisplay(status, clock)
    if chosen is ProgressDisplay.JSON:
        from headgate.display.progress_json import line_writer

        return line_writer()
    if chosen is ProgressDisplay.OFF:
        return WarningsDisplay()
    if (display := notebook_display()) is not None:
        return CellDisplay(status, clock, display)
    return PlainDisplay(status, clock)
