"""A sink that keeps nothing but the number of records, exactly once; for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T
from headgate.connectors.committed import DriverResults

if TYPE_CHECKING:
    import pyarrow as pa


def discard_sink() -> CountingSink:
    """A sink that forgets its records and counts them.

    Example:
        >>> sink = discard_sink()
        >>> writer = sink.create_writer(SinkWriterContext("s", 0, 1, 1, "job"), [])
        >>> writer.write(["a", "b"]); sink.create_committer().commit(writer.prepare_commit())
        >>> sink.count, sink.counts
        (2, {0: 2})
    """
    return CountingSink()


class Counts(DriverResults):
    """Committed records per subtask."""

    def __init__(self) -> None:
        super().__init__()
        self.by_subtask: dict[int, int] = {}


class CountingSink(Sink):
    """See :func:`discard_sink`."""

    def __init__(self) -> None:
        self._counts = Counts()

    @property
    def count(self) -> int:
        """How many records were committed so far; only meaningful in the driver."""
        return sum(self._counts.by_subtask.values())

    @property
    def counts(self) -> dict[int, int]:
        """The same per subtask."""
        return dict(sorted(self._counts.by_subtask.items()))

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter:
        return CountingWriter(context)

    @override
    def create_committer(self) -> SinkCommitter:
        return CountingCommitter(self._counts)

    @override
    def describe(self) -> str:
        return "discard and count"


class CountingWriter(SinkWriter[T]):
    """Counts rows of either shape."""

    accepts_columns = True

    def __init__(self, context: SinkWriterContext) -> None:
        deployment = f"{context.generation}.{context.attempt}"
        self._name = f"{context.job}/{context.uid}/{deployment}/{context.subtask}"
        self._subtask, self._count, self._sequence = context.subtask, 0, 0

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        self._count += len(records)

    @override
    def prepare_commit(self) -> list[Plain]:
        if not self._count:
            return []
        ready = {
            "writer": self._name,
            "sequence": self._sequence,
            "subtask": self._subtask,
            "count": self._count,
        }
        self._count, self._sequence = 0, self._sequence + 1
        return [ready]


class CountingCommitter(SinkCommitter):
    """Adds up committables, each once."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for ready in committables:
            if self._counts.once.take(ready["writer"], ready["sequence"]):
                total = self._counts.by_subtask
                total[ready["subtask"]] = total.get(ready["subtask"], 0) + ready["count"]
