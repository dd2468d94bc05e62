"""Describes what is in a snapshot, from its metadata, heads of files and, on request, keys; no program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NotRequired, TypedDict, TypeVar

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.keys.key_types import KEYS_READ, shape_words
from headgate.common.keys.keygroups import shortened
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.keyed_verdicts import StoredKeyed
from headgate.offline.storages import storage_options
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.restore.in_flight_shares import old_parallelism, records_of
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle, OperatorSubtaskState
from headgate.state.state_names import is_stamps
from headgate.state.stored.heads import StoredSection, sections_of, stored_keys, too_large

SAMPLES: Final = 10
"""Keys that are shown of each state."""
_KEY_CHARACTERS: Final = 120

K = TypeVar("K", bound=Hashable)


class StateFacts(TypedDict):
    """One state: type as text, entries (None: only reading all tells), `keys` only if asked for, as text."""

    name: str
    type: str
    entries: int | None
    keys: NotRequired[list[str]]


class OperatorFacts(TypedDict):
    """The stored state of one operator, `size` in bytes. `parallelism` None: not known. `lists`: name ->
    number of entries, of all subtasks, in a list that Headgate keeps, as of splits. Only keyed operators that
    come of `describe_with_keys` have `key_types` and `keys_read` (False: some files were too large to fetch
    for keys).
    """

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
    """Return the contents of a checkpoint or savepoint as values for JSON, without a program's classes.

    `options` are ``key=value`` settings of storages, such as keys of S3. StorageError: absent or damaged.
    """
    with storage_options(options):
        disk, metadata = open_checkpoint(uri)
        return _described(uri, disk, metadata)


def describe_with_keys(uri: str, options: Sequence[str] = (), samples: int = SAMPLES) -> SnapshotFacts:
    """Return the facts of :func:`describe_snapshot`, and facts about the keys.

    A keyed operator also has ``key_types``, the names of the types of its keys, and ``keys_read``: whether no
    subtask's files were too large to be fetched for its keys. Each of its states has ``keys``: the
    first `samples` ones as Python writes them, taken from the subtasks in turn.
    """
    with storage_options(options):
        disk, metadata = open_checkpoint(uri)
        facts = _described(uri, disk, metadata)
        for operator in facts["operators"]:
            stored = StoredKeyed(disk, metadata, operator["uid"])
            if stored.handles:
                operator["key_types"] = sorted(map(shape_words, stored.key_shapes))
                operator["keys_read"] = not any(map(too_large, stored.handles))
                _add_keys(operator["states"], disk, stored.handles, samples)
    return facts


def _described(uri: str, disk: Disk, metadata: CheckpointMetadata) -> SnapshotFacts:
    operators = [
        _operator(disk, metadata, uid) for uid in sorted({*metadata.operators, *metadata.state_types})
    ]
    in_flight = Counter[str]()
    for stream in metadata.in_flight:
        in_flight[stream.receiver] += records_of(stream)
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
    types = metadata.state_types.get(uid, {})
    sections = sections_of_operator(disk, metadata, uid)
    states = [
        _state(name, types.get(name), [section for section in sections if section.name == name], subtasks)
        for name in dict.fromkeys([*types, *(section.name for section in sections)])
        if not is_stamps(name)
    ]
    lists = Counter[str]()
    for state in subtasks:
        lists.update({name: len(entries) for name, entries in state.list_state.items()})
    return {
        "uid": uid,
        "parallelism": old_parallelism(metadata).get(uid),
        "size": sum(state.size() for state in subtasks),
        "states": [state for state in states if state["type"] != "timers" or state["entries"] != 0],
        "lists": dict(lists),
        "committables": sum(len(state.committables) for state in subtasks),
    }


def sections_of_operator(disk: Disk, metadata: CheckpointMetadata, uid: str) -> list[StoredSection]:
    """Return name, types and entry count of the keyed states and timers in each subtask; names repeat."""
    files = DiskFiles(disk)
    return [
        section
        for state in metadata.operators.get(uid, [])
        if state.keyed is not None
        for section in sections_of(files, state.keyed)
    ]


def _state(
    name: str,
    declared: Description | None,
    sections: Sequence[StoredSection],
    subtasks: Sequence[OperatorSubtaskState],
) -> StateFacts:
    if declared is not None and declared["kind"] in OPERATOR_STATE:
        held = [each.count for state in subtasks for each in state.operator_state if each.name == name]
        return {"name": name, "type": state_words(declared), "entries": sum(held)}
    schema = sections[0].schema if declared is None else declared
    known = [section.entries for section in sections if section.entries is not None]
    return {
        "name": name,
        "type": "timers" if name in TIMER_SECTIONS else state_words(schema),
        "entries": sum(known) if len(known) == len(sections) else None,
    }


def _add_keys(
    states: Sequence[StateFacts], disk: Disk, handles: Sequence[KeyedStateHandle], samples: int
) -> None:
    found: dict[str, list[list[Hashable]]] = {}
    for keyed in handles:
        for name, batches in stored_keys(DiskFiles(disk), keyed):
            found.setdefault(name, []).append(_first(chain.from_iterable(batches), samples))
    for state in states:
        if state["name"] in found:
            keys = _in_turn(found[state["name"]])[:samples]
            state["keys"] = [shortened(key, _KEY_CHARACTERS) for key in keys]


def _first(keys: Iterator[K], count: int) -> list[K]:
    found: dict[K, None] = {}
    for key in islice(keys, KEYS_READ):
        if len(found) >= count:
            break
        found[key] = None
    return list(found)


def _in_turn(parts: Sequence[Sequence[K]]) -> list[K]:
    longest = max(map(len, parts), default=0)
    turns = (part[place] for place in range(longest) for part in parts if place < len(part))
    return list(dict.fromkeys(turns))
