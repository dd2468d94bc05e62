"""Findings in words: which operator, what it does, the figures, what helps. One function for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.core.bottleneck.evidence import (
    AlignmentSeen,
    Evidence,
    OperatorSeen,
    VertexSeen,
    WorkerSeen,
    mean,
)
from headgate.core.bottleneck.findings import Finding, Kind

RARELY_COMPUTES: Final = 0.5
"""A worker that works all the time, and uses less of a processor, waits in its functions, or for one."""


def garbage(seen: Evidence, worker: WorkerSeen) -> Finding:
    share = worker.garbage or 0.0
    text = (
        f"Python's garbage collector holds {_named(worker)} up for {share:.0%} of the time: keep fewer "
        "objects that hold others in functions and state, create fewer of them per record, or call "
        "gc.freeze() in open() after what stays was loaded"
    )
    figures = {"garbage": share, "load": seen.load(worker)}
    return Finding(Kind.GARBAGE, text, worker=worker.worker, figures=figures)


def skew(
    seen: Evidence, vertex: VertexSeen, worker: WorkerSeen, others: Sequence[WorkerSeen], times: float
) -> Finding:
    (here,) = [each for each in seen.of_vertex(vertex.id) if each.worker == worker.worker]
    load, rest = seen.load(worker), mean(map(seen.load, others))
    where = "keys or splits" if not vertex.senders else "keys"
    text = (
        f"'{vertex.name}' is the bottleneck: its subtask {worker.worker} got {here.records:,} records in the "
        f"last half minute, {times:.1f} times as many as the others, and its worker is {load:.0%} busy while "
        f"theirs are {rest:.0%}: few {where} have most of the records; split these, or aggregate before "
        "they are sent, as more subtasks would not help"
    )
    figures = {"times": times, "records": float(here.records), "load": load, "load_of_others": rest}
    return Finding(Kind.SKEW, text, vertex.id, vertex.operators[0].uid, worker.worker, figures=figures)


def slow_worker(
    seen: Evidence, worker: WorkerSeen, others: Sequence[WorkerSeen], times: Mapping[str, float]
) -> Finding:
    load, rest, least = seen.load(worker), mean(map(seen.load, others)), min(times.values())
    of_all = ", ".join(f"{each:.1f} times in '{name}'" for name, each in times.items())
    used = "" if worker.cpu is None else f", with {worker.cpu:.0%} of a processor"
    text = (
        f"{_named(worker)} is slow: a record takes longer there than in the other workers ({of_all}), and "
        f"its loop is {load:.0%} busy{used} while theirs are {rest:.0%}: look at what else runs on its "
        "machine and in its process, or replace it"
    )
    figures = {"slower": least, "load": load, "load_of_others": rest}
    if worker.cpu is not None:
        figures["cpu"] = worker.cpu
    return Finding(Kind.WORKER, text, worker=worker.worker, figures=figures)


def threads_full(vertex: VertexSeen, busy: float, waiting: float) -> Finding:
    uid = vertex.operators[0].uid
    text = (
        f"'{vertex.name}' is the bottleneck: its function, which runs in threads of its own, works "
        f"{busy:.0%} of the time, and those that send to it wait {waiting:.0%} of theirs; make it faster, "
        "call it asynchronously (map_async), or give the job more subtasks"
    )
    return Finding(Kind.FUNCTION, text, vertex.id, uid, figures={"busy": busy, "waiting": waiting})


def calls_full(vertex: VertexSeen, waiting: float) -> Finding:
    uid = vertex.operators[0].uid
    text = (
        f"'{vertex.name}' is the bottleneck: as many of its asynchronous calls are under way as may be, and "
        f"those that send to it wait {waiting:.0%} of their time; what it calls is too slow, or its "
        "capacity too small"
    )
    return Finding(Kind.FUNCTION, text, vertex.id, uid, figures={"waiting": waiting})


def alignment(seen: Evidence, found: AlignmentSeen, waiting: float) -> Finding:
    vertex = seen.vertex(found.vertex)
    last = "" if found.last is None else f", mostly that of '{found.last}'"
    text = (
        f"'{vertex.name}' is held up by the alignment of checkpoints: for {found.share:.0%} of the time "
        f"some inputs of its subtask {found.subtask} were blocked until the last barrier came{last}, and "
        f"those that send to it wait {waiting:.0%} of theirs; let barriers overtake records "
        "(execution.checkpointing.unaligned.enabled), or take checkpoints less often"
    )
    figures = {"alignment": found.share, "checkpoints": float(found.checkpoints), "waiting": waiting}
    return Finding(Kind.ALIGNMENT, text, vertex.id, vertex.operators[0].uid, found.subtask, figures=figures)


def credit(seen: Evidence, vertex: VertexSeen, waiting: float, load: float) -> Finding:
    frames = "1 frame" if seen.credit_initial == 1 else f"{seen.credit_initial} frames"
    text = (
        f"'{vertex.name}' gets its records too slowly: those that send to it wait {waiting:.0%} of their "
        f"time, although its workers are busy for {load:.0%} only: at most {frames} may be on the way on "
        "each channel, which is too few for a way this long; raise taskmanager.network.credit-initial, or, "
        "where that does not help, look at the network"
    )
    figures = {"waiting": waiting, "load": load, "credit": float(seen.credit_initial)}
    return Finding(Kind.CREDIT, text, vertex.id, vertex.operators[0].uid, figures=figures)


def unsampled(seen: Evidence, vertex: VertexSeen | None, full: Sequence[WorkerSeen], load: float) -> Finding:
    """Return the finding where nothing is known of what full loops do."""
    if vertex is None:
        text = f"{_workers(full)} {'works' if len(full) == 1 else 'work'} {load:.0%} of the time"
        return Finding(Kind.BUSY, text, worker=full[0].worker, figures={"load": load})
    numbers = {worker.worker for worker in full}
    busy = max(each.busy for each in seen.of_vertex(vertex.id) if each.worker in numbers)
    text = (
        f"'{vertex.name}' is the bottleneck: it works {busy:.0%} of the time, and {_workers(full)} "
        f"{'is' if len(full) == 1 else 'are'} {load:.0%} busy in all{_waiting(seen, vertex)}"
    )
    figures = {"busy": busy, "load": load, "waiting": seen.waiting_before(vertex)}
    return Finding(Kind.BUSY, text, vertex.id, vertex.operators[0].uid, full[0].worker, figures=figures)


def work(
    seen: Evidence,
    kind: Kind,
    vertex: VertexSeen | None,
    operator: OperatorSeen | None,
    line: str | None,
    share: float,
    load: float,
    full: Sequence[WorkerSeen],
) -> Finding:
    """Return the finding for loops that spend `share` of their time on one thing."""
    uid = None if operator is None else operator.uid
    line = line if kind in (Kind.FUNCTION, Kind.SINK, Kind.SOURCE) else None
    cpu = mean(worker.cpu for worker in full if worker.cpu is not None) if _measured(full) else None
    waits = cpu is not None and cpu < RARELY_COMPUTES * load
    name = "" if vertex is None else f"'{vertex.name}' is the bottleneck: "
    what = _what(kind, uid, line)
    text = (
        f"{name}{what} {share:.0%} of the time of {_workers(full)}"
        f"{'' if vertex is None else _waiting(seen, vertex)}; {_advice(kind, cpu if waits else None)}"
    )
    figures = {"share": share, "load": load}
    if cpu is not None:
        figures["cpu"] = cpu
    if vertex is not None:
        figures["waiting"] = seen.waiting_before(vertex)
    number = None if vertex is None else vertex.id
    return Finding(kind, text, number, uid, full[0].worker, line, figures)


def _what(kind: Kind, uid: str | None, line: str | None) -> str:
    where = "" if uid is None else f" of '{uid}'"
    match kind:
        case Kind.FUNCTION:
            return f"the function{where} takes" if line is None else f"{line}{where} takes"
        case Kind.SINK:
            return f"writing into the sink '{uid}'{_in(line)} takes"
        case Kind.SOURCE:
            return f"reading the source '{uid}'{_in(line)} takes"
        case Kind.STATE:
            return f"access to the state{where} in RocksDB takes"
        case Kind.SERIALIZATION:
            return f"encoding and decoding of records{where} takes"
        case _:
            return f"Headgate's own work{where or ' between operators'} takes"


def _in(line: str | None) -> str:
    return "" if line is None else f", in {line},"


def _advice(kind: Kind, little_cpu: float | None) -> str:
    """Return what helps; `little_cpu`: how much of a processor a worker uses, if that is little."""
    match kind:
        case Kind.FUNCTION if little_cpu is not None:
            return (
                f"with {little_cpu:.0%} of a processor it rather waits than computes: call it asynchronously "
                "(map_async), or mark it as blocking (hg.blocking); if it computes, the machine has too few"
            )
        case Kind.FUNCTION:
            return "make it cheaper, or give the job more subtasks (headgate rescale)"
        case Kind.SINK:
            return "write more records at once, ask what is written to, or give the job more subtasks"
        case Kind.SOURCE:
            return "read more records at once, or from more splits with more subtasks"
        case Kind.STATE:
            return (
                "read and write it less often per record, keep smaller values, give RocksDB more memory "
                "(state.backend.rocksdb.memory.fixed-per-slot), or keep the state in memory "
                "(state.backend.type=hashmap)"
            )
        case Kind.SERIALIZATION:
            return "send smaller records or fewer fields, or types with a fast encoding (docs/types.md)"
        case _:
            return "give the job more subtasks (headgate rescale)"


def _waiting(seen: Evidence, vertex: VertexSeen) -> str:
    waiting = seen.waiting_before(vertex)
    return f", and those that send to it wait {waiting:.0%} of theirs" if waiting >= 0.01 else ""


def _workers(full: Sequence[WorkerSeen]) -> str:
    if len(full) == 1:
        return f"{_named(full[0])}"
    shown = ", ".join(str(worker.worker) for worker in full[:8])
    return f"workers {shown}{' and more' if len(full) > 8 else ''}"


def _named(worker: WorkerSeen) -> str:
    return f"worker {worker.worker}{f' ({worker.process})' if worker.process else ''}"


def _measured(workers: Sequence[WorkerSeen]) -> bool:
    return any(worker.cpu is not None for worker in workers)
