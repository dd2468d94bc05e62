"""What is the heap backend's own: tables that loops use, copies at the cut, and where damage is.

What all backends have in common is tested by `test_suites_backends.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.common.errors import StorageError
from headgate.common.keys.keygroups import key_group
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.heap.handles import HeapMapState, HeapTable
from headgate.state.stored.blob_format import BytesBlob, read_header
from headgate.testing.suites.backend.states import GROUPS, STATES, touch
from headgate.testing.suites.value_checks import snapshot_blob


def backend(first: int = 0, last: int = GROUPS - 1) -> HeapKeyedBackend:
    """An empty backend with a state of every kind."""
    return HeapKeyedBackend(STATES, first, last, GROUPS)


def blob_of(made: HeapKeyedBackend) -> bytes:
    """The bytes of a snapshot."""
    return snapshot_blob(made.snapshot_sync())


def test_immutable_handle_fits_the_generated_loop() -> None:
    """Slots value, table and default are all that a loop needs, and its table is the backend's own."""
    made = backend()
    handle: Any = made.handles["count"]
    assert tuple(sorted(handle.__slots__, key="value table default key".index)) == (
        "value",
        "table",
        "default",
        "key",
    )
    for key in "aba":
        before = handle.value = handle.table.get(key, handle.default)
        handle.value += 1
        if handle.value is not before:
            handle.table[key] = handle.value
    assert handle.table == {"a": 2, "b": 1}
    restored = backend()
    table = restored.handles["count"].table
    restored.restore([blob_of(made)])
    assert table == {"a": 2, "b": 1}


@pytest.mark.parametrize("frozen", [False, True])
def test_maps_of_many_keys_are_read_and_emptied(frozen: bool) -> None:
    """As key by key: a snapshot that is being written keeps what it has, and empty maps have no entry."""
    table = HeapTable(dict)
    handle: Any = HeapMapState(table)
    for key in "abc":
        handle.bind(key)
        handle.put(1, key)
        handle.put(2, key)
    layers, ticket = table.freeze() if frozen else ((), 0)
    assert handle.of_keys("ax") == [{1: "a", 2: "a"}, {}]
    handle.remove_of_keys("abcx", [[1], [2, 1], [], []])
    assert dict(table.entries) == {"a": {2: "a"}, "c": {1: "c", 2: "c"}}
    assert layers == (({key: {1: key, 2: key} for key in "abc"},) if frozen else ())
    table.thaw(ticket)


def test_values_are_copied_once_per_snapshot_and_not_without() -> None:
    """A value is copied at its first access after the cut, kept then, and left alone afterwards."""
    made = backend()
    basket: Any = made.handles["basket"]
    basket.bind("a")
    original = basket.value
    pending = made.snapshot_sync()
    copied = basket.value
    assert copied is not original
    assert copied is basket.value
    pending.release()
    pending.release()
    assert copied is basket.value
    snapshot_blob(made.snapshot_sync())
    assert copied is basket.value


def filled() -> HeapKeyedBackend:
    """A backend with a few keys in every state."""
    made = backend()
    for number, key in enumerate(["a", "b", 3, (4, "x")], 1):
        touch(made, key, number)
    return made


def test_damage_names_its_section_and_key_group() -> None:
    """The message says which state of which key group is damaged, and in which bytes."""
    blob = blob_of(filled())
    header, body = read_header(BytesBlob(blob))
    for section in header.sections:
        chunk = section.chunks[-1]
        damaged = bytearray(blob)
        damaged[body + chunk.offset] ^= 1
        place = f"bytes {body + chunk.offset} to {body + chunk.offset + chunk.length} of"
        with pytest.raises(
            StorageError, match=rf"section '{section.name}' .* key group {chunk.group}.* {place} "
        ):
            backend().restore([bytes(damaged)])


def test_only_the_wanted_key_groups_are_read() -> None:
    """A subtask reads the header and its own chunks, so damage elsewhere does not concern it."""
    blob = blob_of(filled())
    header, body = read_header(BytesBlob(blob))
    group = key_group("a", GROUPS)
    foreign = next(chunk for chunk in header.sections[0].chunks if chunk.group != group)
    damaged = bytearray(blob)
    damaged[body + foreign.offset] ^= 1
    made = backend(group, group)
    made.restore([bytes(damaged)])
    assert "a" in made._tables["count"].entries
