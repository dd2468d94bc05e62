"""Damaged files of a checkpoint are refused by their checksums, before anything decodes a byte of the damage.

Deserializers are watched: whatever they are given while a damaged file is read must be among what they were
given while the whole file was read. Of small files every bit is flipped, of larger ones one bit of every
byte; every file is cut at every length.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.data_files import DataFileWriter, StoredBytes, copy_handle, read_handle
from headgate.checkpoint.metadata import metadata_bytes as registry
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store import entries
from headgate.common.errors import StorageError
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.stored_parts import decode_elements
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.state.canonical.table_layout import table_info
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.snapshots import FileRange, Inline, OperatorStateHandle
from headgate.state.stored import blob_format
from headgate.state.stored.blob_format import BytesBlob
from headgate.testing.suites.value_checks import snapshot_blob
from proof import fuzz_files
from proof.fuzz_samples import Celsius, Point
from tests.stored_tables import SubtaskTables, Table, restored_tables

ALL_GROUPS = (0, fuzz_files.GROUPS - 1)

Seen = set[bytes]


class Watched:
    """Notes what deserializers are given."""

    def __init__(self) -> None:
        self.given: Seen = set()

    def around(self, decode: Callable[..., Any], at: int = 0) -> Callable[..., Any]:
        """The same function, watched; `at` is the place of the bytes among its arguments."""

        def watched(*args: Any, **options: Any) -> Any:
            self.given.add(bytes(args[at]))
            return decode(*args, **options)

        return watched


@pytest.fixture(scope="module")
def state_tables() -> list[bytes]:
    """Made before anything is watched."""
    return fuzz_files.state_tables()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Every deserializer that a stored file can reach, watched."""
    seen = Watched()
    for cls in (FormSerializer, DynamicSerializer, Celsius):
        monkeypatch.setattr(cls, "decode_many", seen.around(cls.decode_many, 1))
    monkeypatch.setattr(Celsius, "decode", seen.around(Celsius.decode, 1))
    monkeypatch.setattr(ElementCodec, "decode", seen.around(ElementCodec.decode, 2))
    for version, reader in registry.READERS.items():
        monkeypatch.setitem(registry.READERS, version, seen.around(reader))

    class Packed:
        """Stands before `msgspec` in the modules that decode with it."""

        msgpack = type(
            "msgpack", (), {**vars(msgspec.msgpack), "decode": seen.around(msgspec.msgpack.decode)}
        )

    monkeypatch.setattr(blob_format, "msgspec", Packed)
    decoder = type("Decoder", (), {"decode": staticmethod(seen.around(entries._decoder.decode))})
    monkeypatch.setattr(entries, "_decoder", decoder)
    monkeypatch.setattr(pq, "ParquetFile", lambda *_, **__: pytest.fail("Arrow was given a damaged file"))
    return seen


def every_bit(data: bytes) -> Iterator[bytes]:
    """Each bit flipped once."""
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]


def every_byte(data: bytes) -> Iterator[bytes]:
    """One bit of each byte flipped, each place of a bit in turn."""
    for at in range(len(data)):
        yield data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :]


def every_length(data: bytes) -> Iterator[bytes]:
    """Cut at every place, and too long by one."""
    yield from (data[:length] for length in range(len(data)))
    yield data + b"\0"


def every_cut(data: bytes) -> Iterator[bytes]:
    """Cut at every place."""
    return (data[:length] for length in range(len(data)))


def check_refused(
    data: bytes, read: Callable[[bytes], Any], watched: Watched, flipped: Callable[[bytes], Iterator[bytes]]
) -> None:
    """Every damaged form is refused, and no deserializer saw of it what was never written."""
    watched.given.clear()
    read(data)
    whole = frozenset(watched.given)
    assert whole, "nothing is decoded, so nothing is shown"
    for damages in (flipped, every_length):
        for place, damaged in enumerate(damages(data)):
            watched.given.clear()
            with pytest.raises(StorageError):
                read(damaged)
            assert watched.given <= whole, f"{damages.__name__} {place}"


# -- what has its checksum in itself


def test_metadata(watched: Watched) -> None:
    """Every bit of it."""
    (data,) = fuzz_files._metadata()
    check_refused(data, lambda found: registry.decode_metadata(found, "file"), watched, every_bit)


@pytest.mark.parametrize("kind", [0, 1])
def test_entries_of_the_log(kind: int, watched: Watched) -> None:
    """Every bit of a claim and of a completed checkpoint."""
    data = fuzz_files._entries()[kind]
    check_refused(data, lambda found: entries.decode_entry(found, "file"), watched, every_bit)


class Small:
    """A program whose state is a small blob."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    warm: hg.ValueState[float | None] = hg.value_state(default=None, serializer=Celsius())


def small_blob() -> bytes:
    """A state of a built-in serializer and one of the user's."""
    made = HeapKeyedBackend(declared_state(Small()), *ALL_GROUPS, fuzz_files.GROUPS)
    made._tables["count"].put("a", 2**70)
    made._tables["warm"].put("a", 21.5)
    return snapshot_blob(made.snapshot_sync())


def restored(program: object, data: bytes) -> None:
    """Restore a blob as a subtask does."""
    backend = HeapKeyedBackend(declared_state(program), *ALL_GROUPS, fuzz_files.GROUPS)
    backend.restore([BytesBlob(data)])


def test_keyed_state(watched: Watched) -> None:
    """A byte of each kind of a small blob, header and chunks; every bit in the slow tier."""
    check_refused(small_blob(), lambda found: restored(Small(), found), watched, every_byte)


@pytest.mark.proof
def test_keyed_state_bit_by_bit(watched: Watched) -> None:
    """Every bit of a small blob, every byte of one with all kinds of state."""
    check_refused(small_blob(), lambda found: restored(Small(), found), watched, every_bit)
    check_refused(
        fuzz_files.state_blob(), lambda found: restored(fuzz_files.Program(), found), watched, every_byte
    )


@pytest.mark.parametrize("kind", [0, 1])
def test_operator_state(kind: int, watched: Watched) -> None:
    """Every byte of a list and of a broadcast map."""
    data = fuzz_files._operator_blobs()[kind][2:]

    def read(found: bytes) -> None:
        handle: OperatorStateHandle = fuzz_files._HANDLES[kind]
        fuzz_files._operator_backend().restore([(handle, found)])

    check_refused(data, read, watched, every_byte)


# -- what the handle in the metadata has the checksum of


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    """Real files."""
    return LocalDisk(tmp_path / "storage")


def damaged_file(disk: LocalDisk, handle: FileRange, data: bytes) -> None:
    """Put other bytes in a file's place, as a failing disk would."""
    (Path(disk.describe().removeprefix("file://")) / handle.file).write_bytes(data)


def test_records_in_flight(disk: LocalDisk, watched: Watched) -> None:
    """Every byte of a file of several sections; each refuses its own damage and no other's."""
    parts = [fuzz_files._in_flight()[place] for place in (1, 3, 5)]
    handles = DataFileWriter(disk).write_sections("job/chk-1/in-flight", [[part] for part in parts])
    codec = ElementCodec(Point)
    whole = b"".join(parts)
    watched.given.clear()
    for handle in handles:
        decode_elements(read_handle(disk, handle), codec)
    known = frozenset(watched.given)
    assert len(known) > len(handles)
    for place, data in enumerate(every_byte(whole)):
        damaged_file(disk, handles[0], data)
        watched.given.clear()
        wrong = [handle for handle in handles if not readable(disk, handle, codec)]
        assert [(handle.offset <= place < handle.offset + handle.length) for handle in wrong] == [True], place
        assert watched.given <= known


def readable(disk: LocalDisk, handle: FileRange, codec: ElementCodec) -> bool:
    """Whether a section is what was written."""
    try:
        decode_elements(read_handle(disk, handle), codec)
    except StorageError:
        return False
    return True


def test_files_as_a_whole(disk: LocalDisk, tmp_path: Path) -> None:
    """A damaged blob is not opened, and a damaged file of a backend's own is never there under its name."""
    data = bytes(range(0, 256, 5))
    handle = DataFileWriter(disk).write("job/chk-1/table", [data])
    target = tmp_path / "000001.sst"
    copy_handle(disk, handle, target)
    assert target.read_bytes() == StoredBytes(disk, handle).read(0, len(data)) == data
    target.unlink()
    for damaged in (*every_byte(data), *list(every_length(data))[:-1]):
        damaged_file(disk, handle, damaged)
        with pytest.raises(StorageError, match=r"damaged|truncated"):
            copy_handle(disk, handle, target)
        with pytest.raises(StorageError, match=r"damaged|truncated"):
            StoredBytes(disk, handle)
        assert [path.name for path in tmp_path.iterdir()] == ["storage"]


@pytest.mark.parametrize("damages", [every_byte, every_cut])
def test_tables_of_state(
    damages: Callable[[bytes], Iterator[bytes]], state_tables: list[bytes], watched: Watched
) -> None:
    """No byte of a damaged table reaches Arrow, whose readers of Parquet are native code."""
    data = min(state_tables, key=len)
    checksum = crc32(data)
    for damaged in damages(data):
        table = Table("total", damaged, len(data), checksum)
        with pytest.raises(StorageError, match=r"damaged|truncated"):
            list(
                restored_tables(
                    [SubtaskTables(ALL_GROUPS, [table])], fuzz_files.declared(), ALL_GROUPS, fuzz_files.GROUPS
                )
            )


def test_what_follows_a_table_in_its_file_is_not_read(state_tables: list[bytes]) -> None:
    """The metadata tells where a table ends: a file that goes on after that restores as one that does not."""

    def contents(data: bytes, length: int) -> list[Any]:
        name = table_info(pq.ParquetFile(io.BytesIO(data[:length])).metadata.metadata).name
        table = Table(name, data, length, crc32(data[:length]))
        subtask = SubtaskTables(ALL_GROUPS, [table])
        return list(restored_tables([subtask], fuzz_files.declared(), ALL_GROUPS, fuzz_files.GROUPS))

    data = min(state_tables, key=len)
    assert contents(data + b"\0", len(data)) == contents(data, len(data)) != []


def test_inline_state_is_covered_by_the_metadata() -> None:
    """What is small enough lies in the metadata; there it has the checksums of the whole."""
    (data,) = fuzz_files._metadata()
    found = registry.decode_metadata(data, "file")
    assert any(
        isinstance(handle, Inline)
        for states in found.operators.values()
        for s in states
        for handle in s.handles()
    )
