"""Windows are stored as maps or as columns, and read back alike."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from headgate.api.declared.keyed_states import MapState, declared_state
from headgate.api.tables.aggregation_state import windows_function
from headgate.common.errors import StorageError
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns import window_state
from headgate.runtime.worker.operators.columns.kept_rows import RowsView
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.window_state import WINDOWS, PendingWindows
from headgate.state.snapshots import Inline
from headgate.state.stored import blob_format
from headgate.state.stored.blob import BlobWriter, StoredBlob
from headgate.state.stored.blob_format import BytesBlob
from headgate.state.stored.column_chunks import ColumnChunk, layout_of, read_chunk, written_chunk
from headgate.state.stored.contract import SectionCodec
from headgate.state.targets import Target, target_of

GROUPS = 16


class Held(NamedTuple):
    """A record with a field of each type that windows may hold."""

    whole: int | None
    share: float | None
    text: str | None
    raw: bytes | None
    sure: bool | None
    exact: Decimal | None
    day: dt.date | None
    moment: dt.datetime | None


VALUES = pa.schema(
    {
        "whole": pa.int64(),
        "share": pa.float64(),
        "text": pa.string(),
        "raw": pa.binary(),
        "sure": pa.bool_(),
        "exact": pa.decimal128(38, 2),
        "day": pa.date32(),
        "moment": pa.timestamp("us", "UTC"),
    }
)
ODD = [
    (
        2**63 - 1,
        1.5,
        "ä\x00",
        b"\xff",
        True,
        Decimal("-1.25"),
        dt.date(9999, 12, 31),
        dt.datetime(1969, 1, 1, tzinfo=dt.UTC),
    ),
    (None, None, None, None, None, None, None, None),
    (
        -1,
        float("inf"),
        "",
        b"",
        False,
        Decimal("0.00"),
        dt.date(1, 1, 1),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4, dt.UTC),
    ),
]


def table(keys: dict[str, list[Any]], panes: list[int]) -> pa.Table:
    """Rows with odd values in turn."""
    rows = [dict(zip(VALUES.names, ODD[n % 3], strict=True)) for n in range(len(panes))]
    columns = {PANE: pa.array(panes, pa.int64())} | {name: pa.array(each) for name, each in keys.items()}
    values = pa.Table.from_pylist(rows, VALUES)
    return pa.table(columns | dict(zip(VALUES.names, values.columns, strict=True)))


def target(numbered: bool) -> Target:
    """How the state of a program holds them."""
    kind = MapState[tuple[int, int], Held] if numbered else MapState[int, Held]
    return target_of(declared_state(windows_function("W", kind))[WINDOWS])


class Values:
    """Decodes all states as this program has them."""

    advice, converts = "", False

    def __init__(self, target: Target) -> None:
        self._target = target

    def codec(self, _section: object) -> SectionCodec:
        return SectionCodec(self._target.serializer.decode_many, self._target)

    def targets(self, _stored: object) -> dict[str, Target]:
        return {WINDOWS: self._target}


def stored(rows: pa.Table, keys: tuple[str, ...], numbered: bool) -> tuple[bytes, Target]:
    """The blob of a subtask that owns all key groups."""
    of, kept = target(numbered), bytearray()
    grouping = None if numbered else Grouping(keys, ())
    pending = PendingWindows([RowsView([rows])], keys, grouping, of, (0, GROUPS - 1), GROUPS)

    def store(parts: Any) -> Any:
        kept.extend(b"".join(parts))
        return Inline(bytes(kept))

    pending.store_with(lambda groups, most: BlobWriter(groups, most, store))
    return bytes(kept), of


def read(data: bytes, of: Target) -> dict[int, dict[Any, Any]]:
    """Key group -> key -> map."""
    (section,) = StoredBlob(BytesBlob(data)).sections(Values(of), None)
    found: dict[int, dict[Any, Any]] = {}
    for entries in section.entries(range(GROUPS)):
        mine = found.setdefault(entries.group, {})
        for key, value in zip(entries.keys, entries.values, strict=True):
            assert key not in mine
            mine[key] = value
    return found


@pytest.fixture
def as_columns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few entries are stored as columns too."""
    monkeypatch.setattr(window_state, "COLUMNS_FROM", 1)
    return


KEYS: dict[str, dict[str, list[Any]]] = {
    "numbers": {"k": [n % 40 for n in range(120)]},
    "texts": {"k": [f"k{n % 40}" for n in range(120)]},
    "several": {
        "k": [f"k{n % 8}" for n in range(120)],
        "j": [dt.date(2024, 1, 1 + n % 5) for n in range(120)],
    },
}


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("kind", KEYS)
def test_both_forms_are_read_alike(kind: str, numbered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, panes and records of all types; with several rows of a key in a pane too."""
    panes = [n // 40 if not numbered else 5 for n in range(120)]
    rows = table(KEYS[kind], panes)
    before = read(*stored(rows, tuple(KEYS[kind]), numbered))
    monkeypatch.setattr(window_state, "COLUMNS_FROM", 1)
    data, of = stored(rows, tuple(KEYS[kind]), numbered)
    assert blob_format.read_header(BytesBlob(data))[0].sections[0].columns is not None
    assert read(data, of) == before
    records = [record for maps in before.values() for each in maps.values() for record in each.values()]
    assert all(isinstance(record, Held) for record in records)
    assert {tuple(record) for record in records} == set(ODD)


def test_damaged_columns_are_an_error(as_columns: None) -> None:
    """The checksum finds them; where it would not, they do not decode."""
    data, of = stored(table(KEYS["numbers"], [0] * 120), ("k",), False)
    broken = bytearray(data)
    broken[-5] ^= 1
    with pytest.raises(StorageError, match="is damaged in key group"):
        read(bytes(broken), of)
    header, body = blob_format.read_header(BytesBlob(data))
    (section,) = header.sections
    chunk = section.chunks[0]
    part = memoryview(data)[body + chunk.offset : body + chunk.offset + chunk.length]
    assert section.columns is not None
    for length in (0, 7, chunk.length // 2):
        with pytest.raises(StorageError, match="stored columns do not decode"):
            read_chunk(section.columns, part[:length])


@pytest.mark.parametrize("keys", [-1, 0, 10, 99])
def test_a_layout_that_does_not_fit_its_columns_is_an_error(as_columns: None, keys: int) -> None:
    """There are ten columns: at least one is of the key, and the one after these is the pane."""
    data, _ = stored(table(KEYS["numbers"], [0] * 120), ("k",), False)
    header, body = blob_format.read_header(BytesBlob(data))
    (section,) = header.sections
    chunk = section.chunks[0]
    part = memoryview(data)[body + chunk.offset : body + chunk.offset + chunk.length]
    assert section.columns is not None
    with pytest.raises(StorageError, match=f"stored columns do not decode .{keys} of 10 columns"):
        read_chunk(msgspec.structs.replace(section.columns, keys=keys), part)


def test_keys_that_cannot_be_keys_are_an_error() -> None:
    """Lists of a damaged or crafted blob."""
    columns = pa.table({"k": [[1]], PANE: [0]}).to_batches()[0]
    layout = layout_of(columns.schema, 1, numbered=False)
    with pytest.raises(StorageError, match="stored columns do not decode"):
        read_chunk(layout, memoryview(written_chunk(ColumnChunk(0, 1, columns))))


def test_programs_without_columns_refuse_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the version of the blob, which is the former one where no section has columns."""
    rows, at = table(KEYS["numbers"], [0] * 120), len(blob_format.MAGIC)
    former, _ = stored(rows, ("k",), False)
    monkeypatch.setattr(window_state, "COLUMNS_FROM", 1)
    data, _ = stored(rows, ("k",), False)
    assert [np.frombuffer(each[at : at + 4], "<u4")[0] for each in (former, data)] == [1, 2]
