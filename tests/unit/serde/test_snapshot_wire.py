"""The stored form of serializers' snapshots: what is written is read, damage is noticed."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.resolve import serializer_for
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes

WRITTEN = st.one_of(
    st.tuples(st.just("boolean"), st.booleans()),
    st.tuples(st.just("int"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("utf"), st.text(max_size=20)),
    st.tuples(st.just("bytes"), st.binary(max_size=20)),
)


@given(st.lists(WRITTEN, max_size=6), st.integers(0, 40))
@settings(max_examples=60)
def test_what_is_written_is_read_and_nothing_behind_it(written: list[tuple[str, Any]], cut: int) -> None:
    """Reading in the order of writing gives the same; cut bytes are damage, as is a read behind the end."""
    out = hg.DataOutputView()
    for kind, value in written:
        getattr(out, f"write_{kind}")(value)
    data = out.to_bytes()
    view = hg.DataInputView(data)
    assert [getattr(view, f"read_{kind}")() for kind, _ in written] == [value for _, value in written]
    assert view.remaining == 0
    with pytest.raises(StorageError, match="1 bytes are asked for, 0 are left"):
        view.read_boolean()
    if 0 < cut <= len(data):
        short = hg.DataInputView(data[:-cut])
        with pytest.raises(StorageError):
            [getattr(short, f"read_{kind}")() for kind, _ in written]


def test_a_damaged_length_takes_no_memory() -> None:
    """A length beyond what is left is refused before anything of that size is made."""
    with pytest.raises(StorageError, match="4294967295 bytes are asked for, 1 are left"):
        hg.DataInputView(b"\xff\xff\xff\xff.").read_bytes()
    with pytest.raises(StorageError, match="65535 bytes are asked for"):
        hg.DataInputView(b"\xff\xff.").read_utf()


@pytest.mark.parametrize(
    ("read", "data"), [("read_boolean", b"\x02"), ("read_utf", b"\x00\x01\xff")], ids=["boolean", "text"]
)
def test_bytes_that_mean_nothing_are_damage(read: str, data: bytes) -> None:
    """A boolean is 0 or 1, text is UTF-8."""
    with pytest.raises(StorageError, match="damaged"):
        getattr(hg.DataInputView(data), read)()


@pytest.mark.parametrize(
    ("write", "value"),
    [("write_int", 2**31), ("write_long", 2**63), ("write_int", "1"), ("write_double", "x"),
     ("write_utf", "x" * 65536), ("write_utf", "\ud800")],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused_when_it_is_written(write: str, value: Any) -> None:
    """Too many bits, the wrong type, text that is too long or cannot be encoded."""
    with pytest.raises(UsageError):
        getattr(hg.DataOutputView(), write)(value)


class Plain(hg.TypeSerializer[Any]):
    def encode(self, value: Any) -> bytes:
        raise NotImplementedError

    def decode(self, data: bytes) -> Any:
        raise NotImplementedError

    def snapshot(self) -> Any:
        return PlainSnapshot()


class PlainSnapshot(hg.SimpleTypeSerializerSnapshot[Any]):
    def __init__(self) -> None:
        super().__init__(Plain)


class BytesSnapshot(hg.TypeSerializerSnapshot[Any]):
    """Writes and reads what a test wants."""

    written = b""

    def current_version(self) -> int:
        return 5

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_int(1)
        out.write_bytes(self.written)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.read_version = read_version
        in_.read_int()
        self.written = in_.read_bytes()

    def restore_serializer(self) -> Any:
        raise NotImplementedError


class ShortSnapshot(BytesSnapshot):
    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        in_.read_int()


class RaisingSnapshot(BytesSnapshot):
    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        raise KeyError(read_version)


class NeedySnapshot(BytesSnapshot):
    def __init__(self, needed: int) -> None:
        self.needed = needed


class UnwritableSnapshot(BytesSnapshot):
    def write_snapshot(self, out: hg.DataOutputView) -> None:
        raise ValueError("no")


def test_g5_the_stored_version_is_handed_to_the_reader() -> None:
    """A snapshot's layout may evolve, so reading is told which one it is."""
    found: Any = snapshot_from_bytes(snapshot_to_bytes(BytesSnapshot()))
    assert found.read_version == 5


@pytest.mark.parametrize(
    ("snapshot", "error", "why"),
    [
        (ShortSnapshot(), StorageError, "left 4 bytes of version 5 of its layout unread"),
        (RaisingSnapshot(), StorageError, "does not read version 5 of its layout .KeyError: 5"),
        (NeedySnapshot(1), UsageError, "cannot be made without arguments"),
    ],
)
def test_a_class_that_does_not_read_what_it_wrote(snapshot: Any, error: type[Exception], why: str) -> None:
    """Bytes left over, any exception, and a constructor with arguments."""
    with pytest.raises(error, match=why):
        snapshot_from_bytes(snapshot_to_bytes(snapshot))


def test_an_exception_while_writing_names_the_class() -> None:
    """The user's own exception is the cause."""
    with pytest.raises(UsageError, match=r"UnwritableSnapshot cannot be written \(ValueError: no"):
        snapshot_to_bytes(UnwritableSnapshot())


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [None, 7, [1, 2], OrderedDict(a=1), Decimal], ids=repr)
@pytest.mark.parametrize("around", [(b"", b""), (b"head\x80\x04", b"tail")], ids=["alone", "inside"])
def test_g21_pickled_objects_are_refused(protocol: int, value: Any, around: tuple[bytes, bytes]) -> None:
    """Of every protocol with a head, also where other bytes stand around them."""
    snapshot = BytesSnapshot()
    snapshot.written = around[0] + pickle.dumps(value, protocol) + around[1]
    with pytest.raises(UsageError, match="writes a pickled object"):
        snapshot_to_bytes(snapshot)


@pytest.mark.parametrize("data", [b"\x80\x04", b"\x80\x02.", b"\x80\x05abc", b"text.", bytes(range(256))])
def test_g21_other_bytes_are_not_taken_for_pickle(data: bytes) -> None:
    """The two bytes of the head alone say nothing."""
    snapshot = BytesSnapshot()
    snapshot.written = data
    found: Any = snapshot_from_bytes(snapshot_to_bytes(snapshot))
    assert found.written == data


def versioned(name: str, version: int, body: bytes) -> bytes:
    """The stored form of a snapshot, made by hand."""
    out = hg.DataOutputView()
    out.write_int(2)
    out.write_utf(name)
    out.write_int(version)
    out.write_bytes(body)
    return out.to_bytes()


def test_g23_a_simple_snapshot_reads_two_layouts() -> None:
    """The empty one, and the older one with a name that is skipped; others are refused."""
    name = f"{__name__}.PlainSnapshot"
    assert snapshot_to_bytes(PlainSnapshot()) == versioned(name, 3, b"")
    for version, body in ((3, b""), (2, b"\x00\x03abc")):
        assert type(snapshot_from_bytes(versioned(name, version, body))) is PlainSnapshot
    for version in (1, 4):
        with pytest.raises(StorageError, match=f"was stored in version {version} of its layout"):
            snapshot_from_bytes(versioned(name, version, b""))


COMPOSITE = snapshot_to_bytes(ListSerializer(Plain()).snapshot())
BODY = len(COMPOSITE) - len(versioned(f"{__name__}.PlainSnapshot", 3, b"")) + 4
"""Where the nested snapshot begins."""


@pytest.mark.parametrize(
    ("from_end", "value", "why"),
    [
        (20, 911109, "its mark is 911109, expected 911108"),
        (12, 1333246, "the mark of the nested snapshots is 1333246, expected 1333245"),
        (8, 2, "the version of the nested snapshots is 2, expected 1"),
        (4, -1, "-1 nested snapshots"),
        (4, 2**31 - 1, "2147483647 nested snapshots"),
        (24, 7, "left unread|is damaged"),
        (28, 4, "the version of its layout is 4, expected 3"),
    ],
)
def test_g23_marks_and_versions_of_a_composite_are_checked(from_end: int, value: int, why: str) -> None:
    """Each number of the layout but the outer version, changed in place."""
    at = BODY - from_end
    damaged = COMPOSITE[:at] + value.to_bytes(4, "big", signed=True) + COMPOSITE[at + 4 :]
    with pytest.raises(StorageError, match=why):
        snapshot_from_bytes(damaged)


def test_another_form_and_bytes_behind_it_are_refused() -> None:
    """The version of the form, and its end."""
    with pytest.raises(StorageError, match="is stored in form 3; this Headgate reads 2"):
        snapshot_from_bytes(b"\x00\x00\x00\x03" + COMPOSITE[4:])
    with pytest.raises(StorageError, match="1 bytes follow it"):
        snapshot_from_bytes(COMPOSITE + b".")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no.such.module.Snapshot", "the snapshot class that stored values were written with is missing"),
        (f"{__name__}.Gone", "has no Gone; keep it, or mark .* @hg.formerly"),
        ("decimal.Context", "is no TypeSerializerSnapshot"),
        (f"{__name__}.COMPOSITE", "is no TypeSerializerSnapshot"),
        ("", "cannot be found"),
    ],
)
def test_a_class_that_cannot_be_found_is_the_users_error(name: str, why: str) -> None:
    """A module or class that is gone, and a name of something else."""
    with pytest.raises(UsageError, match=why):
        snapshot_from_bytes(versioned(name, 1, b""))


STORED = [
    snapshot_to_bytes(snapshot)
    for snapshot in (
        MapSerializer(Plain(), serializer_for(list[int])).snapshot(),
        serializer_for(dict[str, int]).snapshot(),
        BytesSnapshot(),
    )
]


@given(st.sampled_from(STORED), st.integers(0, 400), st.integers(0, 255), st.integers(0, 5))
@settings(max_examples=150)
def test_damage_is_one_of_two_errors(stored: bytes, at: int, byte: int, cut: int) -> None:
    """One byte changed and some cut off: an error of ours, or a snapshot; never another exception."""
    data = bytearray(stored)
    data[at % len(data)] = byte
    try:
        found = snapshot_from_bytes(bytes(data[: len(data) - cut]))
    except (StorageError, UsageError):
        return
    assert isinstance(found, hg.TypeSerializerSnapshot)
