"""Records of the program itself: a source over a collection, and a sink that collects in the driver.

Both are for small data, examples and tests: the collection travels to every worker with the plan,
and collected records travel through the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import OperatingError, UsageError
from headgate.connectors.collected_records import DriverRecords, Packed, RecordPacker, packed_bytes, unpacked
from headgate.connectors.pydantic_rows import model_hook

if TYPE_CHECKING:
    import pyarrow as pa


SPLIT_RECORDS_DEFAULT = 1024
SPLITS_MAX_DEFAULT = 64
COLLECT_LIMIT_DEFAULT = 1_000_000


def collection_source(records: Iterable[T], splits: int | None = None) -> CollectionSource[T]:
    """A bounded source that reads the given records.

    The collection is cut into contiguous splits that do not depend on the parallelism; order is
    kept within a split, so a collection of up to 1024 records keeps its order altogether.

    Args:
        records: any iterable; it is read to its end now.
        splits: how many splits; by default one per 1024 records, at most 64.

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


class CollectionSource(Source[T]):
    """See :func:`collection_source`."""

    def __init__(self, records: list[T], splits: int) -> None:
        self.records, self.splits = records, splits

    @override
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        return CollectionEnumerator(self._bounds() if restored is None else restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T]:
        return CollectionReader(self.records)

    @override
    def check_restore(self, rest: Plain | None, splits: Sequence[Split]) -> None:
        try:
            CollectionReader(self.records).add_splits(splits)
            ends = [int(stop) for _, stop in rest or ()]
        except (ValueError, TypeError) as problem:
            raise UsageError(
                f"its positions are those of another kind of source ({problem}); keep the source as it was, "
                "or give the new one another uid"
            ) from None
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


class CollectionEnumerator(SplitEnumerator):
    """Hands out one contiguous range of indices at a time; its state is the list of the rest."""

    def __init__(self, remaining: Sequence[Sequence[int]]) -> None:
        self._remaining = deque((int(start), int(stop)) for start, stop in remaining)

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        if not self._remaining:
            return None
        start, stop = self._remaining.popleft()
        return [Split(f"{start}-{stop}", start)]

    @override
    def snapshot(self) -> Plain:
        return [[start, stop] for start, stop in self._remaining]


class CollectionReader(SourceReader[T]):
    """Reads ranges of the collection; the position of a split is the next index."""

    def __init__(self, records: Sequence[T]) -> None:
        self.bad_records = []
        self._records = records
        self._splits: deque[list[int]] = deque()
        self._final = False

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            start, stop = (int(edge) for edge in split.id.split("-"))
            if stop > len(self._records):
                raise OperatingError(
                    f"split {split.id} of the collection ends at record {stop}, but the collection has "
                    f"{len(self._records)} records; restore with the collection the checkpoint was made with"
                )
            position = start if split.position is None else int(split.position)
            if position < stop:
                self._splits.append([start, position, stop])

    @override
    def no_more_splits(self) -> None:
        self._final = True

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

    @override
    def snapshot(self) -> list[Split]:
        return [Split(f"{start}-{stop}", position) for start, position, stop in self._splits]


def collect_sink(limit: int = COLLECT_LIMIT_DEFAULT, record_type: type | None = None) -> CollectSink:
    """A sink whose records appear, exactly once, in the list :attr:`CollectSink.results`.

    They lie in checkpoints on their way, by field and without pickle: a record is a plain value, a record
    class whose fields have serializable types, or a container of these. Row views become dicts.

    Args:
        limit: how many records may be collected altogether.
        record_type: the declared type of the records: row views and dicts become records of this class.

    Raises:
        UsageError: `limit` is below 1.
    """
    if limit < 1:
        raise UsageError(f"collect_sink got limit={limit}; expected 1 or more records")
    return CollectSink(limit, record_type)


class CollectSink(Sink[T], Generic[T]):
    """See :func:`collect_sink`."""

    def __init__(self, limit: int, record_type: type | None) -> None:
        self.limit, self.record_type = limit, record_type
        self._collected: DriverRecords[T] = DriverRecords()

    @property
    def results(self) -> list[T]:
        """What was committed so far; only meaningful in the driver."""
        return self._collected.records

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[T]:
        return CollectWriter(context, self.limit)

    @override
    def create_committer(self) -> SinkCommitter:
        return CollectCommitter(self._collected, self.limit, self.record_type)

    @override
    def describe(self) -> str:
        return "collect"


class CollectWriter(SinkWriter[T]):
    """Keeps the records since the last checkpoint and hands them over as one committable."""

    def __init__(self, context: SinkWriterContext, limit: int) -> None:
        deployment = f"{context.generation}.{context.attempt}"
        self._name = f"{context.job}/{context.uid}/{deployment}/{context.subtask}"
        self._limit, self._seen, self._sequence = limit, 0, 0
        self._records: list[Packed] = []
        self._pack = RecordPacker().pack

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if hasattr(records, "to_pylist"):
            records = records.to_pylist()
        self._seen += len(records)
        if self._seen > self._limit:
            raise over_limit(self._limit)
        self._records.extend(map(self._pack, records))

    @override
    def prepare_commit(self) -> list[Plain]:
        if not self._records:
            return []
        ready = {"writer": self._name, "sequence": self._sequence, "records": packed_bytes(self._records)}
        self._records, self._sequence = [], self._sequence + 1
        return [ready]

    @override
    def close(self) -> None:
        self._records = []


class CollectCommitter(SinkCommitter, Generic[T]):
    """Appends committables to the driver's list, each once."""

    def __init__(self, collected: DriverRecords[T], limit: int, record_type: type | None) -> None:
        self._collected, self._limit, self._record_type = collected, limit, record_type

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for ready in committables:
            if not self._collected.once.take(ready["writer"], ready["sequence"]):
                continue
            kept = self._collected.records
            records: list[T] = unpacked(ready["records"], self._collected.class_of)
            if len(kept) + len(records) > self._limit:
                raise over_limit(self._limit)
            kept.extend(records if self._record_type is None else rebuilt(self._record_type, records))


def rebuilt(record_type: type[T], records: list[T]) -> list[T]:
    """Row views and dicts as records of a type; records of a class stay what they are.

    Raises:
        UsageError: one of them is none.
    """
    import msgspec

    from headgate.common.decoders import converter

    if all(type(record) is not dict for record in records):
        return records
    make: Callable[[Plain], T] = converter(record_type, dec_hook=model_hook)
    try:
        return [make(record) if type(record) is dict else record for record in records]
    except msgspec.ValidationError as problem:
        name = getattr(record_type, "__name__", repr(record_type))
        raise UsageError(f"a collected record is not a {name}: {problem}; correct record_type") from problem


def over_limit(limit: int) -> UsageError:
    """The refusal of one record too many."""
    return UsageError(
        f"collect() got more than its limit of {limit} records; look at fewer with take(n), or write "
        "large results with write_json() or write_parquet()"
    )
