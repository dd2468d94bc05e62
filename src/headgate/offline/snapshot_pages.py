"""What is in a snapshot, told by its metadata and the heads of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.in_flight_shares import old_parallelism, records_of
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState
from headgate.state.state_names import is_stamps
from headgate.state.stored.heads import StoredSection, sections_of


def describe_snapshot(uri: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """What is in a checkpoint or savepoint, as plain values; no class of the program is needed.

    Returns:
        ``uri``, ``kind``, ``format``, ``origin``, ``job``, ``job_name``, ``checkpoint``, ``time_ms``,
        ``max_parallelism``, ``size`` (bytes), ``operators`` and ``in_flight`` (records by receiver). An
        operator has ``uid``, ``parallelism``, ``size``, ``states``, ``lists`` and ``committables``; a state
        ``name``, ``type`` and
        ``entries``, which is None where only reading everything would tell.
    """
    with storage_options(options):
        disk, metadata = open_checkpoint(uri)
        return _described(uri, disk, metadata)


def _described(uri: str, disk: Disk, metadata: CheckpointMetadata) -> dict[str, Any]:
    operators = [
        _operator(disk, metadata, uid) for uid in sorted({*metadata.operators, *metadata.state_types})
    ]
    in_flight: dict[str, int] = {}
    for stream in metadata.in_flight:
        in_flight[stream.receiver] = in_flight.get(stream.receiver, 0) + records_of(stream)
    return {
        "uri": uri,
        "kind": metadata.kind,
        "format": metadata.format,
        "origin": metadata.origin,
        "job": metadata.job,
        "job_name": metadata.job_name,
        "checkpoint": metadata.checkpoint,
        "time_ms": metadata.trigger_ms,
        "max_parallelism": metadata.max_parallelism,
        "size": sum(operator["size"] for operator in operators),
        "operators": operators,
        "in_flight": {uid: count for uid, count in in_flight.items() if count},
    }


def _operator(disk: Disk, metadata: CheckpointMetadata, uid: str) -> dict[str, Any]:
    subtasks = metadata.operators.get(uid, [])
    told = metadata.state_types.get(uid, {})
    sections = [
        section for s in subtasks if s.keyed is not None for section in sections_of(DiskFiles(disk), s.keyed)
    ]
    names = dict.fromkeys([*told, *(section.name for section in sections)])
    states = [
        _state(name, told.get(name), [section for section in sections if section.name == name], subtasks)
        for name in names
        if not is_stamps(name)
    ]
    lists: dict[str, int] = {}
    for state in subtasks:
        for name, entries in state.list_state.items():
            lists[name] = lists.get(name, 0) + len(entries)
    return {
        "uid": uid,
        "parallelism": old_parallelism(metadata).get(uid),
        "size": sum(state.size() for state in subtasks),
        "states": [state for state in states if state["type"] != "timers" or state["entries"] != 0],
        "lists": lists,
        "committables": sum(len(state.committables) for state in subtasks),
    }


def _state(
    name: str,
    told: dict[str, Any] | None,
    sections: Sequence[StoredSection],
    subtasks: Sequence[OperatorSubtaskState],
) -> dict[str, Any]:
    if told is not None and told["kind"] in OPERATOR_STATE:
        held = [each.count for state in subtasks for each in state.operator_state if each.name == name]
        return {"name": name, "type": state_words(told), "entries": sum(held)}
    schema = told if told is not None else sections[0].schema
    known = [section.entries for section in sections if section.entries is not None]
    entries = sum(known) if len(known) == len(sections) else None
    return {
        "name": name,
        "type": "timers" if name in TIMER_SECTIONS else state_words(schema),
        "entries": entries,
    }
