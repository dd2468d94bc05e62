"""Reads the records in flight of an unaligned checkpoint without the classes of the program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headgate.checkpoint.data_files import read_handle
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.channels import PartReader
from headgate.serde.serializer import Buffer
from headgate.state.snapshots import InFlightStream
from headgate.state.stored.values import PlainSerializer


class Described(NamedTuple):
    """A record decoded without its class: the plain value, such as a row of fields, that its bytes hold."""

    plain: Any


class Records(NamedTuple):
    """Records in order, `Described` or plain values, their event times (ms) and key groups; None: none."""

    records: list[Any]
    timestamps: list[int] | None  # event time in ms; None: they have none
    groups: list[int] | None  # key groups, None: the channel is not keyed


class _Marking(PlainSerializer[Described]):
    """Serializer that wraps records in :class:`Described`, as the same stream may hold other ones."""

    def decode_many(self, data: Buffer, count: int) -> list[Described]:
        return list(map(Described, super().decode_many(data, count)))


class _DescribedCodec(ElementCodec):
    """Codec of stream elements that decodes records by their stored description alone."""

    def __init__(self, described: Description) -> None:
        super().__init__()
        self.record_serializer = _Marking(described)


def records_in_flight(disk: Disk, stream: InFlightStream, max_parallelism: int) -> Iterator[Records]:
    """Yield the records of an in-flight stream, batch by batch in their order; skip its other elements."""
    codec = ElementCodec() if stream.record_type is None else _DescribedCodec(stream.record_type)
    reader = PartReader(lambda _: codec, partial(read_handle, disk), max_parallelism)
    for part in stream.parts:
        for batch, groups in reader.elements(stream, part):
            if isinstance(batch, RowBatch | ArrowBatch) and len(batch):
                rows = list(batch.records) if isinstance(batch, RowBatch) else batch.columns.to_pylist()
                times = None if batch.timestamps is None else np.asarray(batch.timestamps).tolist()
                yield Records(rows, times, None if groups is None else groups.tolist())
