"""What a snapshot has to read, and of which types it is: told by its metadata and the heads of its files."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from headgate.checkpoint.layout import TIMERS_FOLDER, from_folder
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import UsageError
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import TIMER_SECTIONS, TIMERS
from headgate.state.changelog.sections import removed
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle
from headgate.state.state_names import STAMPS, is_stamps
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.heads import sections_of
from headgate.state.stored.subtask_state import StoredState
from headgate.state.stored.tables import head_of_table
from headgate.state.stored.values import TAKE_CANONICAL, PlainValues
from headgate.stateprocessor.reading.reading_options import IN_FLIGHT, Asked
from headgate.stateprocessor.reading.reading_shape import Shape, timers_shape

# -- what there is


def nothing_chosen(disk: Disk, metadata: CheckpointMetadata, asked: Asked) -> UsageError:
    """What to raise where a read names nothing that there is: it lists everything."""
    there = contents(disk, metadata)
    listed = "; ".join(f"{uid!r}: {', '.join(states)}" for uid, states in there.items() if states)
    if asked.uid is None or asked.state is None:
        lacking = " and ".join(n for n, v in (("uid", asked.uid), ("state", asked.state)) if v is None)
        what = f"option {lacking} is missing"
    elif not there.get(asked.uid):
        what = f"{asked.path} has no state of an operator {asked.uid!r}"
    else:
        what = f"{asked.path} has no state {asked.state!r} of operator {asked.uid!r}"
    return UsageError(f"{what}; there is {listed or 'no state in it'}")


def contents(disk: Disk, metadata: CheckpointMetadata) -> dict[str, list[str]]:
    """Operator uid -> what the option `state` may be for it, each with its type in words."""
    uids = {*metadata.operators, *metadata.state_types, *(s.receiver for s in metadata.in_flight)}
    return {uid: _of_operator(disk, metadata, uid) for uid in sorted(uids)}


def _of_operator(disk: Disk, metadata: CheckpointMetadata, uid: str) -> list[str]:
    subtasks = metadata.operators.get(uid, [])
    sections = [
        section for s in subtasks if s.keyed is not None for section in sections_of(DiskFiles(disk), s.keyed)
    ]
    told = metadata.state_types.get(uid, {})
    names = dict.fromkeys([*told, *(section.name for section in sections)])
    schemas = {section.name: section.schema for section in sections} | told
    found = [
        f"{_as_option(name)} ({state_words(schemas[name])})"
        for name in names
        if not is_stamps(name) and name not in TIMER_SECTIONS
    ]
    if any(section.name in TIMER_SECTIONS and section.entries != 0 for section in sections):
        found.append(TIMERS_FOLDER)
    if any(stream.receiver == uid and stream.parts for stream in metadata.in_flight):
        found.append(IN_FLIGHT)
    return found


def _as_option(name: str) -> str:
    """What the option `state` is for a state of this name: as its folder in a savepoint, where it differs."""
    return "%74imers" if name == TIMERS_FOLDER else name


# -- of which types it is


def keyed_shape(
    disk: Disk, handles: Sequence[KeyedStateHandle], option: str, told: Mapping[str, Description]
) -> Shape | None:
    """The columns of a keyed state, or of all timers; None: there is no such state. `told` has the
    descriptions in the metadata by name of the state.
    """
    if option == TIMERS_FOLDER:
        keyed = any(True for handle in handles for _ in handle.handles())
        return timers_shape(_key_type(disk, handles, [TIMERS, *TIMER_SECTIONS])) if keyed else None
    name = from_folder(option) if option == _as_option(TIMERS_FOLDER) else option
    stored = list(_stored_schemas(disk, handles, name))
    schemas = [schema for found, schema in stored if found == name]
    for schema in schemas:
        if schema != schemas[0]:
            raise UsageError(
                f"state {name!r} holds values of several types, because it was not rewritten yet to what the "
                "last program declares; take a canonical savepoint and read that"
            )
    if not schemas and (name not in told or told[name]["kind"] in OPERATOR_STATE):
        return None
    stamps = next((found for found, _ in stored if _stamps_of(found, name)), None)
    schema = schemas[0] if schemas else told[name]
    return Shape(name, schema, _key_type(disk, handles, [name]), stamps)


def _stored_schemas(
    disk: Disk, handles: Sequence[KeyedStateHandle], name: str
) -> Iterator[tuple[str, Description]]:
    """Names and types of what is stored of a state, and of its stamps, where it holds something."""
    for handle in handles:
        for table in handle.tables or ():
            if table.name == name or _stamps_of(table.name, name):
                yield table.name, head_of_table(DiskFiles(disk), table).info.schema
        native = set() if handle.native is None else set(handle.native.details.get("formats", ()))
        for stored in () if handle.tables is not None else (handle.handle, *handle.log):
            for section in StoredBlob(DiskFiles(disk).ranges(stored)).header.sections:
                mine = section.name == name or _stamps_of(section.name, name)
                if mine and (section.chunks or section.name in native):
                    yield section.name, section.schema


def _stamps_of(name: str, state: str) -> bool:
    return is_stamps(name) and name.startswith(f"{state}{STAMPS}")


def _key_type(disk: Disk, handles: Sequence[KeyedStateHandle], names: Sequence[str]) -> Description | None:
    """The type of the first key that is stored of some sections; None where no column holds it."""
    for handle in handles:
        for table in handle.tables or ():
            if table.name in names and (info := head_of_table(DiskFiles(disk), table).info).key is not None:
                return info.key
    blobs = [handle for handle in handles if handle.tables is None]
    for handle in blobs:
        key = _first_key(disk, handle, names)
        if key is not None:
            return key_description(key[0])
    # RocksDB's files have to be fetched for it, so those of the subtask that has least.
    for handle in sorted((each for each in blobs if each.native), key=lambda handle: handle.size):
        with StoredState(DiskFiles(disk), handle) as stored:
            for chunk in stored.chunks(PlainValues(TAKE_CANONICAL), names):
                return key_description(chunk.keys[0])
    return None


def _first_key(disk: Disk, handle: KeyedStateHandle, names: Sequence[str]) -> tuple[Hashable] | None:
    """The first key in blobs, in the base or behind it."""
    wanted = [name for state in names for name in (state, removed(state))]
    for stored in (handle.handle, *handle.log):
        blob = StoredBlob(DiskFiles(disk).ranges(stored))
        for section in blob.header.sections:
            if section.name in wanted:
                groups = [chunk.group for chunk in section.chunks[:1]]
                for found in blob.entries(section, None, groups):
                    return (found.keys[0],)
    return None
