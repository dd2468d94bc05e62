"""What becomes a trace: checkpoints and recoveries, as trees of named stretches of time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus, SubtaskRecord

SUBTASKS_MAX: Final = 32
"""Of so many subtasks, the slowest, a trace has a span each."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time from `begin_ms` to `end_ms` (ms since 1970), with parts; `error`: why it failed."""

    name: str
    begin_ms: float
    end_ms: float
    facts: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    parts: tuple[Stretch, ...] = ()
    error: str | None = None


def checkpoint_stretch(record: CheckpointRecord) -> Stretch:
    """Return a checkpoint that has ended: each subtask from the trigger until its acknowledgement, of the
    last one its phases, then storing, then the commit of the output.

    Example:
        >>> from headgate.core.checkpoint.history import Topology, VertexFacts
        >>> subtask = SubtaskRecord(0, 1, 40, start_delay_ms=5, alignment_ms=10, sync_ms=1, async_ms=20)
        >>> topology = Topology((VertexFacts(0, "Count", ("count",), 2),), ())
        >>> found = checkpoint_stretch(CheckpointRecord(
        ...     7, 1, "periodic", CheckpointStatus.COMPLETED, 1_000, topology, 60, 45, (subtask,)))
        >>> [(each.name, each.begin_ms, each.end_ms) for each in found.parts]
        [('acknowledge', 1000, 1040), ('store', 1040, 1045), ('commit', 1045, 1060)]
        >>> [(each.name, each.end_ms) for each in found.parts[0].parts]
        [('start delay', 1005.0), ('alignment', 1015.0), ('sync', 1016.0), ('async', 1036.0)]
    """
    begin, end = record.trigger_ms, record.trigger_ms + record.duration_ms
    last = record.last_acknowledged
    slowest = sorted(record.subtasks, key=lambda each: each.ack_latency_ms, reverse=True)[:SUBTASKS_MAX]
    parts = [_acknowledged(record, each, phases=each is last) for each in slowest]
    if record.status is CheckpointStatus.COMPLETED:
        acknowledged = begin + (0 if last is None else last.ack_latency_ms)
        stored = end if record.stored_ms is None else begin + record.stored_ms
        parts += [
            Stretch("store", min(acknowledged, stored), stored),
            Stretch("commit", stored, max(stored, end)),
        ]
    error = f"{record.reason_text}; {record.detail}".strip("; ") or "failed"
    return Stretch(
        "savepoint" if record.kind in ("savepoint", "stop") else "checkpoint",
        begin,
        end,
        {
            "headgate.checkpoint.id": record.checkpoint,
            "headgate.checkpoint.kind": record.kind,
            "headgate.attempt": record.attempt,
            "headgate.checkpoint.state_bytes": record.size,
            "headgate.checkpoint.written_bytes": sum(each.bytes_written for each in record.subtasks),
            "headgate.checkpoint.in_flight_bytes": record.bytes_in_flight,
            "headgate.checkpoint.unaligned": record.unaligned,
            "headgate.checkpoint.subtasks": len(record.subtasks),
        },
        tuple(parts),
        None if record.status is CheckpointStatus.COMPLETED else error,
    )


def _acknowledged(record: CheckpointRecord, subtask: SubtaskRecord, *, phases: bool) -> Stretch:
    begin, parts = float(record.trigger_ms), list[Stretch]()
    for name, took_ms in (
        ("start delay", subtask.start_delay_ms),
        ("alignment", subtask.alignment_ms),
        ("sync", subtask.sync_ms),
        ("async", subtask.async_ms),
    ):
        parts.append(Stretch(name, begin, begin + took_ms))
        begin += took_ms
    return Stretch(
        "acknowledge",
        record.trigger_ms,
        record.trigger_ms + subtask.ack_latency_ms,
        {
            "headgate.operator": record.topology.vertex(subtask.vertex).uids[0],
            "headgate.subtask": subtask.subtask,
            "headgate.checkpoint.state_bytes": subtask.state_size,
            "headgate.checkpoint.written_bytes": subtask.bytes_written,
        },
        tuple(parts) if phases else (),
    )


class Recoveries:
    """Follows failures until the job runs again; its owner calls it in the job master's loop.

    Example:
        >>> seen = Recoveries()
        >>> seen.failed(1, "ValueError", "no five", 1_000); seen.deploying(2, 7, 1_300)
        >>> found = seen.running(2, 1_800)
        >>> found.name, found.begin_ms, found.end_ms, found.facts["headgate.checkpoint.restored"]
        ('recovery', 1000, 1800, 7)
        >>> [(each.name, each.begin_ms, each.end_ms) for each in found.parts]
        [('wait', 1000, 1300), ('deploy', 1300, 1800)]
    """

    def __init__(self) -> None:
        self._failed: tuple[int, str, str, int] | None = None
        self._deployed: tuple[int | None, int] | None = None
        self._failures = 0

    def failed(self, attempt: int, kind: str, text: str, now_ms: int) -> None:
        self._failures += 1
        if self._failed is None:  # else the job has not run since
            self._failed = attempt, kind, text, now_ms

    def deploying(self, attempt: int, checkpoint: int | None, now_ms: int) -> None:
        if self._failed is not None:
            self._deployed = checkpoint, now_ms

    def running(self, attempt: int, now_ms: int) -> Stretch | None:
        """Return the recovery that is over now; None if the job had not failed."""
        return self._over(attempt, now_ms, None)

    def ended(self, now_ms: int) -> Stretch | None:
        """Return the recovery that has not succeeded until the job's end; None if there is none."""
        return self._over(None, now_ms, "the job ended before it ran again")

    def _over(self, attempt: int | None, now_ms: int, error: str | None) -> Stretch | None:
        if self._failed is None:
            return None
        failed, kind, text, began_ms = self._failed
        facts: dict[str, str | int | float | bool] = {
            "headgate.attempt.failed": failed,
            "headgate.failures": self._failures,
            "exception.type": kind,
            "exception.message": text,
        }
        parts: tuple[Stretch, ...] = ()
        if self._deployed is not None:
            checkpoint, deployed_ms = self._deployed
            parts = Stretch("wait", began_ms, deployed_ms), Stretch("deploy", deployed_ms, now_ms)
            if checkpoint is not None:
                facts["headgate.checkpoint.restored"] = checkpoint
        if attempt is not None:
            facts["headgate.attempt"] = attempt
        self._failed, self._deployed, self._failures = None, None, 0
        return Stretch("recovery", began_ms, now_ms, facts, parts, error)
