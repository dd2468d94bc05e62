"""The facts of one checkpoint for the page: what it took and why, its slowest path, its subtasks."""

from __future__ import annotations

import msgspec

from headgate.common.plain_data import Json
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.core.checkpoint.slowest import slowest_path


def facts_of(record: CheckpointRecord) -> dict[str, Json]:
    """Return a checkpoint's facts without those of its subtasks; `state` is bytes of state by vertex."""
    state: dict[str, Json] = {}
    for subtask in record.subtasks:
        before = state.get(str(subtask.vertex), 0)
        assert isinstance(before, int)
        state[str(subtask.vertex)] = before + subtask.state_size
    return {
        "checkpoint": record.checkpoint,
        "attempt": record.attempt,
        "kind": record.kind,
        "status": record.status.value,
        "trigger_ms": record.trigger_ms,
        "duration_ms": record.duration_ms,
        "acknowledged": len(record.subtasks),
        "tasks": len(record.subtasks) + len(record.missing),
        "size": record.size,
        "written": sum(subtask.bytes_written for subtask in record.subtasks),
        "in_flight": record.bytes_in_flight,
        "unaligned": record.unaligned,
        "reason": record.reason_text,
        "detail": record.detail,
        "why": slowest_path(record).why,
        "state": state,
    }


def subtasks_of(record: CheckpointRecord) -> dict[str, Json]:
    """Return a checkpoint's facts, with the path of its slowest barrier (`path`) and its subtasks' times."""
    path: dict[str, Json] = msgspec.to_builtins(slowest_path(record))
    subtasks: list[Json] = [
        {**msgspec.to_builtins(subtask), "label": record.topology.label(subtask.task)}
        for subtask in record.subtasks
    ]
    missing: list[Json] = [record.topology.label(task) for task in record.missing]
    return {**facts_of(record), "path": path, "subtasks": subtasks, "missing": missing}
