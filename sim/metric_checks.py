"""What must hold of the metrics of simulated jobs: no time is lost, and no record is counted twice.

The checks look whenever a driver takes the counts of a heartbeat. Between two steps of any process nothing
happens in a simulation, so workers can be looked at from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from typing_extensions import override

from headgate.graph.logical import MapNode, SourceNode, TimestampsNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.metrics import metric_table as table
from headgate.metrics.metric import Kind
from headgate.runtime.driver.metrics.over_attempts import OverAttempts
from headgate.runtime.driver.statistics import JobStatistics
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.listeners import Listeners
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.task.task import Task
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.file_invariants import Violation

_ONE_FOR_ONE: Final = (SourceNode, TimestampsNode, MapNode)
_COUNTERS: Final = frozenset(
    series for metric in table.TABLE if metric.kind is Kind.COUNTER for series in metric.series
)
_UNKNOWN: Final = {
    series: metric.unknown for metric in table.TABLE if metric.unknown is not None for series in metric.series
}
_PLACES: Final = [place for place, name in enumerate(table.NUMBERS) if name in _COUNTERS]
COMPARED_EVERY: Final = 8
"""Sums over attempts are compared at every so many-th report, and whenever an attempt begins."""
TOLERANCE_MS: Final = 1e-3
"""Times are added as fractions."""


class MetricChecks:
    """The checks of one simulated job. `events`: how many records each source has, by uid; none is checked
    of sources that are left out. A violation is raised where it is found.
    """

    def __init__(self, events: Mapping[str, int] | None = None) -> None:
        self._events = events or {}
        self._opened: dict[int, tuple[Task, float]] = {}  # kept, or another task could get its number
        self._statistics: dict[str, JobStatistics] = {}
        self.looks = 0

    def listener(self, scene: JobScene, driver: DriverProcess, checks: JobListener) -> JobListener:
        """Return the listener for a driver's job master: `checks`, and these ones."""
        plan = driver.submission.spec.plan
        statistics = self._statistics[driver.name] = JobStatistics(plan, JobListener())
        return Listeners(checks, statistics, _Counting(self, scene, plan))

    def look(self, scene: JobScene) -> None:
        """Check the subtasks of all workers that run."""
        for process in scene.workers:
            assembly = process.worker._assembly if process.alive else None
            for task in () if assembly is None else assembly.tasks.values():
                if not task._runner.away:
                    self._demand_all_time(process.name, task)

    def _demand_all_time(self, where: str, task: Task) -> None:
        """Each moment since a subtask was opened is in exactly one of its four times.

        So what is counted until now, taken from the moment until which it is counted, is always the moment of
        the opening. The clock is not asked: in a simulation it would go on by that.
        """
        times, kept = task._times, self._opened.get(id(task))
        opened_ms = times._since - (times._busy + times._backpressured + times._idle + times._waiting)
        if kept is None:
            self._opened[id(task)] = task, opened_ms
            return
        self.looks += 1
        if abs(opened_ms - kept[1]) > TOLERANCE_MS:
            raise Violation(
                f"{where}, subtask {task.id}: its times add up to {kept[1] - opened_ms:+.3f} ms more than "
                f"have passed"
            )

    def ended(self, scene: JobScene) -> None:
        """Check that each source's records are counted once, however often they were read again."""
        finished = scene.finished
        if finished is None or finished.master is None:
            return
        counted = self._statistics[finished.name].records_in(finished.master.restored_totals)
        for uid, events in self._events.items():
            if counted[uid] != events:
                raise Violation(f"source {uid!r} has {events} records, and {counted[uid]} are counted")


class _Counting(JobListener):
    """Adds up the counts of all attempts in another way than the job's metrics do, and compares."""

    def __init__(self, checks: MetricChecks, scene: JobScene, plan: PhysicalPlan) -> None:
        self._checks, self._scene, self._plan = checks, scene, plan
        self._metrics = OverAttempts(plan)
        self._attempt = 0
        self._last: dict[tuple[int, str, int], Counters] = {}
        self._before: Counter[str] = Counter()
        self._reports = 0

    @override
    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._metrics.begin()
        self._attempt = attempt
        self._compare()

    @override
    def rescaled(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._metrics.begin(plan)
        self._compare()

    @override
    def progress(self, counters: Sequence[Counters]) -> None:
        self._metrics.report(counters)
        for each in counters:
            vertex = self._plan.vertices[each.vertex]
            task = self._attempt, vertex.chain[0].known_as, each.subtask
            before = self._last.get(task)
            if before is not each:
                self._demand_one_for_one(vertex, each)
                self._demand_no_fall(task, before, each)
                self._last[task] = each
        self._reports += 1
        if self._reports % COMPARED_EVERY == 0:
            self._compare()
        self._checks.look(self._scene)

    def _demand_no_fall(self, task: tuple[int, str, int], before: Counters | None, now: Counters) -> None:
        for place in () if before is None else _PLACES:
            name = table.NUMBERS[place]
            if _known(name, now.values[place]) < _known(name, before.values[place]):
                raise Violation(f"{name} of {task} fell from {before.values[place]} to {now.values[place]}")

    def _demand_one_for_one(self, vertex: Vertex, each: Counters) -> None:
        if any(not isinstance(node, _ONE_FOR_ONE) or node.blocking or node.on_error for node in vertex.chain):
            return
        if each.records_in != each.records_out:
            raise Violation(
                f"{vertex.name}, subtask {each.subtask}, makes one record of each, and tells "
                f"{each.records_in} records in and {each.records_out} out"
            )

    def _compare(self) -> None:
        """The metrics are the sum of each attempt's last totals, and never less than before."""
        found: Counter[str] = Counter()
        for each in self._metrics.measured():
            counted = {name: value for name, value in each.numbers.items() if name in _COUNTERS}
            found.update({name: _known(name, value) for name, value in counted.items()})
        right: Counter[str] = Counter()
        for told in self._last.values():
            pairs = zip(table.NUMBERS, told.values, strict=True)
            right.update({name: _known(name, value) for name, value in pairs})
        for name in _COUNTERS:
            if found[name] != right[name]:
                raise Violation(f"{name} is {found[name]}; all attempts together have told {right[name]}")
            if found[name] < self._before[name]:
                raise Violation(f"{name} fell from {self._before[name]} to {found[name]}")
        self._before = found


def _known(name: str, value: int) -> int:
    return 0 if value == _UNKNOWN.get(name) else value
