"""What is in a snapshot, told by its metadata and the heads of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.in_flight_shares import old_parallelism, records_of
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState
from headgate.state.state_names import is_stamps
from headgate.state.stored.heads import StoredSection, sections_of


class StateFacts(TypedDict):
    """One state of an operator; `entries` is None where only reading everything would tell."""

    name: str
    type: str
    entries: int | None
    keys: NotRequired[list[str]]


class OperatorFacts(TypedDict):
    """The stored state of one operator; the last two only of keyed ones, from `describe_with_keys`."""

    uid: str
    parallelism: int | None
    size: int
    states: list[StateFacts]
    lists: dict[str, int]
    committables: int
    key_types: NotRequired[list[str]]
    keys_read: NotRequired[bool]


class SnapshotFacts(TypedDict):
    """What is in a snapshot; sizes in bytes, `in_flight` counts records by receiver."""

    uri: str
    kind: str
    format: str | None
    origin: str | None
    job: str
    job_name: str
    checkpoint: int
    time_ms: int
    max_parallelism: int
    size: int
    operators: list[OperatorFacts]
    in_flight: dict[str, int]


def describe_snapshot(uri: str, options: Sequence[str] = ()) -> SnapshotFacts:
    """What is in a checkpoint or savepoint, as plain values; no class of the program is needed."""
    with storage_options(options):
        disk, metadata = open_checkpoint(uri)
        return _described(uri, disk, metadata)


def _described(uri: str, disk: Disk, metadata: CheckpointMetadata) -> SnapshotFacts:
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


def _operator(disk: Disk, metadata: CheckpointMetadata, uid: str) -> OperatorFacts:
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
    told: Description | None,
    sections: Sequence[StoredSection],
    subtasks: Sequence[OperatorSubtaskState],
) -> StateFacts:
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
