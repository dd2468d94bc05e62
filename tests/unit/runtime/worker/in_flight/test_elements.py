"""Stored elements: each comes back as it was, without pickle, and damage is a StorageError."""

from __future__ import annotations

import dataclasses
import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row import Row
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Barrier, CancelMarker, EndOfData, Idle, Watermark
from headgate.runtime.worker.in_flight.stored_parts import (
    NotStorableError,
    check_records,
    decode_elements,
    describe_records,
    encode_elements,
)


@dataclasses.dataclass
class Point:
    x: int
    name: str


class Plain:
    """A class that declares nothing; it would tell if anybody pickled it."""

    def __reduce__(self) -> Any:
        raise AssertionError("pickled")


class Opened:
    """Unpickling one leaves a trace."""

    def __init__(self) -> None:
        RAN.append("unpickled")

    def __reduce__(self) -> Any:
        return Opened, ()


RAN: list[str] = []


def times(values: Sequence[int] | None) -> Any:
    """As in a batch."""
    return None if values is None else np.array(values, np.int64)


def rows(records: list[Any], stamps: list[int] | None = None, marks: list[int] | None = None) -> RowBatch:
    """Rows with their event times."""
    return RowBatch(records, times(stamps), times(marks))


def columns(data: dict[str, Any], stamps: list[int] | None = None, marks: list[int] | None = None) -> Any:
    """Columns with their event times."""
    return ArrowBatch(pa.RecordBatch.from_pydict(data), times(stamps), times(marks))


def shown(element: Any) -> Any:
    """Everything that must survive of an element, comparable and with types."""
    if isinstance(element, (Watermark, Idle)):
        return element
    both = [None if t is None else t.tolist() for t in (element.timestamps, element.watermarks)]
    if isinstance(element, ArrowBatch):
        return "columns", element.columns.schema, element.columns.to_pylist(), both
    return "rows", [(type(r), repr(r)) for r in element.records], both


def stored(elements: Sequence[Any], codec: ElementCodec, groups_of: Any = None) -> bytes:
    """The bytes of a part."""
    return b"".join(bytes(part) for part in encode_elements(elements, codec, groups_of)[0])


def groups_by_length(batch: Any) -> Any:
    """Key groups that a test can predict."""
    return (np.arange(len(batch)) * 7 + len(batch)) % 32_768


SCALARS = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.sampled_from([("a", "b"), ("b",), ("class", "", "a b")])


@st.composite
def batches(draw: st.DrawFn) -> Any:
    """A batch of any shape, with or without event times."""
    shape = draw(st.sampled_from(["plain", "typed", "views", "columns"]))
    size = draw(st.integers(0, 5))
    stamps = marks = None
    if draw(st.booleans()):
        stamps = draw(st.lists(NUMBERS, min_size=size, max_size=size))
        marks = sorted(draw(st.lists(NUMBERS, min_size=size, max_size=size)))
    if shape == "columns":
        data = {name: draw(st.lists(st.none() | NUMBERS, min_size=size, max_size=size)) for name in "ab"}
        made = pa.RecordBatch.from_pydict(data, pa.schema([("a", pa.int64()), ("b", pa.int64())]))
        return ArrowBatch(made, times(stamps), times(marks))
    each = {
        "plain": PLAIN,
        "typed": st.builds(Point, st.integers(), st.text()),
        "views": NAMES.flatmap(lambda names: st.tuples(*[PLAIN] * len(names)).map(lambda v: row(names, v))),
    }[shape]
    return rows(draw(st.lists(each, min_size=size, max_size=size)), stamps, marks)


def row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A row of its own."""
    return Row.of(**dict(zip(names, values, strict=True)))


ELEMENTS = st.lists(st.one_of(batches(), st.builds(Watermark, NUMBERS), st.just(Idle())), max_size=6)


@settings(max_examples=300)
@given(ELEMENTS, st.booleans(), st.booleans())
def test_elements_come_back_in_order_as_they_were(elements: list[Any], typed: bool, keyed: bool) -> None:
    """Records of every shape, event times, watermarks, and the key group of each record."""
    codec = ElementCodec(Point if typed else None)
    if not typed:
        points = [e for e in elements if isinstance(e, RowBatch) and any(type(r) is Point for r in e.records)]
        elements = [e for e in elements if all(e is not p for p in points)]
    groups_of = groups_by_length if keyed else None
    parts, records = encode_elements(elements, codec, groups_of)
    back = decode_elements(b"".join(bytes(part) for part in parts), codec)
    found = [element for element, _ in back]
    assert list(map(shown, elements)) == list(map(shown, found))
    sent = [e for e in elements if isinstance(e, (RowBatch, ArrowBatch))]
    assert records == sum(map(len, sent))
    groups = [g for _, g in back if g is not None]
    assert all(g.dtype == np.uint16 for g in groups)
    expected = [groups_by_length(batch).tolist() for batch in sent] if keyed else []
    assert [g.tolist() for g in groups] == expected


def test_views_of_columns_are_stored_without_their_columns() -> None:
    """Rows that a per-record function passed on come back as rows of their own, of both kinds of names."""
    views = columns({"n": [1, 2], "s": ["x", None]}).rows()
    batch = rows([*views, Row.of(other=(1, [2]))], [1, 2, 3], [0, 0, 0])
    (back, _), = decode_elements(stored([batch], ElementCodec()), ElementCodec())  # fmt: skip
    assert shown(back) == shown(batch)
    assert [list(r.keys()) for r in back.rows()] == [["n", "s"], ["n", "s"], ["other"]]  # type: ignore[union-attr]
    assert back.rows()[1].n == 2  # type: ignore[union-attr]


def test_the_bytes_are_frozen() -> None:
    """A part packed here by hand is what is written and what is read: stored parts outlive the program."""
    batch = rows([1, "a"], [5, 6], [3, 4])
    codec_payload = struct.pack("<IBB2x4q", 2, 1, 0, 5, 6, 3, 4) + b"\x00\x92\x01\xa1a"
    expected = (
        struct.pack("<BBHI", 1, 0, 0, 3)
        + struct.pack("<BBHIQ", 1, 1, 0, 2, len(codec_payload))
        + struct.pack("<HH", 2, 9)
        + codec_payload
        + struct.pack("<BBHIQq", 4, 0, 0, 0, 8, -7)
        + struct.pack("<BBHIQ", 5, 0, 0, 0, 0)
    )
    assert stored([batch, Watermark(-7), Idle()], ElementCodec(), groups_by_length) == expected
    back = decode_elements(expected, ElementCodec())
    assert [shown(element) for element, _ in back] == [shown(batch), Watermark(-7), Idle()]


CONTAINING_ITSELF: list[Any] = []
CONTAINING_ITSELF.append(CONTAINING_ITSELF)


@pytest.mark.parametrize(
    ("records", "names"),
    [
        ([1, Plain()], r"of class .*Plain cannot go"),
        ([{"deep": [(1, Plain())]}], r"of class dict, which holds a value of class .*Plain, cannot go"),
        ([Row.of(a=Plain())], r"which holds a value of class .*Plain, cannot go"),
        ([Point("text", "n")], r"of class .*Point cannot go"),
        ([Point(1, "a"), None], r"a batch from .* mixes records of NoneType and .*Point cannot go"),
        ([Point(1, "a"), Row.of(a=1)], r"a batch from .* mixes records of headgate.*Row and .*Point cannot"),
        ([lambda: None], r"of class function cannot go"),
        ([CONTAINING_ITSELF], r"of class list cannot go"),
    ],
    ids=["class", "inside", "field of a row", "misfit", "mixed", "row among others", "function", "itself"],
)
def test_what_only_pickle_could_carry_is_refused(records: list[Any], names: str) -> None:
    """The error names the class, the place and the ways out; nothing was pickled to find out."""
    with pytest.raises(NotStorableError, match=names) as caught:
        encode_elements([rows(records)], ElementCodec(Point), None, "from a[0] to b[1]")
    message = str(caught.value)
    assert " from a[0] to b[1] " in message
    assert "stored without pickle" in message
    assert "turn off execution.checkpointing.unaligned.enabled" in message
    assert isinstance(caught.value, UsageError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_pickle_is_never_read() -> None:
    """Whatever kind an element claims to be, pickled bytes in it are not run."""
    payload = struct.pack("<IBB2x", 1, 0, 0) + pickle.dumps([Opened()])
    pickle.loads(payload[8:])
    assert RAN.pop() == "unpickled"
    RAN.clear()
    for kind in range(256):
        head = struct.pack("<BBHIQ", kind, 0, 0, 1, len(payload))
        with pytest.raises(StorageError):
            decode_elements(struct.pack("<BBHI", 1, 0, 0, 1) + head + payload, ElementCodec())
    assert RAN == []


@pytest.mark.parametrize("element", [Barrier(1, 2), CancelMarker(1), EndOfData()], ids=repr)
def test_other_events_are_a_bug(element: Any) -> None:
    """Who gathers leaves out what is of this run only."""
    with pytest.raises(InternalError, match="is not stored"):
        encode_elements([element], ElementCodec(), None)


@pytest.mark.parametrize("groups", [[1], [1, 2, 3], [1, 65_536], [1, -1]], ids=repr)
def test_groups_that_do_not_fit_are_a_bug(groups: list[int]) -> None:
    """One group for each record, and none that its two bytes would change."""
    with pytest.raises(InternalError, match="are no key groups of 2 records"):
        encode_elements([rows([1, 2])], ElementCodec(), lambda batch: np.array(groups))


def part_of_everything() -> bytes:
    """A sound part with an element of every kind."""
    elements = [
        rows([1, "a"], [1, 2], [0, 0]),
        rows([Point(1, "x")]),
        rows([Row.of(a=1), Row.of(b=2)]),
        columns({"n": [1, 2], "s": ["x", None]}, [1, 2], [0, 1]),
        Watermark(5),
        Idle(),
    ]
    return stored(elements, ElementCodec(Point), groups_by_length)


def test_every_truncation_is_refused() -> None:
    """Cut anywhere, between elements too, or with bytes appended."""
    data, codec = part_of_everything(), ElementCodec(Point)
    assert len(decode_elements(data, codec)) == 6
    for length in range(len(data)):
        with pytest.raises(StorageError):
            decode_elements(data[:length], codec)
    with pytest.raises(StorageError):
        decode_elements(data + b"\0", codec)


@settings(max_examples=400)
@given(st.data())
def test_damage_raises_nothing_but_storage_errors(data: st.DataObject) -> None:
    """A checksum guards the bytes; what gets past it fails in our own words or reads as something."""
    damaged = bytearray(part_of_everything())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        back = decode_elements(bytes(damaged), ElementCodec(Point))
    except StorageError:
        return
    for element, groups in back:
        if isinstance(element, (RowBatch, ArrowBatch)):
            assert len(element.rows()) == len(element)
            assert groups is None or len(groups) == len(element)


def test_columns_are_checked_before_anybody_reads_them() -> None:
    """Offsets that lead out of their buffer would let Arrow read foreign memory."""
    data = stored([columns({"s": ["ab", "cd"]})], ElementCodec())
    offsets = struct.pack("<3i", 0, 2, 4)
    assert data.count(offsets) == 1
    with pytest.raises(StorageError, match="do not decode"):
        decode_elements(data.replace(offsets, struct.pack("<3i", 0, 2, 1 << 20)), ElementCodec())


def test_another_version_is_named() -> None:
    """A part of a later layout is refused with both versions."""
    with pytest.raises(StorageError, match="stored in version 2, this program reads 1"):
        decode_elements(struct.pack("<BBHI", 2, 0, 0, 0), ElementCodec())


def test_a_read_element_does_not_keep_the_part_in_memory() -> None:
    """Times and columns refer to bytes of their own element only."""
    big, small = columns({"b": [b"x" * 100_000]}), rows([1], [1], [0])
    (_, _), (back, _) = decode_elements(stored([big, small], ElementCodec()), ElementCodec())
    base: Any = back.timestamps  # type: ignore[union-attr]
    while not isinstance(base, bytes):
        base = base.obj if isinstance(base, memoryview) else base.base
    assert len(base) < 1_000


def test_records_of_an_unchanged_class_may_be_read() -> None:
    """No typed records, or the same description."""
    check_records(None, ElementCodec())
    check_records(None, ElementCodec(Point))
    check_records(describe_records(ElementCodec(Point)), ElementCodec(Point))
    assert describe_records(ElementCodec()) is None


def test_records_of_a_changed_class_are_refused() -> None:
    """With the difference, the place, and what to do."""
    described = {**(describe_records(ElementCodec(Point)) or {}), "version": 9}
    with pytest.raises(
        UsageError, match=r"from a to b in the .*\(version was 9 and is 1\).*aligned checkpoint"
    ):
        check_records(described, ElementCodec(Point), "from a to b")
    with pytest.raises(UsageError, match="declares no class of records there any more"):
        check_records(describe_records(ElementCodec(Point)), ElementCodec())
    with pytest.raises(UsageError, match="no description"):
        check_records(7, ElementCodec(Point))
