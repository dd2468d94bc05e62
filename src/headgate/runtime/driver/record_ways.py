"""Has the workers of a job trace single records for a while, and puts their ways together."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

from headgate.common.plain_data import Json
from headgate.graph.physical import Edge, PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.protocol.trace_numbers import is_of
from headgate.runtime.protocol.visits import Visit

WAYS_MAX: Final = 500  # that are kept of a tracing; the oldest are dropped
VISITS_MAX: Final = 1_000  # of each way


class RecordWays(JobListener):
    """The tracings of one job, one at a time. The job master's loop reports, any thread asks. Workers send a
    heartbeat every `heartbeat_ms`, and learn by its answer what is wanted.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self._lock, self._number, self._every, self._running = threading.Lock(), 0, 0, False
        self._ways: dict[int, list[Visit]] = {}  # visits by number of the trace
        self._members: Members | None = None
        self._post: Callable[[Callable[[], None]], None] = lambda call: call()

    def opened(self, members: Members, post: Callable[[Callable[[], None]], None]) -> None:
        """Trace from now on by these workers; `post` has the job master's loop run a callback."""
        self._members, self._post = members, post

    def begin(self, every: int, seconds: int) -> None:
        """Trace one record in `every` for so many seconds from now on. A tracing that is under way ends, and
        is forgotten.
        """
        with self._lock:
            self._number, self._every, self._running, self._ways = self._number + 1, every, True, {}
            number = self._number
        self._want(number, every)
        timer = threading.Timer(seconds + self._heartbeat_ms / 1000, self._end, (number,))
        timer.daemon = True
        timer.start()

    def traced(self, visits: Sequence[Visit]) -> None:
        with self._lock:
            for visit in visits:
                way = self._ways.setdefault(visit.trace, []) if is_of(visit.trace, self._number) else None
                if way is not None and len(way) < VISITS_MAX:
                    way.append(visit)
            for oldest in list(self._ways)[: max(0, len(self._ways) - WAYS_MAX)]:
                del self._ways[oldest]

    def found(self, plan: PhysicalPlan) -> dict[str, Json]:
        """Return what was found until now: `number` of the tracing (0: none yet), whether it `runs`, the
        `ways` of records through the subtasks of `plan`, and the times of `operators` and `exchanges`.
        """
        with self._lock:
            number, every, runs = self._number, self._every, self._running
            ways = [list(visits) for visits in self._ways.values()]
        ways = [visits for visits in ways if any(visit.sender == 0 for visit in visits)]
        return {
            "number": number,
            "every": every,
            "runs": runs,
            "heartbeat_ms": self._heartbeat_ms,
            "ways": [_way(visits, plan) for visits in ways],
            "operators": _operators(ways),
            "exchanges": _exchanges(ways),
        }

    def _end(self, number: int) -> None:
        with self._lock:
            if number != self._number:
                return
            self._running = False
        self._want(number, 0)

    def _want(self, number: int, every: int) -> None:
        members = self._members
        if members is not None:
            self._post(lambda: setattr(members, "tracing", (number, every)))


def _way(visits: list[Visit], plan: PhysicalPlan) -> dict[str, Json]:
    first = next(visit for visit in visits if visit.sender == 0)
    shown = sorted(visits, key=lambda visit: visit.began_us)
    came = {(visit.sender, visit.vertex, visit.subtask) for visit in visits}
    ended_us = max(visit.began_us + visit.took_us for visit in visits)
    return {
        "began_ms": first.began_us // 1000,
        "took_ms": (ended_us - first.began_us) / 1000,
        "record": first.record,
        "visits": [_visit(visit, first, came, plan) for visit in shown],
    }


def _visit(
    visit: Visit, first: Visit, came: set[tuple[int, int, int]], plan: PhysicalPlan
) -> dict[str, Json]:
    edges: dict[int, Edge] = {edge.id: edge for edge in plan.edges}
    sent: list[Json] = []
    for exchange in visit.sent:
        target = edges[exchange.edge].target if exchange.edge in edges else None
        there = target is not None and (visit.number, target, exchange.receiver) in came
        sent.append(
            {"vertex": target, "subtask": exchange.receiver, "waiting": exchange.waiting, "came": there}
        )
    return {
        "number": str(visit.number),  # of more digits than a number of JavaScript has
        "sender": None if visit.sender == 0 else str(visit.sender),
        "vertex": visit.vertex,
        "subtask": visit.subtask,
        "began_ms": (visit.began_us - first.began_us) / 1000,
        "came_ms": visit.came_us / 1000,
        "took_ms": visit.took_us / 1000,
        "record": visit.record,
        "steps": [
            {"uids": [*step.uids], "own_ms": step.own_us / 1000, "records": step.records}
            for step in visit.steps
        ],
        "sent": sent,
    }


def _operators(ways: Sequence[Sequence[Visit]]) -> list[Json]:
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for visits in ways:
        for visit in visits:
            for step in visit.steps:
                found[*step.uids].append(step.own_us)
    return [{"uids": [*uids], **_times(times)} for uids, times in found.items()]


def _exchanges(ways: Sequence[Sequence[Visit]]) -> list[Json]:
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for visits in ways:
        vertices = {visit.number: visit.vertex for visit in visits}
        for visit in visits:
            if visit.sender in vertices:
                found[vertices[visit.sender], visit.vertex].append(visit.came_us)
    return [
        {"sender": sender, "receiver": receiver, **_times(times)}
        for (sender, receiver), times in found.items()
    ]


def _times(times_us: Sequence[int]) -> Mapping[str, Json]:
    return {
        "records": len(times_us),
        "median_ms": median(times_us) / 1000,
        "longest_ms": max(times_us) / 1000,
    }
