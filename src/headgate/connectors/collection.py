"""Records of the program itself: a source over a collection, and a sink that collects in the driver.

Both are for small data, examples and tests: the collection travels to every worker with the plan,
and collected records travel through the checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Generic

from typing_extensions import TypeVar, override

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
)
from headgate.common.errors import OperatingError, UsageError
from headgate.connectors.committed import DriverResults

T = TypeVar("T", default=Any)

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

    They travel as plain values inside checkpoints, so a record must be made of None, bool, int,
    float, str, bytes, lists, tuples and string-keyed dicts. Row views, dataclasses and msgspec
    structs become dicts, named tuples become tuples - unless `record_type` says what to rebuild.

    Args:
        limit: how many records may be collected altogether.
        record_type: a dataclass, NamedTuple or msgspec.Struct to rebuild records as.

    Raises:
        UsageError: `limit` is below 1.
    """
    if limit < 1:
        raise UsageError(f"collect_sink got limit={limit}; expected 1 or more records")
    return CollectSink(limit, record_type)


class Collected(DriverResults):
    """The records that reached the driver, in the order of their commits."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []


class CollectSink(Sink[T], Generic[T]):
    """See :func:`collect_sink`."""

    def __init__(self, limit: int, record_type: type | None) -> None:
        self.limit, self.record_type = limit, record_type
        self._collected = Collected()

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
        self._records: list[Any] = []

    @override
    def write(self, records: Any) -> None:
        if hasattr(records, "to_pylist"):
            records = records.to_pylist()
        self._seen += len(records)
        if self._seen > self._limit:
            raise over_limit(self._limit)
        self._records.extend(map(plain_record, records))

    @override
    def prepare_commit(self) -> list[Plain]:
        if not self._records:
            return []
        ready = {"writer": self._name, "sequence": self._sequence, "records": pack(self._records)}
        self._records, self._sequence = [], self._sequence + 1
        return [ready]

    @override
    def close(self) -> None:
        self._records = []


class CollectCommitter(SinkCommitter):
    """Appends committables to the driver's list, each once."""

    def __init__(self, collected: Collected, limit: int, record_type: type | None) -> None:
        self._collected, self._limit, self._record_type = collected, limit, record_type

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for ready in committables:
            if not self._collected.once.take(ready["writer"], ready["sequence"]):
                continue
            kept, records = self._collected.records, unpack(ready["records"])
            if len(kept) + len(records) > self._limit:
                raise over_limit(self._limit)
            kept.extend(records if self._record_type is None else rebuilt(self._record_type, records))


def rebuilt(record_type: type, records: list[Any]) -> list[Any]:
    """Plain values as records of a type.

    Raises:
        UsageError: one of them is none.
    """
    import msgspec

    from headgate.common.decoders import converter

    try:
        return list(converter(list[record_type])(records))  # type: ignore[valid-type]
    except msgspec.ValidationError as problem:
        name = getattr(record_type, "__name__", repr(record_type))
        raise UsageError(f"a collected record is not a {name}: {problem}; correct record_type") from problem


def over_limit(limit: int) -> UsageError:
    """The refusal of one record too many."""
    return UsageError(
        f"collect() got more than its limit of {limit} records; raise the limit, or write large results "
        "with write_json or write_parquet"
    )


_LEAVES = frozenset({type(None), bool, int, float, str, bytes})


def plain_record(value: Any) -> Plain:
    """The record as plain values, as :func:`collect_sink` describes.

    Raises:
        UsageError: something inside has no plain form.

    Example:
        >>> plain_record(("ada", {"lines": [1, 2]}))
        ('ada', {'lines': [1, 2]})
    """
    kind = type(value)
    if kind in _LEAVES:
        return value
    if isinstance(value, tuple):
        return tuple(map(plain_record, value))
    if kind is list:
        return list(map(plain_record, value))
    if isinstance(value, dict):
        return _plain_dict(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: plain_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(kind, "__struct_fields__"):
        return {name: plain_record(getattr(value, name)) for name in kind.__struct_fields__}
    if hasattr(kind, "as_dict"):
        return _plain_dict(value.as_dict())
    raise _not_plain(value)


def _plain_dict(value: dict[Any, Any]) -> dict[str, Plain]:
    for key in value:
        if type(key) is not str:
            raise _not_plain(key, "a dict key of type")
    return {key: plain_record(item) for key, item in value.items()}


def _not_plain(value: Any, what: str = "a value of type") -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return UsageError(
        f"collect() got {what} {type(value).__name__} ({shown}); expected None, bool, int, float, str, "
        "bytes, lists, tuples and string-keyed dicts: map the records to these first"
    )


_TUPLE, _BIG_INT = 1, 2


def pack(records: list[Plain]) -> bytes:
    """Plain records as bytes that give exactly them back: a checkpoint by itself would make lists of
    tuples and refuses integers beyond 64 bits.

    Example:
        >>> unpack(pack([(1, 2**70), [None, {"a": b"x"}]]))
        [(1, 1180591620717411303424), [None, {'a': b'x'}]]
    """
    import msgspec

    encode, ext = msgspec.msgpack.encode, msgspec.msgpack.Ext

    def packed(value: Any) -> Any:
        kind = type(value)
        if kind is tuple:
            return ext(_TUPLE, encode([packed(item) for item in value]))
        if kind is int:
            return value if -(2**63) <= value < 2**63 else ext(_BIG_INT, b"%x" % value)
        if kind is list:
            return [packed(item) for item in value]
        if kind is dict:
            return {key: packed(item) for key, item in value.items()}
        return value

    try:
        return encode([packed(record) for record in records])
    except UnicodeEncodeError as problem:
        raise UsageError(
            f"collect() got text that is not valid Unicode ({problem}); repair it first"
        ) from problem


def unpack(data: bytes) -> list[Plain]:
    """The records of :func:`pack`."""
    from headgate.common.decoders import msgpack_decoder

    def extension(code: int, inner: memoryview) -> Any:
        return tuple(decoder.decode(inner)) if code == _TUPLE else int(bytes(inner), 16)

    decoder = msgpack_decoder(list[Any], ext_hook=extension)
    return decoder.decode(data)
