"""``headgate checkpoints``: finds the history of a job's checkpoints and shows it, or one of them in full."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.history_file import (
    CheckpointRecord,
    CheckpointStatus,
    History,
    KeptHistory,
    find_histories,
    plain,
    read_history,
    slowest_path,
)
from headgate.cli.pages.checkpoints_page import detail, overview
from headgate.common.errors import StorageError, UsageError
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.offline.storages import storage_options

_JOBS_NAMED: Final = 5  # other jobs that are named at most


@dataclass(frozen=True, slots=True)
class CheckpointsRequest:
    """The arguments of ``headgate checkpoints``; `job`: an id or name, None: the newest.
    `path`: storage, job folder or checkpoint, None: as configured. `checkpoint`: the id of one to show in
    full.
    """

    path: str | None = None
    last: bool = False
    checkpoint: int | None = None
    job: str | None = None
    options: Sequence[str] = ()
    as_json: bool = False


def show(request: CheckpointsRequest, width: int, color: bool = False) -> str:
    """Return what ``headgate checkpoints`` prints, sentences wrapped at `width`; UsageError: none found."""
    if request.last and request.checkpoint is not None:
        raise UsageError("--last and --id exclude each other; give one of them")
    try:
        with storage_options(request.options):
            found = find_histories(_path(request))
            kept = found[0] if request.job is None else _of_job(found, request.job)
            history = read_history(kept)
    except StorageError as error:
        # Nothing failed but the question: no job ran here.
        raise UsageError(str(error)) from error
    record = _chosen(history, request)
    if request.as_json:
        return _facts(history, kept, record)
    if record is None:
        return overview(history, width, color) + _others(found, kept, request)
    return detail(record, _remark(history, record, request), width, color)


def _path(request: CheckpointsRequest) -> str:
    configured = Config().with_command_line(request.options).get(o.CHECKPOINTING_DIR)
    path = request.path if request.path is not None else configured
    if path is None:
        raise UsageError(
            "no checkpoint directory is given; name it as PATH, or set it by "
            f"-D {o.CHECKPOINTING_DIR.key}=PATH"
        )
    return path


def _of_job(found: list[KeptHistory], job: str) -> KeptHistory:
    for kept in found:
        if kept.job == job:
            return kept
    for kept in found:
        try:
            if read_history(kept).job_name == job:
                return kept
        except StorageError:
            continue  # a damaged one has no name
    raise UsageError(f"there is no history of job {job!r} here; there is one of {_named(found)}")


def _chosen(history: History, request: CheckpointsRequest) -> CheckpointRecord | None:
    if request.checkpoint is not None:
        for record in history.records:
            if record.checkpoint == request.checkpoint:
                return record
        kept = "none"
        if history.records:
            kept = f"{history.records[0].checkpoint} to {history.records[-1].checkpoint}"
        raise UsageError(
            f"checkpoint {request.checkpoint} is not in the history of job {history.job!r}; it keeps {kept}"
        )
    if not request.last:
        return None
    ended = [record for record in history.records if record.status is not CheckpointStatus.IN_PROGRESS]
    if not (ended or history.records):
        raise UsageError(f"job {history.job!r} has triggered no checkpoint yet")
    return (ended or history.records)[-1]


def _remark(history: History, record: CheckpointRecord, request: CheckpointsRequest) -> str:
    remarks = []
    if request.last and record.status is CheckpointStatus.FAILED:
        completed = [r.checkpoint for r in history.records if r.status is CheckpointStatus.COMPLETED]
        last = f"the last completed one is {completed[-1]} (--id {completed[-1]})" if completed else ""
        remarks.append(f"the newest checkpoint failed and is shown; {last or 'none completed'}")
    later = [r.checkpoint for r in history.records if r.checkpoint > record.checkpoint]
    if request.last and later:
        remarks.append(f"checkpoint {later[-1]} is in progress (--id {later[-1]})")
    return "; ".join(remarks)


def _facts(history: History, kept: KeptHistory, record: CheckpointRecord | None) -> str:
    facts = {"job": history.job, "job_name": history.job_name, "file": kept.where}
    shown = [
        {
            **plain(each),
            "size": each.size,
            "bytes_in_flight": each.bytes_in_flight,
            "unaligned": each.unaligned,
            "reason_text": each.reason_text,
        }
        for each in (history.records if record is None else [record])
    ]
    if record is None:
        return json.dumps({**facts, "checkpoints": shown}, indent=2)
    return json.dumps(
        {**facts, "checkpoint": shown[0], "slowest_path": plain(slowest_path(record))}, indent=2
    )


def _others(found: list[KeptHistory], shown: KeptHistory, request: CheckpointsRequest) -> str:
    others = [kept for kept in found if kept.job != shown.job]
    if not others or request.job is not None:
        return ""
    return f"\nthe newest job is shown; choose another with --job: {_named(others)}"


def _named(found: list[KeptHistory]) -> str:
    names = ", ".join(kept.job for kept in found[:_JOBS_NAMED])
    more = len(found) - _JOBS_NAMED
    return f"{names} and {more} more" if more > 0 else names
