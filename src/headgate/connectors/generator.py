"""A source that generates records from their index, and a rate limit for any source.

The generator is the smallest complete source with a position and the model for one's own: an enumerator that
hands out ranges of indices, a reader that goes through them. Rates are kept without sleeping: a reader that
is ahead of its rate returns NOTHING_AVAILABLE.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from typing_extensions import override

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    Boundedness,
    InputLeft,
    P,
    PollStatus,
    S,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.relational.column_tests import ColumnTest

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_SIZE_MAX = 65_536
SPLITS_DEFAULT = 16
BURST_MS = 1_000

IndexFunction: TypeAlias = Callable[[Any], Any]
"""User function from an index to a record, or from a range of indices to a batch of records."""


class MonotonicClock(Protocol):
    """A monotonic clock, by which a rate limit measures time."""

    def monotonic_ms(self) -> int:
        """Return milliseconds of a clock that never goes back."""


class ProcessClock:
    """The monotonic clock of this process, for rate limits without a given clock."""

    def monotonic_ms(self) -> int:
        return clock.monotonic_ns() // 1_000_000


class RateLimit:
    """Computes how many records a reader may emit now; idle time saves up at most max(1, a second's records).

    Example:
        >>> limit = RateLimit(10.0, now_ms=0)
        >>> limit.allowed(0), limit.allowed(500)
        (0, 5)
        >>> limit.spend(5); limit.allowed(500), limit.allowed(99_000)
        (0, 10)
    """

    def __init__(self, rate_per_s: float, now_ms: int) -> None:
        self._rate_per_ms = rate_per_s / 1000
        self._credit_max = max(1.0, self._rate_per_ms * BURST_MS)
        self._credit, self._at_ms = 0.0, now_ms

    def allowed(self, now_ms: int) -> int:
        """Return how many records may be emitted now, 0 or more; only :meth:`spend` takes them off.
        `now_ms` is the time of a monotonic clock in milliseconds, not before that of the last call.
        """
        earned = (now_ms - self._at_ms) * self._rate_per_ms
        self._credit, self._at_ms = min(self._credit_max, self._credit + earned), now_ms
        # The tiny addition makes up for what binary fractions lose: ten tenths must be one record.
        return max(0, int(self._credit + 1e-9))

    def spend(self, records: int) -> None:
        """Subtract emitted records from the credit; more than allowed means waiting longer later."""
        self._credit -= records


def generator_source(
    function: IndexFunction,
    count: int | None = None,
    rate_per_s: float | None = None,
    *,
    batch: bool = False,
    splits: int | None = None,
    split_size: int | None = None,
    clock: MonotonicClock | None = None,
) -> GeneratorSource:
    """Return a source of `function(0), function(1), ...`, bounded by `count` or endless.

    Which indices belong to a split depends neither on the parallelism nor on the rate at which readers ask,
    so a job computes the same at any parallelism. Order is kept within a split.

    Args:
        function: makes the record of an index; the same index must give the same record again.
        count: how many records; None never ends.
        rate_per_s: records per second of all parallel readers together; None is as fast as possible.
        batch: `function` takes a ``range`` of indices and returns a list or a ``pyarrow.RecordBatch``
            with one record for each index; another number of records fails the job.
        splits: with `count`: into at most how many equal parts the indices are divided; by default 16, or
            more where a part would exceed 65,536 indices or, with `rate_per_s`, a tenth of a second.
        split_size: indices per split, instead of `splits`.
        clock: gives ``monotonic_ms()``; the process's clock by default.

    Raises:
        UsageError: a number is out of bounds, or `splits` came with `split_size` or without `count`.

    Example:
        >>> reader = generator_source(lambda i: i * i, count=4).create_reader(SourceReaderContext("g", 0, 1))
        >>> reader.add_splits([Split("0-4")]); reader.poll(3), reader.snapshot()
        ([0, 1, 4], [Split(id='0-4', position=3)])
    """
    if count is not None and count < 0:
        raise UsageError(f"generator_source got count={count}; expected 0 or more, or None for no end")
    _check_rate("generator_source", rate_per_s)
    if splits is not None and (splits < 1 or count is None or split_size is not None):
        raise UsageError(
            f"generator_source got splits={splits}, count={count} and split_size={split_size}; expected "
            "splits of 1 or more together with count and without split_size"
        )
    if split_size is not None and split_size < 1:
        raise UsageError(f"generator_source got split_size={split_size}; expected 1 or more")
    size = split_size or _split_size(count, rate_per_s, splits)
    return GeneratorSource(function, count, rate_per_s, batch, size, clock)


def _split_size(count: int | None, rate_per_s: float | None, splits: int | None) -> int:
    if count is not None and splits is not None:
        return max(1, -(-count // splits))
    size = SPLIT_SIZE_MAX if count is None else min(SPLIT_SIZE_MAX, -(-count // SPLITS_DEFAULT))
    if rate_per_s is not None:
        # A slow generator takes small splits, or parallel readers would be hours of indices apart.
        size = min(size, int(rate_per_s / 10))
    return max(1, size)


def _check_rate(where: str, rate_per_s: float | None) -> None:
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise UsageError(f"{where} got rate_per_s={rate_per_s}; expected more than 0 records per second")


def foreign_positions(problem: Exception) -> UsageError:
    """Return (not raise) the error for positions of another kind of source; reading raised `problem`."""
    return UsageError(
        f"its positions are those of another kind of source ({problem}); keep the source as it was, or give "
        "the new one another uid"
    )


class GeneratorSource(Source[T, int, int]):
    """Source that calls a function for each index; made by :func:`generator_source`."""

    def __init__(
        self,
        function: IndexFunction,
        count: int | None,
        rate_per_s: float | None,
        batch: bool,
        split_size: int,
        clock: MonotonicClock | None,
    ) -> None:
        self.function, self.count, self.rate_per_s = function, count, rate_per_s
        self.batch, self.split_size, self.clock = batch, split_size, clock
        self.boundedness = Boundedness.UNBOUNDED if count is None else Boundedness.BOUNDED

    @override
    def create_enumerator(self, restored: int | None) -> SplitEnumerator[int, int]:
        return GeneratorEnumerator(self.count, self.split_size, 0 if restored is None else int(restored))

    @override
    def check_restore(self, rest: int | None, splits: Sequence[Split[int]]) -> None:
        try:
            int(rest or 0)
            GeneratorReader(self.function, self.batch, self.boundedness).add_splits(splits)
        except (TypeError, ValueError) as problem:
            raise foreign_positions(problem) from None

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, int]:
        reader: SourceReader[T, int] = GeneratorReader(self.function, self.batch, self.boundedness)
        if self.rate_per_s is None:
            return reader
        return ThrottledReader(reader, self.rate_per_s / context.parallelism, self.clock or ProcessClock())

    @override
    def validate(self) -> None:
        if not callable(self.function):
            raise UsageError(f"generator_source got {self.function!r}; expected a function of the index")

    @override
    def describe(self) -> str:
        count = "no end" if self.count is None else f"{self.count} records"
        rate = "" if self.rate_per_s is None else f", {self.rate_per_s:g}/s"
        return f"generator ({count}{rate})"


class GeneratorEnumerator(SplitEnumerator[int, int]):
    """Assigns ranges of indices; its checkpointed state is the first index not yet assigned."""

    def __init__(self, count: int | None, split_size: int, next_index: int) -> None:
        self._count, self._split_size, self._next_index = count, split_size, next_index

    @override
    def next_splits(self, subtask: int) -> list[Split[int]] | None:
        start, stop = self._next_index, self._next_index + self._split_size
        if self._count is not None:
            stop = min(stop, self._count)
            if start >= stop:
                return None
        self._next_index = stop
        return [Split(f"{start}-{stop}", start)]

    @override
    def left_to_assign(self) -> InputLeft | None:
        return None if self._count is None else InputLeft(records=max(0, self._count - self._next_index))

    @override
    def snapshot(self) -> int:
        return self._next_index


class RangeReader(SourceReader[T, int]):
    """Base of readers of index ranges; a split's id is "start-stop", its position the next index to read."""

    def __init__(self) -> None:
        self.bad_records = []
        self._splits: deque[list[int]] = deque()  # start, next index and stop of each
        self._final = False

    @override
    def add_splits(self, splits: Sequence[Split[int]]) -> None:
        for split in splits:
            start, stop = (int(edge) for edge in split.id.split("-"))
            position = start if split.position is None else int(split.position)
            if position < stop:
                self._splits.append([start, position, stop])

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def left_to_read(self) -> dict[str, InputLeft]:
        return {f"{start}-{stop}": InputLeft(stop - at) for start, at, stop in self._splits}

    @override
    def snapshot(self) -> list[Split[int]]:
        return [Split(f"{start}-{stop}", position) for start, position, stop in self._splits]


class GeneratorReader(RangeReader[T]):
    """Emits the records that the user's function makes for the indices of the assigned ranges."""

    def __init__(self, function: IndexFunction, batch: bool, boundedness: Boundedness) -> None:
        super().__init__()
        self._function, self._batch, self._boundedness = function, batch, boundedness

    @override
    def left_to_read(self) -> dict[str, InputLeft]:
        # Without an end nothing is left or not, and the ranges would be new series of a metric for ever.
        return super().left_to_read() if self._boundedness is Boundedness.BOUNDED else {}

    @override
    def poll(self, max_records: int) -> list[T] | pa.RecordBatch | PollStatus:
        if not self._splits:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        split = self._splits[0]
        _, position, stop = split
        upto = min(stop, position + max(1, max_records))
        indices = range(position, upto)
        made: list[T] | pa.RecordBatch = (
            self._function(indices) if self._batch else [self._function(index) for index in indices]
        )
        if self._batch and len(made) != len(indices):
            raise UsageError(
                f"the generator's batch function returned {len(made)} records for {indices}; "
                f"expected {len(indices)}, one for each index"
            )
        # The position moves only now, so that a function that raised is asked again after a restart.
        split[1] = upto
        if upto == stop:
            self._splits.popleft()
        return made


def throttled(
    source: Source[T, P, S], rate_per_s: float, *, clock: MonotonicClock | None = None
) -> ThrottledSource[T, P, S]:
    """Return a source whose readers together give at most `rate_per_s` records per second, on average.

    Args:
        source: any source; positions and checkpoints are its own.
        rate_per_s: records per second, shared evenly by the readers; an idle one saves up a second's.
        clock: gives ``monotonic_ms()``; the process's clock by default.

    Raises:
        UsageError: the rate is not above 0, or is infinite.
    """
    _check_rate("throttled", rate_per_s)
    return ThrottledSource(source, rate_per_s, clock)


class ThrottledSource(Source[T, P, S]):
    """Source that limits another source's rate of records; made by :func:`throttled`."""

    def __init__(self, source: Source[T, P, S], rate_per_s: float, clock: MonotonicClock | None) -> None:
        self.source, self.rate_per_s, self.clock = source, rate_per_s, clock
        self.boundedness, self.produces_columns = source.boundedness, source.produces_columns

    @override
    def create_enumerator(self, restored: S | None) -> SplitEnumerator[P, S]:
        return self.source.create_enumerator(restored)

    @override
    def check_restore(self, rest: S | None, splits: Sequence[Split[P]]) -> None:
        self.source.check_restore(rest, splits)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, P]:
        rate = self.rate_per_s / context.parallelism
        return ThrottledReader(self.source.create_reader(context), rate, self.clock or ProcessClock())

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return self.source.arrow_schema()

    @override
    def datasets(self) -> Sequence[str]:
        return self.source.datasets()

    @override
    def with_columns(self, names: Sequence[str]) -> ThrottledSource[T, P, S]:
        return ThrottledSource(self.source.with_columns(names), self.rate_per_s, self.clock)

    @override
    def with_filters(self, tests: Sequence[ColumnTest]) -> ThrottledSource[T, P, S]:
        source = self.source.with_filters(tests)
        return self if source is self.source else ThrottledSource(source, self.rate_per_s, self.clock)

    @override
    def validate(self) -> None:
        self.source.validate()

    @override
    def describe(self) -> str:
        return f"{self.source.describe()}, at most {self.rate_per_s:g}/s"


class ThrottledReader(SourceReader[T, P]):
    """Polls an inner reader for as many records as the rate allows now; if none, NOTHING_AVAILABLE."""

    def __init__(self, reader: SourceReader[T, P], rate_per_s: float, clock: MonotonicClock) -> None:
        self._reader, self._rate_per_s, self._clock = reader, rate_per_s, clock
        self._limit: RateLimit | None = None

    @property
    def bad_records(self) -> list[BadRecord]:
        return self._reader.bad_records

    @bad_records.setter
    def bad_records(self, value: list[BadRecord]) -> None:
        self._reader.bad_records = value

    @property
    def skipped(self) -> int:
        return self._reader.skipped

    @skipped.setter
    def skipped(self, value: int) -> None:
        self._reader.skipped = value

    @override
    def add_splits(self, splits: Sequence[Split[P]]) -> None:
        self._reader.add_splits(splits)

    @override
    def no_more_splits(self) -> None:
        self._reader.no_more_splits()

    @override
    def poll(self, max_records: int) -> list[T] | pa.RecordBatch | PollStatus:
        now_ms = self._clock.monotonic_ms()
        if self._limit is None:
            # Time counts from the first poll: what a restore takes must not become a burst.
            self._limit = RateLimit(self._rate_per_s, now_ms)
        allowed = self._limit.allowed(now_ms)
        if allowed == 0:
            return NOTHING_AVAILABLE
        polled = self._reader.poll(min(max_records, allowed))
        if not isinstance(polled, PollStatus):
            self._limit.spend(len(polled))
        return polled

    @override
    def left_to_read(self) -> Mapping[str, InputLeft]:
        return self._reader.left_to_read()

    @override
    def snapshot(self) -> list[Split[P]]:
        return self._reader.snapshot()

    @override
    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self._reader.checkpoint_complete(checkpoint_id)

    @override
    def close(self) -> None:
        self._reader.close()
