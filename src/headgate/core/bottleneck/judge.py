"""Names what holds a job up, from the evidence of a few seconds.

A worker's loop is the resource that all its subtasks share, so the search begins there:

1. If the loops of some workers have no time left, they are the cause: `full_workers` says why they are full.
2. If a function that runs beside the loop is at its limit, it is the cause: in threads of its own, or with as
   many calls under way as it may have.
3. If nobody works all the time, and yet subtasks wait to send, the way between them is the cause: barriers
   block it, or too few frames may be on it; or the loops of several workers, which work in long steps, wait
   for each other in turn.
4. Else nothing holds the job up: it waits for input.
"""

from __future__ import annotations

from typing import Final

from headgate.core.bottleneck import sentences
from headgate.core.bottleneck.evidence import Evidence, VertexSeen, WorkerSeen
from headgate.core.bottleneck.findings import Finding
from headgate.core.bottleneck.full_workers import FULL, finding_of_full

WAITS: Final = 0.2
"""Subtasks that wait to send for a smaller share of their time are not held up."""

ALIGNS: Final = 0.2
"""Shares of alignment below this are no cause, and neither those of less than half of the waiting."""

OFTEN: Final = 0.5
"""Workers, or threads, that work for so much of their time wait for others in turn, if senders wait for the
rest.
"""

UNEXPLAINED: Final = 0.15
"""If senders wait for so much more of their time than receivers work, it is not that work they wait for."""


def judge(seen: Evidence) -> Finding | None:
    """Return what holds the job up; None if nothing does, or too little is known."""
    full = [worker for worker in seen.workers if seen.load(worker) >= FULL]
    if full:
        return finding_of_full(seen, full)
    return _beside_the_loop(seen) or _on_the_way(seen)


def _beside_the_loop(seen: Evidence) -> Finding | None:
    for vertex in reversed(seen.vertices):
        waiting, busy = seen.waiting_before(vertex), _busy(seen, vertex)
        in_turn = busy >= OFTEN and busy + waiting >= 1 and not _aligns(seen, waiting)
        if vertex.own_thread and (busy >= FULL or in_turn):
            return sentences.threads_full(vertex, busy, waiting)
        if vertex.many_calls and waiting >= WAITS and not _aligns(seen, waiting):
            return sentences.calls_full(vertex, waiting)
    return None


def _on_the_way(seen: Evidence) -> Finding | None:
    for vertex in reversed(seen.vertices):
        waiting = seen.waiting_before(vertex)
        if waiting < WAITS:
            continue
        if seen.alignment is not None and _aligns(seen, waiting):
            return sentences.alignment(seen, seen.alignment, waiting)
        workers = _workers_of(seen, vertex)
        if not workers:
            continue  # what nothing is known of may well be busy
        load = max(map(seen.load, workers))
        if load >= OFTEN and load + waiting >= 1:
            return finding_of_full(seen, [worker for worker in workers if seen.load(worker) >= OFTEN])
        # Threads of a function's own are no part of its worker's load.
        load = max(load, _busy(seen, vertex))
        if load < OFTEN and waiting > load + UNEXPLAINED:
            return sentences.credit(seen, vertex, waiting, load)
    return None


def _busy(seen: Evidence, vertex: VertexSeen) -> float:
    return max((each.busy for each in seen.of_vertex(vertex.id)), default=0.0)


def _aligns(seen: Evidence, waiting: float) -> bool:
    return seen.alignment is not None and seen.alignment.share >= max(ALIGNS, waiting / 2)


def _workers_of(seen: Evidence, vertex: VertexSeen) -> list[WorkerSeen]:
    numbers = {each.worker for each in seen.of_vertex(vertex.id)}
    return [worker for worker in seen.workers if worker.worker in numbers]
