"""A sink that discards records and keeps only their number, exactly once; for benchmarks and tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T
from headgate.connectors.committed import DriverResults, writer_name

if TYPE_CHECKING:
    import pyarrow as pa


def discard_sink() -> CountingSink:
    """Return a sink that discards its records and counts them, exactly once.

    Example:
        >>> sink = discard_sink()
        >>> writer = sink.create_writer(SinkWriterContext("s", 0, 1, 1, "job"), [])
        >>> writer.write(["a", "b"]); sink.create_committer().commit(writer.prepare_commit())
        >>> sink.count, sink.counts
        (2, {0: 2})
    """
    return CountingSink()


class Counts(DriverResults):
    """Number of committed records per subtask, kept in the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.by_subtask: Counter[int] = Counter()


class CountedBatch(TypedDict):
    """Committable of a counting sink: how many records one writer got between two checkpoints."""

    writer: str  # its name, which no other writer has in any job or attempt
    sequence: int  # number of this batch among the writer's, from 0
    subtask: int  # the writer's
    count: int  # records in the batch


class CountingSink(Sink[T, CountedBatch]):
    """Sink that discards records and counts the committed ones; made by :func:`discard_sink`."""

    def __init__(self) -> None:
        self._counts = Counts()

    @property
    def count(self) -> int:
        """Number of records committed so far; filled in the driver only."""
        return sum(self._counts.by_subtask.values())

    @property
    def counts(self) -> dict[int, int]:
        """Number of committed records per subtask; filled in the driver only."""
        return dict(sorted(self._counts.by_subtask.items()))

    @override
    def create_writer(
        self, context: SinkWriterContext, restored: Sequence[Plain]
    ) -> SinkWriter[T, CountedBatch]:
        return CountingWriter(context)

    @override
    def create_committer(self) -> SinkCommitter[CountedBatch]:
        return CountingCommitter(self._counts)

    @override
    def describe(self) -> str:
        return "discard and count"


class CountingWriter(SinkWriter[T, CountedBatch]):
    """Counts the records since the last checkpoint, in lists and in Arrow batches alike."""

    accepts_columns = True

    def __init__(self, context: SinkWriterContext) -> None:
        self._name = writer_name(context)
        self._subtask, self._count, self._sequence = context.subtask, 0, 0

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        self._count += len(records)

    @override
    def prepare_commit(self) -> list[CountedBatch]:
        if not self._count:
            return []
        ready = CountedBatch(
            writer=self._name, sequence=self._sequence, subtask=self._subtask, count=self._count
        )
        self._count, self._sequence = 0, self._sequence + 1
        return [ready]


class CountingCommitter(SinkCommitter[CountedBatch]):
    """Adds the counts of committables to the driver's; a committable committed again adds nothing."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    @override
    def commit(self, committables: Sequence[CountedBatch]) -> None:
        for ready in committables:
            if self._counts.once.take(ready["writer"], ready["sequence"]):
                self._counts.by_subtask[ready["subtask"]] += ready["count"]
