"""One cell of the comparison: how one system is measured on one query, within limits, and how its answer is
checked.

A run with a sink that only receives gives the numbers; one more, into files, gives the answer, whose rows
must be those of the right answer, each as often. An engine that does fewer than 100,000 events a second over
the first two million is measured on those.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.compare.answers import answer, closed_answer, fingerprint, schema_of, written
from bench.compare.checksums import table_checksums
from bench.compare.entries import Query
from bench.compare.events import PARTS, TABLES, EventSet
from bench.compare.systems import System
from bench.measure import Run, run
from bench.peers.environments import AbsentError

PREFIX_EVENTS: Final = 2_000_000
SLOW_PER_S: Final = 100_000
"""An engine below this rate is measured on the prefix."""
START_LIMIT_S: Final = 120.0
SLOWEST_PER_S: Final = 5_000
"""A run that is slower is ended, after the time for its start."""
_SAMPLE_S: Final = 0.1
_REASON_CHARS: Final = 900

MEASURED: Final = "measured"
CANNOT: Final = "cannot"
NOT_WRITTEN: Final = "not written"
ABSENT: Final = "absent"
FAILED: Final = "failed"
OVER_TIME: Final = "over time"
WRONG: Final = "wrong answer"


@dataclass(slots=True)
class Cell:
    """What is known of one system on one query.

    Attributes:
        query: its name.
        system: its key.
        status: MEASURED, or why there is no number.
        reason: in a sentence, unless measured; also where only the first events were, for another cause than
            its speed.
        events: records that it read.
        rates: events per second of each run, from the first record read to the last result received.
        starts_s: from the start of the program to the first record read.
        cpu_us: CPU microseconds per event of all its processes in between, of each run.
        rss_peak_mb: most memory of all runs.
        checkpoints: that were completed in the last run; None: not known.
        checked: what of the answer was compared.
        versions: package -> version, as the program saw them.
        runs: everything that each run said.
    """

    query: str
    system: str
    status: str = MEASURED
    reason: str = ""
    events: int = 0
    rates: list[float] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    rss_peak_mb: float = 0.0
    checkpoints: int | None = None
    checked: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """The median rate; None if there is none that counts."""
        return median(self.rates) if self.rates and self.status == MEASURED else None


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of one comparison.

    Attributes:
        events: of the generator, of all three kinds.
        rounds: runs of each cell that are measured.
        install: whether absent peers are installed.
        prefix: events of which slow engines are given no more.
        start_limit_s: seconds that a run has besides those for its events.
    """

    events: EventSet
    rounds: int = 1
    install: bool = True
    prefix: int = PREFIX_EVENTS
    start_limit_s: float = START_LIMIT_S


class CellFailure(Exception):
    """A run that gives no number: a status, and the reason.

    Args:
        status: of the cell.
        reason: in a sentence.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def time_limit_s(records: int, start_limit_s: float = START_LIMIT_S) -> float:
    """Seconds after which a run is ended.

    Example:
        >>> time_limit_s(2_000_000), time_limit_s(1_000)
        (520.0, 120.2)
    """
    return start_limit_s + records / SLOWEST_PER_S


def cpu_between(series: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """CPU seconds between two moments of a series of (moment, CPU seconds until then), by straight lines.

    Example:
        >>> cpu_between([(0.0, 0.0), (2.0, 1.0), (4.0, 5.0)], 1.0, 3.0)
        2.5
    """
    if not series:
        return 0.0
    moments, seconds = zip(*series, strict=True)
    first, last = np.interp([began, ended], moments, seconds)
    return float(last - first)


class Answers:
    """The right answers, each computed once.

    Args:
        query: what was asked.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._found: dict[EventSet, pa.Table] = {}

    def of(self, events: EventSet) -> pa.Table:
        """The answer for these events."""
        if events not in self._found:
            self._found[events] = answer(self._query, events.layout(PARTS))
        return self._found[events]


class Measurement:
    """Measures one system on one query, round by round.

    Args:
        query: what is asked.
        system: who is asked.
        plan: how much.
        answers: of the query.
        say: is called with what goes on.
    """

    def __init__(
        self, query: Query, system: System, plan: Plan, answers: Answers, say: Callable[[str], None]
    ) -> None:
        self.cell = Cell(query.name, system.key)
        self._query, self._system, self._plan, self._answers, self._say = query, system, plan, answers, say
        self._events = plan.events
        self._command: tuple[list[str], Mapping[str, str]] = ([], {})
        lacking = system.lacking(query)
        if lacking is not None:
            self._fail(CANNOT if lacking.cannot else NOT_WRITTEN, lacking.reason)
            return
        try:
            self._command = system.command(plan.install)
        except AbsentError as error:
            self._fail(ABSENT, str(error))

    def next_round(self) -> None:
        """One measured run, unless an earlier one failed; the first one decides on how many events."""
        if self.cell.status != MEASURED:
            return
        try:
            if not self.cell.rates and self._events.count > self._plan.prefix:
                self._decide()
            else:
                self._keep(self._run(None))
        except CellFailure as failure:
            self._fail(failure.status, failure.reason)

    def _decide(self) -> None:
        """Run on the prefix; it is the measurement if that is slow, or if the engine fails on the whole."""
        whole, self._events = self._events, self._events.first(self._plan.prefix)
        prefix = self._run(None)
        if rate_of(prefix, records_of(self._query, self._events)) < SLOW_PER_S:
            self._keep(prefix)
            return
        first, self._events = self._events, whole
        try:
            self._keep(self._run(None))
        except CellFailure as failure:
            if failure.status == WRONG:
                raise
            self._events = first
            self._keep(prefix)
            self.cell.reason = f"it failed on all events: {failure}"

    def check(self) -> None:
        """One more run, into files, whose rows are compared with the right answer."""
        if self.cell.status != MEASURED:
            return
        out = Path(tempfile.mkdtemp(prefix="bench-answer-"))
        try:
            done = self._run(out / "rows")
            self.cell.checked = self._compare(done, out / "rows")
        except CellFailure as failure:
            self._fail(failure.status, f"while its answer was checked: {failure.reason}")
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def _run(self, out: Path | None) -> Run:
        self._say(
            f"{self._query.name} {self._system.title}, {self._events.count:,} events"
            + (", check" if out else "")
        )
        work = Path(tempfile.mkdtemp(prefix="bench-work-"))
        try:
            (work / "state").mkdir()
            right = self._answers.of(self._events)
            self._system.order(self._query, self._events, right, work / "state", out).write(
                work / "order.json"
            )
            command, variables = self._command
            limit = time_limit_s(self._events.count, self._plan.start_limit_s)
            done = run(self._system.key, [*command, str(work / "order.json")], limit, variables, _SAMPLE_S)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._refuse(done, limit)
        return done

    def _refuse(self, done: Run, limit_s: float) -> None:
        if done.failure is not None and done.wall_s >= limit_s:
            raise CellFailure(OVER_TIME, f"not done within its limit of {limit_s:,.0f} s")
        if done.failure is not None:
            raise CellFailure(FAILED, shortened(done.failure))
        if done.result.get("failures"):
            raise CellFailure(FAILED, shortened(f"an attempt failed: {done.result['failures']}"))
        right = self._answers.of(self._events)
        records = done.result.get("records")
        if records is not None and not self._system.closed_only and records != right.num_rows:
            raise CellFailure(WRONG, f"it gave {records:,} rows; expected {right.num_rows:,}")
        sums = done.result.get("checksums")
        if sums is not None and sums != table_checksums(right):
            wrong = [name for name, value in table_checksums(right).items() if sums.get(name) != value]
            raise CellFailure(WRONG, f"the checksums of {', '.join(wrong)} are not those of the right answer")

    def _keep(self, done: Run) -> None:
        records = records_of(self._query, self._events)
        began, ended = done.result["began"], done.result["ended"]
        cell = self.cell
        cell.events = records
        cell.rates.append(rate_of(done, records))
        cell.starts_s.append(began - done.started)
        cell.cpu_us.append(cpu_between(done.cpu_at, began, ended) / records * 1e6)
        cell.rss_peak_mb = max(cell.rss_peak_mb, done.rss_peak_mb)
        cell.checkpoints = done.result.get("checkpoints")
        cell.versions = done.result.get("versions", {})
        cell.runs.append(done.facts())

    def _compare(self, done: Run, rows: Path) -> str:
        right = self._answers.of(self._events)
        what = "all rows"
        watermark_us = done.result.get("watermark_us")
        if self._system.closed_only and self._query.timed:
            if watermark_us is None:
                raise CellFailure(WRONG, "it has no watermark, so no window was closed")
            right = closed_answer(self._query, self._events.layout(PARTS), right, watermark_us)
            what = f"closed windows, {right.num_rows:,} rows"
        try:
            found = fingerprint(written(rows, schema_of(self._query), self._query.updating))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CellFailure(WRONG, shortened(f"what it wrote cannot be read: {error}")) from error
        wanted = fingerprint(right)
        if found.rows != wanted.rows:
            raise CellFailure(WRONG, f"it wrote {found.rows:,} rows; expected {wanted.rows:,}")
        if found != wanted:
            raise CellFailure(
                WRONG, f"it wrote {found.rows:,} rows as expected, but not with the right values"
            )
        return what

    def _fail(self, status: str, reason: str) -> None:
        self.cell.status, self.cell.reason = status, reason


def records_of(query: Query, events: EventSet) -> int:
    """How many records the tables of a query have."""
    files = events.layout(PARTS)
    return sum(rows_of(path) for name in query.tables for path in files.paths(TABLES[name]))


def rows_of(path: Path) -> int:
    """Rows of a Parquet file."""
    return int(pq.read_metadata(path).num_rows)


def rate_of(done: Run, records: int) -> float:
    """Records per second from the first one read to the last result received."""
    return float(records / max(done.result["ended"] - done.result["began"], 1e-3))


def shortened(text: str) -> str:
    """The end of a long message, on one line: there the cause is.

    Example:
        >>> shortened("exit code 1\\n  broken")
        'exit code 1 broken'
    """
    line = " ".join(text.split())
    return line if len(line) <= _REASON_CHARS else f"... {line[-_REASON_CHARS:]}"
