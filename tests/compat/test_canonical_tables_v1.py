"""Tables of state as version 1 of the format wrote them are restored for ever.

The files were made once, by `write_files`, and are not made again: another version gets files of its own.
"""

from __future__ import annotations

import datetime as dt
import enum
import io
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.serde.resolve import serializer_for
from headgate.state.canonical.writer import WrittenTable
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.targets import Target, target_of
from headgate.testing.suites.value_checks import snapshot_blob
from tests.stored_tables import SubtaskTables, Table, restored_tables, write_tables

FOLDER = Path(__file__).with_name("data") / "canonical" / "v1"
GROUPS = 8
WARSAW = dt.timezone(dt.timedelta(hours=2), "CEST")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Visit:
    page: str
    at: dt.datetime
    price: Decimal
    user: UUID | None = None
    tags: tuple[str, ...] = ()
    extra: Any = None


class Mean(hg.AggregateFunction[float, tuple[int, float], float]):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: float, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]


class Program:
    total: hg.ValueState[int] = hg.value_state(default=0)
    last: hg.ValueState[Visit | None] = hg.value_state(default=None)
    free: hg.ValueState[Any] = hg.value_state()
    seen: hg.ListState[str] = hg.list_state()
    waits: hg.MapState[Colour, list[dt.timedelta]] = hg.map_state()
    most: hg.ReducingState[float] = hg.reducing_state(max)
    mean: hg.AggregatingState[float, float] = hg.aggregating_state(Mean())


NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 10, tzinfo=WARSAW)
VISIT = Visit("/a", NOON, Decimal("1.50"), UUID(int=7), ("x", "y"), {1})
CONTENTS: dict[str, dict[Any, Any]] = {
    "total": {1: 5, 2: -(2**63), 3: 2**70, False: 7, "text": 8},
    "last": {"a": VISIT, "b": None, "c": Visit("\ud800", dt.datetime(1, 1, 1), Decimal("NaN"))},
    "free": {("a", 1): (1, [2.5]), ("b", 2): {"k": b"\x00"}},
    "seen": {dt.date(2024, 5, 6): ["x", "\ud800", "y"], dt.date(1, 1, 1): []},
    "waits": {b"k": {Colour.BLUE: [dt.timedelta(days=-1, microseconds=1)], Colour.RED: []}},
    "most": {0.5: float("-inf"), 1.5: -0.0},
    "mean": {UUID(int=1): (3, 4.5)},
    "timers:event": {"a": 1000, "b": -1000},
    "timers:processing": {"a": 2**62},
}


def state() -> bytes:
    """The contents as a stored blob."""
    made = HeapKeyedBackend(declared_state(Program()), 0, GROUPS - 1, GROUPS)
    timers = {"timers:event": made.event_timers, "timers:processing": made.processing_timers}
    for name, entries in CONTENTS.items():
        for key, value in entries.items():
            if name in timers:
                timers[name].register(value, key)
            else:
                made._tables[name].put(key, value)
    return snapshot_blob(made.snapshot_sync())


def written() -> tuple[list[WrittenTable], dict[str, io.BytesIO]]:
    """The contents as tables of today."""
    streams: dict[str, io.BytesIO] = {}
    tables = write_tables(state(), lambda name: streams.setdefault(name, io.BytesIO()))
    return tables, streams


def write_files(folder: Path) -> None:
    """Make the files of a version."""
    tables, streams = written()
    folder.mkdir(parents=True)
    index = {}
    for table in tables:
        file = table.info.name.replace(":", "-") + ".parquet"
        (folder / file).write_bytes(streams[table.info.name].getvalue())
        index[file] = {"length": table.length, "crc32": table.crc32}
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


NAMES = {"timers-all.parquet": "timers:all"}


def stored() -> list[Table]:
    """The files of version 1, and what is known of them besides."""
    index = json.loads((FOLDER / "index.json").read_text())
    return [
        Table(NAMES.get(file, file.removesuffix(".parquet")), (FOLDER / file).read_bytes(), **known)
        for file, known in index.items()
    ]


def restored(groups: tuple[int, int]) -> dict[str, dict[Any, Any]]:
    """What a program of today restores from them."""
    ints = serializer_for(int)
    targets = {name: target_of(descriptor) for name, descriptor in declared_state(Program()).items()}
    timers = Target({"kind": "timers", "of": [ints.describe()]}, ints)
    targets |= dict.fromkeys(("timers:event", "timers:processing"), timers)
    found: dict[str, dict[Any, Any]] = {}
    for name, keys, values in restored_tables(
        [SubtaskTables((0, GROUPS - 1), stored())], targets, groups, GROUPS
    ):
        found.setdefault(name, {}).update(zip(keys, values, strict=True))
    return found


def told(contents: dict[str, dict[Any, Any]]) -> dict[str, list[str]]:
    """Contents as texts that tell classes apart."""
    return {name: sorted(map(repr, entries.items())) for name, entries in contents.items()}


def test_version_1_is_restored() -> None:
    """Every kind of state and of key; values of the same classes."""
    assert told(restored((0, GROUPS - 1))) == told(CONTENTS)


@pytest.mark.parametrize("split", [1, 5])
def test_version_1_is_restored_in_parts(split: int) -> None:
    """By two subtasks, each of which takes its key groups."""
    low, high = restored((0, split - 1)), restored((split, GROUPS - 1))
    both = {name: {**low.get(name, {}), **high.get(name, {})} for name in CONTENTS}
    assert told(both) == told(CONTENTS)


def test_what_is_written_today_is_version_1() -> None:
    """The same columns, rows and description: else the format has changed and needs a new version."""
    tables, streams = written()
    assert {table.info.name.replace(":", "-") + ".parquet" for table in tables} == {
        path.name for path in FOLDER.glob("*.parquet")
    }
    for table in tables:
        file = FOLDER / (table.info.name.replace(":", "-") + ".parquet")
        today = pq.read_table(streams[table.info.name])
        assert today.equals(pq.read_table(file)), table.info.name
        assert json.loads(pq.read_metadata(file).metadata[b"headgate.state"]) == json.loads(table.info.text())
