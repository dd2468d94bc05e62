"""All metrics of a running job: of its subtasks, its workers, its checkpoints, and of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.common.errors import HeadgateError
from headgate.common.ports import Clock
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus
from headgate.core.checkpoint.modes import CoordinatorStatistics
from headgate.graph.physical import PhysicalPlan
from headgate.metrics import metric_table as table
from headgate.metrics import of_jobs as of
from headgate.metrics import of_parts
from headgate.metrics.histograms import Histogram
from headgate.metrics.metric import OF_PARTS, PREFIX, Kind, Metric, Place
from headgate.metrics.of_parts import PARTS
from headgate.runtime.driver.metrics.over_attempts import OverAttempts
from headgate.runtime.job.listener import JobListener
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol.messages import Counters, Heartbeat

_SKIPPED: Final = table.BAD_RECORDS.at()


class Sample(NamedTuple):
    """One series of a metric: its labels, and its value as a whole number, in parts of the metric's unit."""

    labels: Mapping[str, str]
    value: float | Histogram


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its samples."""

    metric: Metric
    samples: Sequence[Sample]


class JobMetrics(JobListener):
    """Keeps what the job's events say of its metrics. Everything is called in the job master's loop."""

    def __init__(self, plan: PhysicalPlan, clock: Clock) -> None:
        self._clock, self._began_ms = clock, clock.monotonic_ms()
        self._subtasks = OverAttempts(plan)
        self._recovery = Histogram()
        self._failed_ms: int | None = None
        self._rescales = 0

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._subtasks.begin()

    def rescaled(self, plan: PhysicalPlan) -> None:
        self._subtasks.begin(plan)
        self._rescales += 1

    def progress(self, counters: Sequence[Counters]) -> None:
        self._subtasks.report(counters)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        if self._failed_ms is None:  # else the job has not run since
            self._failed_ms = self._clock.monotonic_ms()

    def running(self, attempt: int) -> None:
        if self._failed_ms is not None:
            self._recovery.add(max(0, self._clock.monotonic_ms() - self._failed_ms))
            self._failed_ms = None

    def skipped(self) -> dict[str, int]:
        """Return how many bad records each source skipped, in all attempts, by uid of the source. A record
        that is read again after a failure counts again; sources that skipped none are left out.
        """
        found = Counter[str]()
        for each in self._subtasks.measured():
            found[each.task.operator] += each.numbers[_SKIPPED]
        return dict(+found)

    def families(self, master: JobMaster) -> list[Family]:
        """Return all metrics of `master`'s job as they are now."""
        coordinator = master.checkpoints.coordinator.statistics()
        records = master.checkpoints.history.records
        return [
            *self._of_subtasks(),
            *self._of_parts(),
            *_of_sources(master),
            _of_sinks(master),
            *self._of_program(),
            *_of_workers(master.heartbeats()),
            *_of_checkpoints(coordinator, _last_complete(records)),
            *self._of_job(master),
        ]

    def _of_subtasks(self) -> Iterator[Family]:
        measured = list(self._subtasks.measured())
        for metric in table.TABLE:
            if metric.place is not Place.SUBTASK:
                continue
            samples = []
            for each in measured:
                task = {"operator": each.task.operator, "subtask": str(each.task.subtask)}
                for labels, series in metric.labelled:
                    value = each.histograms.get(series) or each.numbers.get(series)
                    if value is not None and value != metric.unknown:
                        samples.append(Sample({**task, **labels}, value))
            yield Family(metric, samples)

    def _of_parts(self) -> Iterator[Family]:
        found: dict[Metric, list[Sample]] = {metric: [] for metrics in PARTS.values() for metric in metrics}
        for each in self._subtasks.measured():
            task = {"operator": each.task.operator, "subtask": str(each.task.subtask)}
            for part in each.parts:
                labels = task | dict(zip(OF_PARTS[Place(part.place)], part.labels, strict=True))
                for metric, value in part.known():
                    found[metric].append(Sample(labels, value))
        for metric, samples in found.items():
            yield Family(metric, samples)

    def _of_program(self) -> Iterator[Family]:
        found: dict[Metric, list[Sample]] = {}
        for each in self._subtasks.measured():
            for (operator, name, kind), value in each.own.items():
                labels = {"operator": operator, "subtask": str(each.task.subtask)}
                found.setdefault(_of_name(name, Kind(kind)), []).append(Sample(labels, value))
        for metric in sorted(found, key=lambda metric: metric.name):
            yield Family(metric, found[metric])

    def _of_job(self, master: JobMaster) -> Iterator[Family]:
        state = master.state.value
        states = [Sample({"state": each}, int(each == state)) for each in of.STATES]
        yield Family(of.JOB_STATE, states)
        yield _one(of.UPTIME, self._clock.monotonic_ms() - self._began_ms)
        yield _one(of.ATTEMPT, master.attempt)
        yield _one(of.RESTARTS, master.restarts)
        yield _one(of.RESCALES, self._rescales)
        yield _one(of.RECOVERY, Histogram(self._recovery.sparse()))
        yield _one(of.WORKERS, len(master.heartbeats()))


def _of_name(name: str, kind: Kind) -> Metric:
    ending = "_total" if kind is Kind.COUNTER and not name.endswith("_total") else ""
    return Metric(f"{PREFIX}user_{name}{ending}", kind, "", "Counted by functions of the program.")


def _one(metric: Metric, value: int | Histogram) -> Family:
    return Family(metric, [Sample({}, value)])


def _of_workers(beats: Mapping[int, Heartbeat]) -> Iterator[Family]:
    values = {
        of.RESIDENT_BYTES: {slot: beat.rss_bytes for slot, beat in beats.items()},
        of.CPU: {slot: beat.cpu_ms for slot, beat in beats.items()},
        of.GARBAGE: {slot: beat.gc_us for slot, beat in beats.items()},
    }
    for metric, by_slot in values.items():
        known = [(slot, value) for slot, value in sorted(by_slot.items()) if value != metric.unknown]
        yield Family(metric, [Sample({"worker": str(slot)}, value) for slot, value in known])


def _of_sources(master: JobMaster) -> Iterator[Family]:
    left = {uid: each for uid, each in master.sources.unassigned().items() if each is not None}
    for metric, values in (
        (of_parts.UNASSIGNED_RECORDS, {uid: each.records for uid, each in left.items()}),
        (of_parts.UNASSIGNED_BYTES, {uid: each.bytes for uid, each in left.items()}),
    ):
        known = [(uid, value) for uid, value in values.items() if value is not None]
        yield Family(metric, [Sample({"operator": uid}, value) for uid, value in known])


def _of_sinks(master: JobMaster) -> Family:
    times = master.checkpoints.commit_times.by_sink()
    return Family(of_parts.COMMIT, [Sample({"operator": uid}, each) for uid, each in times.items()])


def _of_checkpoints(seen: CoordinatorStatistics, last: CheckpointRecord | None) -> Iterator[Family]:
    ended = {"completed": seen.completed, "failed": seen.failed}
    yield Family(of.CHECKPOINTS, [Sample({"result": result}, n) for result, n in ended.items()])
    yield _one(of.SAVEPOINTS, seen.savepoints)
    yield _one(of.CHECKPOINTS_PENDING, len(seen.pending))
    if last is None:
        return
    stored_ms = last.duration_ms if last.stored_ms is None else last.stored_ms
    subtasks = last.subtasks
    yield _one(of.LAST_ID, last.checkpoint)
    yield _one(of.LAST_COMPLETED, last.trigger_ms + last.duration_ms)
    yield _one(of.LAST_DURATION, last.duration_ms)
    yield _one(of.LAST_COMMIT, max(0, last.duration_ms - stored_ms))
    yield _one(of.LAST_BYTES, last.size)
    places = [(last.topology.vertex(each.vertex).uids[0], str(each.subtask)) for each in subtasks]
    yield Family(
        of.LAST_STATE,
        [
            Sample({"operator": operator, "subtask": subtask}, each.state_size)
            for (operator, subtask), each in zip(places, subtasks, strict=True)
        ],
    )
    yield _one(of.LAST_WRITTEN, sum(each.bytes_written for each in subtasks))
    yield _one(of.LAST_IN_FLIGHT, last.bytes_in_flight)
    yield _one(of.LAST_START_DELAY, round(max((each.start_delay_ms for each in subtasks), default=0)))
    yield _one(of.LAST_ALIGNMENT, round(max((each.alignment_ms for each in subtasks), default=0)))
    yield _one(of.LAST_SYNC, round(1000 * max((each.sync_ms for each in subtasks), default=0)))
    yield _one(of.LAST_ASYNC, round(max((each.async_ms for each in subtasks), default=0)))


def _last_complete(records: Sequence[CheckpointRecord]) -> CheckpointRecord | None:
    complete = [each for each in records if each.status is CheckpointStatus.COMPLETED]
    return max(complete, key=lambda record: record.checkpoint, default=None)
