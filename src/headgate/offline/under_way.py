"""Records in flight of an unaligned checkpoint, a part at a time, without the classes of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import StorageError
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.stored_parts import KeyGroups, decode_elements
from headgate.serde.serializer import Buffer
from headgate.state.snapshots import InFlightStream
from headgate.state.stored.values import PlainSerializer


class Described(NamedTuple):
    """A record of the class that its stream declares, as the plain value of its description."""

    plain: Any


class Records(NamedTuple):
    """Some records of a stream, in order.

    Attributes:
        records: each is a :class:`Described`, or a plain value of Python.
    """

    records: list[Any]
    timestamps: list[int] | None
    groups: list[int] | None


class _Marking(PlainSerializer[Described]):
    """Tells records of the described type from those that are not, which the same stream may hold."""

    def decode_many(self, data: Buffer, count: int) -> list[Described]:
        """The records."""
        return list(map(Described, super().decode_many(data, count)))


class _DescribedCodec(ElementCodec):
    """One that knows a type of records by its stored description alone."""

    def __init__(self, described: Description) -> None:
        super().__init__()
        self._typed = _Marking(described)


def records_in_flight(disk: Disk, stream: InFlightStream) -> Iterator[Records]:
    """The records of one channel."""
    codec = ElementCodec() if stream.record_type is None else _DescribedCodec(stream.record_type)
    for part in stream.parts:
        try:
            elements = decode_elements(read_handle(disk, part.handle), codec)
        except StorageError as error:
            raise StorageError(
                f"records in flight from {stream.sender!r} to {stream.receiver!r}: {error}"
            ) from None
        for element, groups in elements:
            if isinstance(element, RowBatch | ArrowBatch) and len(element):
                yield _records(element, groups)


def _records(batch: RowBatch | ArrowBatch, groups: KeyGroups | None) -> Records:
    rows = list(batch.records) if isinstance(batch, RowBatch) else batch.columns.to_pylist()
    times = batch.timestamps
    return Records(
        rows,
        None if times is None else np.asarray(times).tolist(),
        None if groups is None else groups.tolist(),
    )
