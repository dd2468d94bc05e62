"""The first records of a stream, told to the driver as they come: for a look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.api.sink import Sink, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T
from headgate.connectors.collected_records import DriverRecords, RecordPacker, packed_bytes, unpacked
from headgate.connectors.collection import rebuilt

if TYPE_CHECKING:
    import pyarrow as pa


def sample_sink(count: int, record_type: type | None = None, verb: str = "take") -> SampleSink:
    """A sink for the first `count` records that come, of whichever subtask; all others it ignores.

    They must be made as those of `collect_sink`. Nothing of them is in a checkpoint: after a failure some
    may be there twice.

    Args:
        count: how many are enough.
        record_type: what to rebuild records as.
        verb: what the user wrote, for messages.
    """
    return SampleSink(count, record_type, verb)


class SampleSink(Sink[T]):
    """See :func:`sample_sink`."""

    def __init__(self, count: int, record_type: type | None, verb: str) -> None:
        self.count, self.record_type, self._verb = count, record_type, verb
        self._sample: DriverRecords[T] = DriverRecords()

    @property
    def results(self) -> list[T]:
        """What has come, at most `count`; only meaningful in the driver."""
        found = self._sample.records[: self.count]
        return found if self.record_type is None else rebuilt(self.record_type, found)

    def told(self, data: bytes) -> bool:
        """Take what a writer told; whether it is enough now."""
        self._sample.records.extend(unpacked(data, self._sample.class_of))
        return len(self._sample.records) >= self.count

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[T]:
        return SampleWriter(context, self.count, self._verb)

    @override
    def describe(self) -> str:
        return "sample"


class SampleWriter(SinkWriter[T]):
    """Tells the first records at once: who looks does not wait for a checkpoint."""

    def __init__(self, context: SinkWriterContext, count: int, verb: str) -> None:
        self._tell, self._left, self._verb = context.tell, count, verb
        self._pack = RecordPacker(verb).pack

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if self._left <= 0:
            return
        first = records[: self._left]
        if hasattr(first, "to_pylist"):
            first = first.to_pylist()
        self._left -= len(first)
        if self._tell is not None and first:
            self._tell(packed_bytes([self._pack(record) for record in first], self._verb))

    @override
    def prepare_commit(self) -> list[Plain]:
        return []
