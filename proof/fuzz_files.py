"""Targets of the fuzzing: readers of the files of checkpoints, with checksums made right again.

What is damaged by chance is refused by its checksum, which `tests/compat` shows. Here the bytes behind it get
the checksum that they need, so that what decodes them has to see for itself.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import BROADCAST, SPLIT, OperatorStateDescriptor
from headgate.checkpoint.history_file import History, decode_history, encode_history
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata, encode_metadata
from headgate.checkpoint.store.entries import Claim, Completed, Entry, decode_entry, encode_entry
from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.format_config import differences, fingerprint
from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    SubtaskRecord,
    Topology,
    VertexFacts,
)
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row import make_row
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.stored_parts import (
    check_records,
    decode_elements,
    encode_elements,
)
from headgate.serde.resolve import serializer_for
from headgate.state.canonical.table_layout import METADATA_KEY, table_info
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.rocksdb.key_bytes import key_of, storage_key
from headgate.state.rocksdb.native_files import ROCKSDB, details_of
from headgate.state.snapshots import (
    CheckpointMetadata,
    InFlightPart,
    InFlightStream,
    Inline,
    KeyedStateHandle,
    NativeFiles,
    OperatorStateHandle,
    OperatorSubtaskState,
    StateHandle,
)
from headgate.state.stored.blob_format import BytesBlob, Chunk, Header, preamble_and_header
from headgate.state.targets import Target as StateTarget
from headgate.state.targets import target_of
from headgate.testing.suites.value_checks import snapshot_blob
from proof.fuzz_samples import NOON, PLAIN, VISIT, Celsius, Point, Visit
from proof.fuzz_target import Target
from tests.stored_tables import SubtaskTables, restored, restored_tables, table_of, write_tables

GROUPS = 8
WHERE = "fuzzed bytes"


# -- metadata, log, history


def _metadata() -> list[bytes]:
    files: dict[str, StateHandle] = {"CURRENT": Inline(b"x"), "000001.sst": Inline(b"")}
    native = NativeFiles(ROCKSDB, files, {"checkpoint": 3, "formats": {"n": 1}})
    keyed = KeyedStateHandle(0, 3, Inline(b"blob"), 4, native)
    points = OperatorStateHandle("points", SPLIT, {"kind": SPLIT, "of": []}, Inline(b""), 0)
    subtask = OperatorSubtaskState(
        "count", keyed, {"splits": [["a", 1]]}, [{"file": "x"}], -1, None, [points]
    )
    stream = InFlightStream(
        "count", "read", None, 0, 1, keyed=True, parts=[InFlightPart(Inline(b"p"), 1, 1)],
        record_type=serializer_for(Point).describe(),
    )  # fmt: skip
    whole = CheckpointMetadata(
        "job", "name", 3, 1, 2, 1_700_000_000_000, 128, fingerprint(), {"count": 2}, {"count": [subtask]},
        {"read": {"next": 5}}, {"count": {"n": serializer_for(Visit).describe()}}, {"count": (1, 2)},
        [stream], {"read": [0]},
    )  # fmt: skip
    return [encode_metadata(whole)]


_META_HEAD = struct.Struct(">8sHQI32s")


def _read_metadata(data: bytes) -> Any:
    head, body = data[: _META_HEAD.size], data[_META_HEAD.size :]
    if len(head) == _META_HEAD.size:
        head = head[:10] + struct.pack(">QI", len(body), crc32(body)) + hashlib.sha256(body).digest()
    found = decode_metadata(head + body, WHERE)
    differences(found.format_fingerprint)
    for state in (one for subtasks in found.operators.values() for one in subtasks):
        if state.keyed is not None and state.keyed.native is not None:
            details_of(state.keyed.native)
    for stream in found.in_flight:
        check_records(stream.record_type, ElementCodec(Point))
    return found


_LOG_HEAD = struct.Struct(">6sHII")


def _entries() -> list[bytes]:
    entries: list[Entry] = [Claim(1, ""), Completed(1, "a" * 64, 7, "job/chk-7/_metadata", "b" * 64)]
    return [encode_entry(entry) for entry in entries]


def _read_entry(data: bytes) -> Any:
    head, body = data[: _LOG_HEAD.size], data[_LOG_HEAD.size :]
    if len(head) == _LOG_HEAD.size:
        head = head[:8] + struct.pack(">II", len(body), crc32(body))
    return decode_entry(head + body, WHERE)


def _history() -> list[bytes]:
    topology = Topology((VertexFacts(0, "read", ("read",), 1),), ())
    record = CheckpointRecord(
        1, 1, "periodic", CheckpointStatus.COMPLETED, 5, topology, 9, 8, (SubtaskRecord(0, 0, 3),), ((0, 1),)
    )
    return [encode_history(History("job", "name", (record,)))]


# -- keyed state


class Program:
    """A state of every kind."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    last: hg.ValueState[Visit | None] = hg.value_state(default=None)
    free: hg.ValueState[Any] = hg.value_state()
    seen: hg.ListState[str] = hg.list_state()
    waits: hg.MapState[str, Point] = hg.map_state()
    most: hg.ReducingState[float] = hg.reducing_state(max)
    warm: hg.ValueState[float | None] = hg.value_state(default=None, serializer=Celsius())
    warmest: hg.ListState[float] = hg.list_state(serializer=Celsius())


CONTENTS: dict[str, dict[Any, Any]] = {
    "total": {1: 5, "text": 2**70},
    "last": {"a": VISIT, "b": None},
    "free": {("a", 1): PLAIN},
    "seen": {NOON: ["x", "\ud800"], 2.5: []},
    "waits": {b"k": {"a": Point(1), "b": Point(2, 3.5)}},
    "most": {0.5: float("-inf")},
    "warm": {"a": 21.5},
    "warmest": {"a": [1.5, 2.5], "b": []},
}


@lru_cache(maxsize=1)
def state_blob() -> bytes:
    """All contents and some timers as one stored blob."""
    made = HeapKeyedBackend(declared_state(Program()), 0, GROUPS - 1, GROUPS)
    for name, entries in CONTENTS.items():
        for key, value in entries.items():
            made._tables[name].put(key, value)
    made.event_timers.register(1000, "a")
    made.processing_timers.register(2**40, ("b", 1))
    return snapshot_blob(made.snapshot_sync())


@lru_cache(maxsize=1)
def declared() -> dict[str, StateTarget]:
    """What the program declares, timers included."""
    targets = {name: target_of(descriptor) for name, descriptor in declared_state(Program()).items()}
    ints = serializer_for(int)
    timers = StateTarget({"kind": "timers", "of": [ints.describe()]}, ints)
    return targets | dict.fromkeys(("timers:event", "timers:processing"), timers)


_BLOB_HEAD = struct.Struct("<8sIQI")


def with_checksums(data: bytes) -> bytes:
    """A damaged blob whose header and chunks have the checksums of their bytes, as far as it has any."""
    if len(data) < _BLOB_HEAD.size:
        return data
    magic, version, length, _ = _BLOB_HEAD.unpack_from(data)
    body_at = _BLOB_HEAD.size + min(length, len(data))
    header, body = data[_BLOB_HEAD.size : body_at], data[body_at:]
    try:
        found = msgspec.msgpack.decode(header, type=Header)
    except UNDECODABLE:
        return _BLOB_HEAD.pack(magic, version, len(header), crc32(header)) + header + body
    sections = [
        msgspec.structs.replace(section, chunks=[_right(chunk, body) for chunk in section.chunks])
        for section in found.sections
    ]
    whole = msgspec.structs.replace(found, sections=sections, body_length=len(body))
    return preamble_and_header(whole) + body


def _right(chunk: Chunk, body: bytes) -> Chunk:
    start = max(0, chunk.offset)
    return msgspec.structs.replace(chunk, crc32=crc32(body[start : start + max(0, chunk.length)]))


def _read_blob(data: bytes) -> Any:
    blob = BytesBlob(with_checksums(data))
    return list(restored([blob], declared(), (0, GROUPS - 1), GROUPS))


# -- tables


@lru_cache(maxsize=1)
def state_tables() -> list[bytes]:
    """The contents as Parquet files."""
    streams: dict[str, io.BytesIO] = {}
    write_tables(state_blob(), lambda name: streams.setdefault(name, io.BytesIO()), declared())
    return [stream.getvalue() for stream in streams.values()]


def _table_columns() -> list[bytes]:
    """The same as columns of Arrow: in a Parquet file every page has a checksum, and Arrow guards its own."""
    found = []
    for file in state_tables():
        parquet = pq.ParquetFile(io.BytesIO(file))
        told = {METADATA_KEY: parquet.metadata.metadata[METADATA_KEY.encode()]}
        table = parquet.read().replace_schema_metadata(told)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found.append(sink.getvalue().to_pybytes())
    return found


def _read_table(data: bytes) -> Any:
    sink = io.BytesIO()
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        told = table.schema.metadata or {}
        with pq.ParquetWriter(sink, table.schema.remove_metadata()) as writer:
            writer.write_table(table.replace_schema_metadata(None))
            writer.add_key_value_metadata(told)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StorageError(f"no table: {error}") from None
    file = sink.getvalue()
    try:
        name = table_info(told).name
    except StorageError:  # the restore must find that out by itself
        name = "total"
    subtask = SubtaskTables((0, GROUPS - 1), [table_of(name, file)])
    return list(restored_tables([subtask], declared(), (0, GROUPS - 1), GROUPS))


# -- operator state


_POINTS = OperatorStateDescriptor("points", SPLIT, (Visit,), (None,))
_RULES = OperatorStateDescriptor("rules", BROADCAST, (str, Any), (None, None))
_HANDLES = (
    OperatorStateHandle(
        "points", SPLIT, {"kind": SPLIT, "of": [serializer_for(Visit).describe()]}, Inline(b""), 2
    ),
    OperatorStateHandle(
        "rules", BROADCAST,
        {"kind": BROADCAST, "of": [serializer_for(str).describe(), serializer_for(Any).describe()]},
        Inline(b""), 2,
    ),
)  # fmt: skip
_OPERATOR_HEAD = struct.Struct("<8sIQ")


def _operator_backend() -> OperatorStateBackend:
    return OperatorStateBackend({"points": _POINTS, "rules": _RULES})


def _operator_blobs() -> list[bytes]:
    backend = _operator_backend()
    backend.handles["points"].update([VISIT, VISIT])
    for place, key in enumerate("ab"):
        backend.handles["rules"].put(key, PLAIN[: 4 * place])
    blobs: list[bytes] = []

    def keep(parts: list[bytes]) -> Inline:
        blobs.append(b"".join(parts))
        return Inline(blobs[-1])

    backend.snapshot_sync().store(keep)
    return [bytes((place, 2)) + blob for place, blob in enumerate(blobs)]


def _read_operator_state(data: bytes) -> Any:
    head, count = data[:2].ljust(2, b"\0")
    blob, start = data[2:], _OPERATOR_HEAD.size
    if len(blob) >= start + 4:
        preamble = blob[:12] + struct.pack("<Q", len(blob) - start - 4)
        body = blob[start + 4 :]
        blob = preamble + struct.pack("<I", crc32(body, crc32(preamble))) + body
    backend = _operator_backend()
    backend.restore([(msgspec.structs.replace(_HANDLES[head % 2], count=count), blob)])
    return backend


# -- records in flight


def _batches_in_flight() -> list[Any]:
    stamps, marks = np.array([5, 6]), np.array([1, 2])
    return [
        RowBatch([Point(1), Point(2, 3.5)], stamps, marks),
        RowBatch(PLAIN[:6], None, None),
        RowBatch([make_row(("a", "b"), (1, "x")), make_row(("c",), (2,))], None, None),
        ArrowBatch(pa.record_batch({"a": [1, None], "b": ["x", "y"]}), stamps, marks),
        Watermark(77),
        Idle(),
    ]


def _in_flight() -> list[bytes]:
    def groups_of(batch: Any) -> Any:
        return np.arange(len(batch), dtype=np.uint16)

    codec, batches = ElementCodec(Point), _batches_in_flight()
    inputs: list[tuple[list[Any], Callable[[Any], Any] | None]] = [
        (batches, groups_of),
        *(([batch], None) for batch in batches),
    ]
    return [
        b"".join(bytes(part) for part in encode_elements(elements, codec, groups)[0])
        for elements, groups in inputs
    ]


def _read_in_flight(data: bytes) -> Any:
    return decode_elements(data, ElementCodec(Point))


# -- RocksDB


def _rocks_keys() -> list[bytes]:
    return [storage_key(key, 128) for key in (1, "a", ("b", 2.5), NOON, b"\x00")]


TARGETS = [
    Target("metadata", (StorageError, UsageError), _metadata, _read_metadata),
    Target("log of completed checkpoints", (StorageError,), _entries, _read_entry),
    Target("history", (StorageError,), _history, lambda data: decode_history(data, WHERE)),
    # A header may claim key groups that others have, or that nobody has: that is told as a fault of ours.
    Target("keyed state", (StorageError, UsageError, InternalError), lambda: [state_blob()], _read_blob),
    Target("tables of state", (StorageError, UsageError, InternalError), _table_columns, _read_table),
    Target("operator state", (StorageError, UsageError), _operator_blobs, _read_operator_state),
    Target("records in flight", (StorageError,), _in_flight, _read_in_flight),
    Target("keys in RocksDB", (StorageError,), _rocks_keys, key_of),
]
