"""A program with every kind of state, random contents for it, and its way into tables and back."""

from __future__ import annotations

import datetime as dt
import enum
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zlib import crc32

from hypothesis import strategies as st

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.serde.resolve import serializer_for
from headgate.state.canonical.table_layout import TableInfo
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.stored.blob_format import BytesBlob, read_header
from headgate.state.targets import Target, target_of
from headgate.testing.suites.value_checks import snapshot_blob
from tests.stored_tables import SubtaskTables, Table, restored_tables, write_tables

GROUPS = 16
ALL = (0, GROUPS - 1)


class Colour(enum.Enum):
    RED = 1


@dataclass
class Visit:
    page: str
    count: int
    extra: Any = None


class Mean(hg.AggregateFunction[float, tuple[int, float], float]):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: float, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]


class Everything:
    """One state of every kind, with types that have a column, that have none, and that have one in part."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    last: hg.ValueState[Visit | None] = hg.value_state(default=None)
    free: hg.ValueState[Any] = hg.value_state()
    seen: hg.ListState[str] = hg.list_state()
    mixed: hg.ListState[int | str] = hg.list_state()
    counts: hg.MapState[str, int] = hg.map_state()
    visits: hg.MapState[dt.date, Visit] = hg.map_state()
    colours: hg.MapState[Colour, list[int]] = hg.map_state()
    most: hg.ReducingState[float] = hg.reducing_state(max)
    mean: hg.AggregatingState[float, float] = hg.aggregating_state(Mean())


STATES = declared_state(Everything())
INT = serializer_for(int)
TIMERS = dict.fromkeys(
    ("timers:event", "timers:processing"), Target({"kind": "timers", "of": [INT.describe()]}, INT)
)


def targets_of(states: Any) -> dict[str, Target]:
    """What a program declares under each section's name."""
    return {name: target_of(descriptor) for name, descriptor in states.items()} | TIMERS


INTS = st.integers(-5, 5) | st.sampled_from([2**63 - 1, 2**63, 2**70]) | st.booleans()
TEXT = st.sampled_from(["", "a", "żółw", "\ud800", "b" * 40])
VISITS = st.builds(Visit, TEXT, INTS, st.none() | INTS | st.tuples(TEXT, INTS))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "total": INTS,
    "last": st.none() | VISITS,
    "free": st.none() | INTS | st.lists(TEXT, max_size=2) | st.tuples(INTS),
    "seen": st.lists(TEXT, max_size=4),
    "mixed": st.lists(INTS.filter(lambda value: type(value) is int) | TEXT, max_size=4),
    "counts": st.dictionaries(TEXT, INTS, max_size=3),
    "visits": st.dictionaries(st.dates(), VISITS, max_size=3),
    "colours": st.dictionaries(st.sampled_from(Colour), st.lists(INTS, max_size=2), max_size=1),
    "most": st.floats(),
    "mean": st.tuples(st.integers(0, 3), st.floats()),
}
KEYS = st.one_of(
    st.integers(-20, 20),
    st.sampled_from(["a", "b", "\ud800", b"\x00", True, 0.5, 2**70, dt.date(2024, 1, 1), UUID(int=7), ()]),
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC])),
)
Entry = tuple[str, Any, Any]
ENTRIES: st.SearchStrategy[list[Entry]] = st.lists(
    st.sampled_from([*VALUES, "timers:event", "timers:processing"]).flatmap(
        lambda name: st.tuples(st.just(name), KEYS, VALUES.get(name, st.integers(-(2**62), 2**62)))
    ),
    max_size=30,
)


def fill(made: Any, entries: Iterable[Entry]) -> Any:
    """Put entries into a backend, as a restore does."""
    for name, key, value in entries:
        if name == "timers:event":
            made.event_timers.register(value, key)
        elif name == "timers:processing":
            made.processing_timers.register(value, key)
        else:
            made._tables[name].put(key, value)
    return made


def blob_of(made: Any) -> bytes:
    """The bytes of a snapshot."""
    return snapshot_blob(made.snapshot_sync())


def heap(
    entries: Iterable[Entry] = (), groups: tuple[int, int] = ALL, states: Any = STATES
) -> HeapKeyedBackend:
    """A heap backend with entries in it."""
    made: HeapKeyedBackend = fill(HeapKeyedBackend(states, *groups, GROUPS), entries)
    return made


class Written:
    """The tables of a blob: what was told of each, and its bytes."""

    def __init__(self, blob: bytes, targets: Any = None, rows: int = 65_536) -> None:
        header, _ = read_header(BytesBlob(blob))
        self.groups = header.first_group, header.last_group
        self._streams: dict[str, io.BytesIO] = {}
        self.tables = write_tables(blob, self._create, targets, rows=rows)
        self.infos: dict[str, TableInfo] = {table.info.name: table.info for table in self.tables}
        self.files = {name: stream.getvalue() for name, stream in self._streams.items()}
        for table in self.tables:
            data = self.files[table.info.name]
            assert (table.length, table.crc32) == (len(data), crc32(data))

    def _create(self, name: str) -> io.BytesIO:
        assert name not in self._streams
        self._streams[name] = io.BytesIO()
        return self._streams[name]

    def stored(self) -> SubtaskTables:
        """As a savepoint's metadata would have them."""
        return SubtaskTables(
            self.groups,
            [
                Table(table.info.name, self.files[table.info.name], table.length, table.crc32)
                for table in self.tables
            ],
        )


def restored(written: Sequence[Written], groups: tuple[int, int] = ALL, states: Any = STATES) -> list[Entry]:
    """The entries of tables."""
    sections = restored_tables([one.stored() for one in written], targets_of(states), groups, GROUPS)
    return [
        (name, key, value) for name, keys, values in sections for key, value in zip(keys, values, strict=True)
    ]
