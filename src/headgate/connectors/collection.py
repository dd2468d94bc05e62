"""Records of the program itself: a source over a collection, and sinks that collect in the driver.
All are for small data, examples and tests: the collection travels to every worker with the plan, and
collected records travel through the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypedDict

import msgspec
from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    InputLeft,
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.decoders import converter
from headgate.common.errors import OperatingError, UsageError
from headgate.connectors.collected_records import DriverRecords, Packed, RecordPacker, packed_bytes, unpacked
from headgate.connectors.committed import writer_name
from headgate.connectors.fields import model_hook
from headgate.connectors.generator import RangeReader, foreign_positions

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_RECORDS_DEFAULT = 1024
SPLITS_MAX_DEFAULT = 64
COLLECT_LIMIT_DEFAULT = 1_000_000


def collection_source(records: Iterable[T], splits: int | None = None) -> CollectionSource[T]:
    """Return a bounded source that reads the records of a collection of the program.

    The collection is divided into contiguous splits that do not depend on the parallelism; order is kept
    within a split, so by default a collection of up to 1024 records keeps its order altogether.

    Args:
        records: any iterable; it is read to its end now.
        splits: how many splits, without empty ones; by default one per 1024 records, at most 64.

    Raises:
        UsageError: `splits` is below 1.

    Example:
        >>> source = collection_source(["a", "b", "c"], splits=2)
        >>> [split.id for split in source.create_enumerator(None).next_splits(0)]
        ['0-1']
    """
    kept = list(records)
    if splits is None:
        splits = min(SPLITS_MAX_DEFAULT, max(1, -(-len(kept) // SPLIT_RECORDS_DEFAULT)))
    if splits < 1:
        raise UsageError(f"collection_source got splits={splits}; expected 1 or more")
    return CollectionSource(kept, splits)


class CollectionSource(Source[T, int, list[list[int]]]):
    """Bounded source over a list of records of the program; made by :func:`collection_source`."""

    def __init__(self, records: list[T], splits: int) -> None:
        self.records, self.splits = records, splits

    @override
    def create_enumerator(self, restored: list[list[int]] | None) -> SplitEnumerator[int, list[list[int]]]:
        return CollectionEnumerator(self._bounds() if restored is None else restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, int]:
        return CollectionReader(self.records)

    @override
    def check_restore(self, rest: list[list[int]] | None, splits: Sequence[Split[int]]) -> None:
        try:
            CollectionReader(self.records).add_splits(splits)
            ends = [int(stop) for _, stop in rest or ()]
        except (ValueError, TypeError) as problem:
            raise foreign_positions(problem) from None
        except OperatingError as problem:
            raise UsageError(str(problem)) from None
        if max(ends, default=0) > len(self.records):
            raise UsageError(
                f"splits that are still to be read go up to record {max(ends)}, but the collection has "
                f"{len(self.records)} records; restore with the collection the checkpoint was made with"
            )

    @override
    def describe(self) -> str:
        return f"collection of {len(self.records)} records"

    def _bounds(self) -> list[list[int]]:
        total, splits = len(self.records), self.splits
        edges = [total * i // splits for i in range(splits + 1)]
        return [[start, stop] for start, stop in pairwise(edges) if start < stop]


class CollectionEnumerator(SplitEnumerator[int, list[list[int]]]):
    """Assigns ranges of list indices to readers, one per request; its state is the unassigned ranges."""

    def __init__(self, remaining: Sequence[Sequence[int]]) -> None:
        self._remaining = deque((int(start), int(stop)) for start, stop in remaining)

    @override
    def next_splits(self, subtask: int) -> list[Split[int]] | None:
        if not self._remaining:
            return None
        start, stop = self._remaining.popleft()
        return [Split(f"{start}-{stop}", start)]

    @override
    def left_to_assign(self) -> InputLeft:
        return InputLeft(records=sum(stop - start for start, stop in self._remaining))

    @override
    def snapshot(self) -> list[list[int]]:
        return [[start, stop] for start, stop in self._remaining]


class CollectionReader(RangeReader[T]):
    """Reads assigned ranges of the collection; OperatingError for a split that ends after the collection."""

    def __init__(self, records: Sequence[T]) -> None:
        super().__init__()
        self._records = records

    @override
    def add_splits(self, splits: Sequence[Split[int]]) -> None:
        for split in splits:
            _, stop = (int(edge) for edge in split.id.split("-"))
            if stop > len(self._records):
                raise OperatingError(
                    f"split {split.id} of the collection ends at record {stop}, but the collection has "
                    f"{len(self._records)} records; restore with the collection the checkpoint was made with"
                )
        super().add_splits(splits)

    @override
    def poll(self, max_records: int) -> list[T] | PollStatus:
        if not self._splits:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        split = self._splits[0]
        _, position, stop = split
        upto = split[1] = min(stop, position + max(1, max_records))
        if upto == stop:
            self._splits.popleft()
        return list(self._records[position:upto])


class CollectedBatch(TypedDict):
    """Committable of a collect sink: the encoded records of one writer between two checkpoints."""

    writer: str  # its name, which no other writer has in any job or attempt
    sequence: int  # number of this batch among the writer's, from 0
    records: bytes  # encoded by :func:`packed_bytes`


def collect_sink(limit: int = COLLECT_LIMIT_DEFAULT, record_type: type[T] | None = None) -> CollectSink[T]:
    """Return a sink whose records appear, exactly once, in the list :attr:`CollectSink.results`.

    On their way they are part of checkpoints, by field and without pickle: a record is a plain value, a
    record class whose fields have serializable types, or a container of these. Arrow rows become dicts.

    Args:
        limit: how many records may be collected altogether; one more fails the job.
        record_type: class that Arrow rows and dicts become, a misfit fails the job; None: they stay dicts.

    Raises:
        UsageError: `limit` is below 1.
    """
    if limit < 1:
        raise UsageError(f"collect_sink got limit={limit}; expected 1 or more records")
    return CollectSink(limit, record_type)


class CollectSink(Sink[T, CollectedBatch]):
    """Sink that appends committed records to the driver's list `results`; made by :func:`collect_sink`."""

    def __init__(self, limit: int, record_type: type[T] | None) -> None:
        self.limit, self.record_type = limit, record_type
        self._collected: DriverRecords[T] = DriverRecords()

    @property
    def results(self) -> list[T]:
        """The list to which commits append records, itself and no copy; empty outside the driver."""
        return self._collected.records

    @override
    def create_writer(
        self, context: SinkWriterContext, restored: Sequence[Plain]
    ) -> SinkWriter[T, CollectedBatch]:
        return CollectWriter(context, self.limit)

    @override
    def create_committer(self) -> SinkCommitter[CollectedBatch]:
        return CollectCommitter(self._collected, self.limit, self.record_type)

    @override
    def describe(self) -> str:
        return "collect"


class CollectWriter(SinkWriter[T, CollectedBatch]):
    """Packs records; at a checkpoint those since the last are a committable. UsageError beyond `limit`."""

    def __init__(self, context: SinkWriterContext, limit: int) -> None:
        self._name, self._limit = writer_name(context), limit
        self._seen = self._sequence = 0
        self._records: list[Packed] = []
        self._pack = RecordPacker().pack

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if hasattr(records, "to_pylist"):
            records = records.to_pylist()
        self._seen += len(records)
        if self._seen > self._limit:
            raise _over_limit(self._limit)
        self._records.extend(map(self._pack, records))

    @override
    def prepare_commit(self) -> list[CollectedBatch]:
        if not self._records:
            return []
        ready = CollectedBatch(
            writer=self._name, sequence=self._sequence, records=packed_bytes(self._records)
        )
        self._records, self._sequence = [], self._sequence + 1
        return [ready]

    @override
    def close(self) -> None:
        self._records = []


class CollectCommitter(SinkCommitter[CollectedBatch], Generic[T]):
    """Appends committed records to the driver's list, each committable once; UsageError beyond `limit`."""

    def __init__(self, collected: DriverRecords[T], limit: int, record_type: type[T] | None) -> None:
        self._collected, self._limit, self._record_type = collected, limit, record_type

    @override
    def commit(self, committables: Sequence[CollectedBatch]) -> None:
        kept = self._collected.records
        for ready in committables:
            if not self._collected.once.take(ready["writer"], ready["sequence"]):
                continue
            records: list[T] = unpacked(ready["records"], self._collected.class_of)
            if len(kept) + len(records) > self._limit:
                raise _over_limit(self._limit)
            kept.extend(rebuilt(self._record_type, records))


def rebuilt(record_type: type[T] | None, records: list[T]) -> list[T]:
    """Return the records; each dict becomes a `record_type`, unless that is None. UsageError for a misfit."""
    if record_type is None or all(type(record) is not dict for record in records):
        return records
    make = converter(record_type, dec_hook=model_hook)
    try:
        return [make(record) if type(record) is dict else record for record in records]
    except msgspec.ValidationError as problem:
        name = getattr(record_type, "__name__", repr(record_type))
        raise UsageError(f"a collected record is not a {name}: {problem}; correct record_type") from problem


def _over_limit(limit: int) -> UsageError:
    return UsageError(
        f"collect() got more than its limit of {limit} records; look at fewer with take(n), or write "
        "large results with write_json() or write_parquet()"
    )


def sample_sink(count: int, record_type: type[T] | None = None, verb: str = "take") -> SampleSink[T]:
    """Return the sink of `take()`: each subtask sends its first `count` records to the driver as they come.

    Other records are ignored; the driver shows the first `count` to arrive. Their types are those that
    `collect_sink` takes. No checkpoint holds them: after a failure some may arrive twice. `verb` is the
    method that the program called, for messages.
    """
    return SampleSink(count, record_type, verb)


class SampleSink(Sink[T]):
    """Sink that brings up to `count` records to the driver, not by checkpoints; see :func:`sample_sink`."""

    def __init__(self, count: int, record_type: type[T] | None, verb: str) -> None:
        self.count, self.record_type, self._verb = count, record_type, verb
        self._sample: DriverRecords[T] = DriverRecords()

    @property
    def results(self) -> list[T]:
        """A list of the first `count` records to arrive, made at each call; empty outside the driver."""
        return rebuilt(self.record_type, self._sample.records[: self.count])

    def told(self, data: bytes) -> bool:
        """Add the records in a writer's message; return True once `count` have come and the job may end."""
        self._sample.records.extend(unpacked(data, self._sample.class_of))
        return len(self._sample.records) >= self.count

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[T]:
        return SampleWriter(context, self.count, self._verb)

    @override
    def describe(self) -> str:
        return "sample"


class SampleWriter(SinkWriter[T]):
    """Sends its first `count` records to the driver as they come: a preview waits for no checkpoint."""

    def __init__(self, context: SinkWriterContext, count: int, verb: str) -> None:
        self._send, self._left, self._verb = context.tell, count, verb
        self._pack = RecordPacker(verb).pack

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if self._left <= 0:
            return
        first = records[: self._left]
        if hasattr(first, "to_pylist"):
            first = first.to_pylist()
        self._left -= len(first)
        if self._send is not None and first:
            self._send(packed_bytes([self._pack(record) for record in first], self._verb))

    @override
    def prepare_commit(self) -> list[Plain]:
        return []
