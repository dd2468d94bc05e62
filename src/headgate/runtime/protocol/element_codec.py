"""Encodes the elements of a channel (batches and control events) as payloads of frames, and decodes them.

Rows of any class are encoded without loss, so that a result does not depend on whether two subtasks share a
process: plain values by the self-describing codec, values of the declared type by its serializer, records of
other classes with a reference to their class (`undeclared_rows.py`).

The payload of a batch::

    offset size
         0    4  number of records
         4    1  flags: 1 if the records have event time
         5    1  form of the rows: plain values, declared type, composite type, or field by field
         6    2  zero
         8       with event time: 8 bytes for each record, its timestamp; then 8 for each, its watermark
                 the rows in their form, or an Arrow IPC stream

All integers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, is_typeddict

import msgspec
import numpy as np
import pyarrow as pa

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import ProtocolError, UsageError
from headgate.common.process.process_exceptions import let_pass
from headgate.core.alignment.barriers import Alignment, SavepointOrder
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.arrow_stream import stream_of
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import (
    Barrier,
    CancelMarker,
    EndOfData,
    Event,
    Idle,
    Mark,
    Trace,
    Watermark,
)
from headgate.runtime.protocol.frames import FrameKind, Part
from headgate.runtime.protocol.mark_codec import decode_mark, encode_mark
from headgate.runtime.protocol.undeclared_rows import UndeclaredRows
from headgate.serde.codecs.dynamic import DynamicSerializer, NotPlainError
from headgate.serde.codecs.field_rows import field_rows
from headgate.serde.resolve import composite_serializer, record_serializer
from headgate.serde.serializer import TypeSerializer

_HEAD = struct.Struct("<IBB2x")
_TIMED = 1
_DYNAMIC, _TYPED, _COMPOSITE, _FIELDS = 0, 1, 2, 3
_NUMBER = struct.Struct("<q")
_TRACE = struct.Struct("<qqq")
_BARRIER = struct.Struct("<BqqqBqI")
_BARRIER_VERSION = 2
_ORDER: msgspec.msgpack.Decoder[SavepointOrder] = msgpack_decoder(SavepointOrder)
_ALIGNMENTS = list(Alignment)
_NO_TIMEOUT = -1


class ElementCodec:
    """The codec of one exchange (edge), for its senders and receivers; `record_type` is the declared type of
    its records, None: not known. `undeclared` encodes records that are neither of that type nor plain.
    """

    def __init__(self, record_type: Any = None, undeclared: UndeclaredRows | None = None) -> None:
        self._type = record_type
        # of records of the declared class; None where no class with fields is declared
        self.record_serializer: TypeSerializer[Any] | None = record_serializer(record_type)
        # A dict's class does not show the declared type.
        apart = self.record_serializer is None or is_typeddict(record_type)
        self._composite = composite_serializer(record_type) if apart else None
        self._fields = None if self.record_serializer is None else field_rows(record_type)
        self._dynamic = DynamicSerializer()
        self._undeclared = UndeclaredRows() if undeclared is None else undeclared
        self._slowness_reported = False

    def encode(self, element: Batch | Event) -> tuple[FrameKind, Sequence[Part]]:
        """Return kind and payload of the frame for an element; UsageError: a record cannot be pickled."""
        if isinstance(element, ArrowBatch):
            return FrameKind.COLUMNS, [*_head(element, 0), *stream_of(element.columns)]
        if isinstance(element, RowBatch):
            return self._encode_rows(element)
        return _encode_event(element)

    def decode(self, kind: FrameKind, payload: memoryview) -> Batch | Event:
        """Return a received frame's batch or event, unpickled if need be; ProtocolError if not possible."""
        try:
            if kind in (FrameKind.ROWS, FrameKind.PICKLED_ROWS, FrameKind.COLUMNS):
                return self._decode_batch(kind, payload)
            return _decode_event(kind, payload)
        except ProtocolError:
            raise
        except BaseException as error:  # Arrow, msgspec and pickle raise errors of all kinds
            let_pass(error)
            what = f"a {kind.name} frame of {len(payload)} bytes"
            raise ProtocolError(f"{what} does not decode: {error}") from error

    def encode_plain(self, batch: RowBatch) -> Sequence[Part]:
        """Return a batch as the payload of a ROWS frame, which never holds pickle.

        Raises NotPlainError: only pickle could encode it; UsageError: a record contains itself.
        """
        rows = batch.records
        if self.record_serializer is not None and set(map(type, rows)) == {self._type}:
            try:
                return [*_head(batch, _TYPED), self.record_serializer.encode_checked(rows)]
            except UsageError:
                pass  # Annotations are not enforced: a field holds a value of another type.
        return [*_head(batch, _DYNAMIC), self._dynamic.encode_many(rows)]

    def _encode_rows(self, batch: RowBatch) -> tuple[FrameKind, Sequence[Part]]:
        if self._fields is not None and set(map(type, batch.records)) == {self._type}:
            encoded = self._fields.encode(batch.records)
            if encoded is not None:
                return FrameKind.ROWS, [*_head(batch, _FIELDS), encoded]
        try:
            plain = self.encode_plain(batch)
            if self.record_serializer is not None and batch.records and type(batch.records[0]) is self._type:
                self._report_slowness()
            return FrameKind.ROWS, plain
        except NotPlainError:
            pass
        if self._composite is not None:
            try:
                encoded = self._composite.encode_checked(batch.records)
                if not isinstance(self._type, type) or is_typeddict(self._type):
                    self._report_slowness()
                return FrameKind.ROWS, [*_head(batch, _COMPOSITE), encoded]
            except UsageError:
                pass  # As above: a value is not of the declared type.
        return FrameKind.PICKLED_ROWS, [*_head(batch, _DYNAMIC), *self._undeclared.encode(batch.records)]

    def _report_slowness(self) -> None:
        if not self._slowness_reported:
            self._slowness_reported = True
            self._undeclared.report_once(self._type, pickled=False)

    def _decode_batch(self, kind: FrameKind, payload: memoryview) -> Batch:
        count, flags, form = _HEAD.unpack_from(payload)
        at, times, marks = _HEAD.size, None, None
        if flags & _TIMED:
            times = np.frombuffer(payload, np.int64, count, at)
            marks = np.frombuffer(payload, np.int64, count, at + 8 * count)
            at += 16 * count
        body = payload[at:]
        if kind is FrameKind.COLUMNS:
            with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
                columns = reader.read_next_batch()
            if columns.num_rows != count:
                raise ProtocolError(f"a frame announces {count} records but holds {columns.num_rows}")
            return ArrowBatch(columns, times, marks)
        if kind is FrameKind.PICKLED_ROWS:
            rows = self._undeclared.decode(body, count)
            if len(rows) != count:
                raise ProtocolError(f"a frame announces {count} records but holds {len(rows)}")
            return RowBatch(rows, times, marks)
        if form == _FIELDS and self._fields is not None:
            return RowBatch(self._fields.decode(body, count), times, marks)
        serializers = {_DYNAMIC: self._dynamic, _TYPED: self.record_serializer, _COMPOSITE: self._composite}
        serializer = serializers.get(form)
        if serializer is None:
            raise ProtocolError("the sender knows a record type that the receiver does not")
        return RowBatch(serializer.decode_many(body, count), times, marks)


def _head(batch: Batch, form: int) -> list[Part]:
    if batch.timestamps is None or batch.watermarks is None:
        return [_HEAD.pack(len(batch), 0, form)]
    times, marks = np.ascontiguousarray(batch.timestamps), np.ascontiguousarray(batch.watermarks)
    return [_HEAD.pack(len(batch), _TIMED, form), times.tobytes(), marks.tobytes()]


def _encode_event(event: Batch | Event) -> tuple[FrameKind, Sequence[Part]]:
    if isinstance(event, Watermark):
        return FrameKind.WATERMARK, [_NUMBER.pack(event.timestamp)]
    if isinstance(event, Barrier):
        return FrameKind.BARRIER, [_pack_barrier(event)]
    if isinstance(event, CancelMarker):
        return FrameKind.CANCEL, [_NUMBER.pack(event.checkpoint)]
    if isinstance(event, Mark):
        return FrameKind.MARK, [encode_mark(event)]
    if isinstance(event, Trace):
        return FrameKind.TRACE, [_TRACE.pack(event.number, event.sender, event.sent_us)]
    if isinstance(event, EndOfData):
        return FrameKind.END_OF_DATA, [_NUMBER.pack(event.last)]
    assert isinstance(event, Idle)
    return FrameKind.IDLE, []


def _pack_barrier(barrier: Barrier) -> bytes:
    order = b"" if barrier.savepoint is None else msgspec.msgpack.encode(barrier.savepoint)
    timeout_ms = _NO_TIMEOUT if barrier.timeout_ms is None else barrier.timeout_ms
    alignment = _ALIGNMENTS.index(barrier.alignment)
    fields = barrier.checkpoint, barrier.trigger_ms, timeout_ms, alignment, barrier.completed, len(order)
    return _BARRIER.pack(_BARRIER_VERSION, *fields) + order


def _unpack_barrier(payload: memoryview) -> Barrier:
    version, checkpoint, trigger_ms, timeout, alignment, completed, length = _BARRIER.unpack_from(payload)
    if version != _BARRIER_VERSION:
        raise ProtocolError(
            f"a barrier has version {version}, expected {_BARRIER_VERSION};"
            " run the same Headgate version on driver and workers"
        )
    order = payload[_BARRIER.size :]
    if len(order) != length:
        raise ProtocolError(f"a barrier announces an order of {length} bytes but has {len(order)}")
    timeout_ms = None if timeout == _NO_TIMEOUT else timeout
    savepoint = _ORDER.decode(order) if order else None
    return Barrier(checkpoint, trigger_ms, _ALIGNMENTS[alignment], timeout_ms, savepoint, completed)


def _decode_event(kind: FrameKind, payload: memoryview) -> Event:
    if kind is FrameKind.WATERMARK:
        return Watermark(*_NUMBER.unpack(payload))
    if kind is FrameKind.BARRIER:
        return _unpack_barrier(payload)
    if kind is FrameKind.CANCEL:
        return CancelMarker(*_NUMBER.unpack(payload))
    if kind is FrameKind.IDLE:
        return Idle()
    if kind is FrameKind.END_OF_DATA:
        return EndOfData(*_NUMBER.unpack(payload))
    if kind is FrameKind.MARK:
        return decode_mark(payload)
    if kind is FrameKind.TRACE:
        return Trace(*_TRACE.unpack(payload))
    raise ProtocolError(f"a {kind.name} frame came in where records or events were expected")
