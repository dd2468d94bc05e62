"""What an earlier subtask stored as keyed state, a chunk at a time: the base first, then the log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from headgate.checkpoint.data_files import StoredBytes
from headgate.common.errors import StorageError, UsageError
from headgate.common.ports import Disk
from headgate.offline.forms import MIGRATE, Form, Forms, PlainForms
from headgate.runtime.operators.stored_state import StoredNativeState, state_of_tables, stored_state
from headgate.state.backend import BlobReader
from headgate.state.canonical.layout import TIMER_SECTIONS
from headgate.state.changelog.sections import changed_name
from headgate.state.heap.blob import Section, read_chunks, read_header, split_chunk
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.targets import timers_target

_TIMERS: Final = timers_target()
TIMER_FORM: Final = Form(_TIMERS.serializer.decode_many, _TIMERS)


class Portion(NamedTuple):
    """Some entries of one state, or some of its keys that went.

    Attributes:
        state: its name; of timers "timers:event" or "timers:processing".
        form: how its values pass; None where keys went, of which nobody needs a value.
        removed: whether they went. Timers that went come with their timestamps.
        keys: one for each.
        values: one for each; nothing where `form` is None.
        size: bytes that they took in the snapshot.
    """

    state: str
    form: Form | None
    removed: bool
    keys: list[Any]
    values: list[Any]
    size: int


def portions(disk: Disk, keyed: KeyedStateHandle, forms: Forms, max_parallelism: int) -> Iterator[Portion]:
    """The entries of one subtask; later ones replace earlier ones of the same key.

    Args:
        disk: where they are.
        keyed: refers to them.
        forms: how the values pass.
        max_parallelism: number of key groups that they were stored with.

    Raises:
        StorageError: something is missing or damaged.
        UsageError: values cannot pass; names the state.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-offline-") as folder:
        base = _base(disk, keyed, forms, max_parallelism, Path(folder) / "native")
        yield from _of_blob(base, forms, (keyed.first_group, keyed.last_group))
        for segment in keyed.log:
            blob = StoredBytes(disk, segment)
            yield from _of_blob(blob, forms, (keyed.first_group, keyed.last_group))


def _base(
    disk: Disk, keyed: KeyedStateHandle, forms: Forms, max_parallelism: int, folder: Path
) -> BlobReader:
    if keyed.tables is not None:
        groups = keyed.first_group, keyed.last_group
        return state_of_tables(disk, keyed, None, groups, max_parallelism)
    stored = stored_state(disk, keyed)
    if not isinstance(stored, StoredNativeState):
        return stored
    from headgate.state.rocksdb.conversion import canonical_blob
    from headgate.state.rocksdb.native_files import details_of

    header, details = read_header(stored)[0], details_of(stored.native)
    older = [name for name, versions in details.versions.items() if versions.older]
    if older and isinstance(forms, PlainForms):
        raise UsageError(
            f"state {older[0]!r} holds values of older types, which were not rewritten yet; give {MIGRATE}"
        )
    schemas = {section.name: section.schema for section in header.sections if section.name in details.formats}
    return canonical_blob(stored, forms.targets(schemas), max_parallelism, folder)


def _of_blob(blob: BlobReader, forms: Forms, groups: tuple[int, int]) -> Iterator[Portion]:
    header, body = read_header(blob)
    for section in header.sections:
        went = changed_name(section.name)
        state = section.name if went is None else went
        timers = state in TIMER_SECTIONS
        if went is not None and not timers:
            form = None
        else:
            form = TIMER_FORM if timers else forms.form(section)
            if form is None:
                continue
        for chunk in section.chunks:
            if groups[0] <= chunk.group <= groups[1]:
                (part,) = read_chunks(blob, body, section, [chunk])
                yield _portion(section, state, form, went is not None, part, chunk.count)


def _portion(
    section: Section, state: str, form: Form | None, removed: bool, part: memoryview, count: int
) -> Portion:
    try:
        stored_keys, stored_values = split_chunk(part)
        keys = KEY_SERIALIZER.decode_many(stored_keys, count)
        values = [] if form is None else form.read(stored_values, count)
    except StorageError as error:
        raise StorageError(f"section {section.name!r}: {error}") from None
    except UsageError as error:
        raise UsageError(f"state {state!r} of the snapshot cannot be read: {error}") from None
    return Portion(state, form, removed, keys, values, len(part))
