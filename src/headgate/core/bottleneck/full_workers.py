"""Why loops of workers have no time left: garbage, too many records, a slow machine, or what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.core.bottleneck import sentences
from headgate.core.bottleneck.activities import Activity, activities, added, main_function
from headgate.core.bottleneck.areas import ROCKSDB, SERIALIZATION
from headgate.core.bottleneck.evidence import (
    Evidence,
    OperatorSeen,
    Role,
    VertexSeen,
    WorkerSeen,
    mean,
)
from headgate.core.bottleneck.findings import Finding, Kind

FULL: Final = 0.8
"""A loop that works for so much of its time has none left: the rest goes into waking up."""

GARBAGE: Final = 0.25
UNEVEN: Final = 1.5
"""A worker differs from the others if it has so many times as much to do in a vertex."""

NOTICEABLE: Final = 0.02
"""Shares of time below this are too small to compare workers by them."""


class _Excess(NamedTuple):
    """A subtask by the others of its vertex: how many times as many records, and as much time for each."""

    records: float
    time: float


def finding_of_full(seen: Evidence, full: Sequence[WorkerSeen]) -> Finding:
    """Return why the workers `full`, at least one, have no time left, or little."""
    garbage = max(full, key=lambda worker: worker.garbage or 0.0)
    if (garbage.garbage or 0.0) >= GARBAGE:
        return sentences.garbage(seen, garbage)
    uneven = _uneven(seen, full)
    return uneven or _what_they_do(seen, full)


# -- some workers, and others not ------------------------------------------------------------------------


def _uneven(seen: Evidence, full: Sequence[WorkerSeen]) -> Finding | None:
    """Return skew, or a slow worker, if the others have time left."""
    others = [worker for worker in seen.workers if worker not in full]
    if not others:
        return None
    worst = max(full, key=seen.load)
    vertex = _busiest(seen, [worst])
    excess = _excess(seen, vertex, worst)
    if vertex is None or excess is None:
        return None
    if excess.records >= UNEVEN and excess.records >= excess.time:
        return sentences.skew(seen, vertex, worst, others, excess.records)
    times = _times(seen, worst)
    if times and min(times.values()) >= UNEVEN:
        return sentences.slow_worker(seen, worst, others, times)
    return None


def _times(seen: Evidence, worker: WorkerSeen) -> dict[str, float]:
    """Return how many times as long a record takes in `worker` as in the others, by name of vertex."""
    found = {}
    for vertex in seen.vertices:
        here = [each for each in seen.of_vertex(vertex.id) if each.worker == worker.worker]
        excess = _excess(seen, vertex, worker)
        if excess is not None and here[0].busy >= NOTICEABLE:
            found[vertex.name] = excess.time
    return found


def _excess(seen: Evidence, vertex: VertexSeen | None, worker: WorkerSeen) -> _Excess | None:
    """Return how one subtask of `vertex` differs from the others; None if nothing can be compared."""
    subtasks = [] if vertex is None else seen.of_vertex(vertex.id)
    here = [each for each in subtasks if each.worker == worker.worker and each.in_per_s > 0]
    others = [each for each in subtasks if each.worker != worker.worker]
    if not here or not others:
        return None
    # A slow receiver works at a frame for seconds; in few seconds it seems to get more than the others.
    records = here[0].records / max(mean(each.records for each in others), 1)
    taken = [each for each in others if each.in_per_s > 0 and each.busy > 0]
    if not taken:
        return _Excess(records, 1.0)
    return _Excess(records, here[0].per_record / mean(each.per_record for each in taken))


def _busiest(seen: Evidence, workers: Sequence[WorkerSeen]) -> VertexSeen | None:
    """Return the vertex that takes most of the time of some workers; None if nothing is known of any."""
    numbers = {worker.worker for worker in workers}
    spent: dict[int, float] = {}
    for each in seen.subtasks:
        if each.worker in numbers and not seen.vertex(each.vertex).own_thread:
            spent[each.vertex] = spent.get(each.vertex, 0.0) + each.busy
    return seen.vertex(max(spent, key=spent.__getitem__)) if spent else None


# -- what full loops do ------------------------------------------------------------------------------------


class _Use(NamedTuple):
    """A kind of activity: in an operator, or in whichever it is (None)."""

    kind: Kind
    operator: OperatorSeen | None


def _what_they_do(seen: Evidence, full: Sequence[WorkerSeen]) -> Finding:
    stacks = added(worker.stacks for worker in full)
    done = activities(stacks)
    load = mean(map(seen.load, full))
    vertex = _busiest(seen, full)
    if not done:
        return sentences.unsampled(seen, vertex, full, load)
    operators = {operator.label: operator for each in seen.vertices for operator in each.operators}
    uses: Counter[_Use] = Counter()
    for activity, times in done.items():
        uses[_use(activity, operators.get(activity.label))] += times
    use, times = max(uses.items(), key=lambda item: item[1])
    share = load * times / done.total()
    where = use.operator or _most(done, use.kind, operators)
    if where is None and vertex is not None:
        where = vertex.operators[0]
    at = next((each for each in seen.vertices if where in each.operators), vertex)
    line = None if where is None else main_function(stacks, where.label)
    return sentences.work(seen, use.kind, at, where, line, share, load, full)


def _use(activity: Activity, operator: OperatorSeen | None) -> _Use:
    if activity.what == ROCKSDB:
        return _Use(Kind.STATE, None)
    if operator is not None and operator.role is Role.SINK:
        return _Use(Kind.SINK, operator)
    if activity.what == SERIALIZATION:
        return _Use(Kind.SERIALIZATION, None)
    if operator is not None and operator.role is Role.SOURCE:
        return _Use(Kind.SOURCE, operator)
    return _Use(Kind.BUSY if activity.what else Kind.FUNCTION, operator)


def _most(done: Counter[Activity], kind: Kind, operators: dict[str, OperatorSeen]) -> OperatorSeen | None:
    """Return the operator with most of the samples of one kind."""
    area = {Kind.STATE: ROCKSDB, Kind.SERIALIZATION: SERIALIZATION}.get(kind)
    found = {
        each.label: times for each, times in done.items() if each.what == area and each.label in operators
    }
    return operators[max(found, key=lambda label: found[label])] if found else None
