"""Arrays, columns and models as keyed state: what a snapshot holds, and what later changes do not reach."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.testing.suites.value_checks import snapshot_blob

pydantic = pytest.importorskip("pydantic")
GROUPS = 8
KEYS = [f"key{number}" for number in range(20)]
COLUMNS = pa.RecordBatch.from_pydict({"n": [1, None]})


class Note(pydantic.BaseModel):
    text: str
    tags: list[str] = pydantic.Field(default_factory=list)


class Everything:
    """A state of each new type."""

    sums: ValueState[NDArray[np.float64]] = value_state(default_factory=lambda: np.zeros(2))
    level: ValueState[np.float32] = value_state(default=np.float32(0))
    names: ListState[np.ndarray] = list_state()
    columns: MapState[str, pa.RecordBatch] = map_state()
    note: ValueState[Note | None] = value_state()


def backend() -> HeapKeyedBackend:
    """An empty one that owns every key group."""
    return HeapKeyedBackend(declared_state(Everything()), 0, GROUPS - 1, GROUPS)


def test_a_snapshot_holds_what_was_there_at_the_cut() -> None:
    """Every value comes back of its own type, and a change in place behind the cut is not in the snapshot."""
    running = backend()
    for number, key in enumerate(KEYS):
        running.bind(key)
        running.handles["sums"].value[0] += number
        running.handles["level"].value = np.float32(number) / 3
        running.handles["names"].add(np.array([key, "b"]))
        running.handles["columns"].put("k", COLUMNS)
        running.handles["note"].value = Note(text=key)
        running.store()
    pending = running.snapshot_sync()
    running.bind(KEYS[1])
    running.handles["sums"].value[0] = 99
    running.handles["note"].value.tags.append("late")
    running.store()

    restored = backend()
    restored.restore([snapshot_blob(pending)])
    for number, key in enumerate(KEYS):
        restored.bind(key)
        level = restored.handles["level"].value
        assert restored.handles["sums"].value.tolist() == [number, 0]
        assert (type(level), level) == (np.float32, np.float32(number) / 3)
        assert [array.tolist() for array in restored.handles["names"].get()] == [[key, "b"]]
        assert restored.handles["columns"].get("k").equals(COLUMNS)
        assert restored.handles["note"].value == Note(text=key)


def test_what_was_restored_can_be_changed_and_stored_again() -> None:
    """Restored arrays are writable, and the next snapshot holds the change."""
    blobs: list[bytes] = []
    for step in range(3):
        running = backend()
        running.restore(blobs)
        running.bind("a")
        running.handles["sums"].value[1] += 1
        running.store()
        assert running.handles["sums"].value[1] == step + 1
        blobs = [snapshot_blob(running.snapshot_sync())]
