"""A queue of timers of one time domain: one per timestamp and key, fired in order of time.

It knows no clock and no watermark of its own: the caller says up to where timers are due.

Order: by timestamp; timers of one timestamp fire in the order in which they were registered. A key
has at most one timer per timestamp, so what a key sees depends on timestamps alone, and neither on
other keys, nor on the parallelism, nor on restores (which may reorder keys within a timestamp).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, MutableMapping
from heapq import heapify, heappop, heappush
from itertools import chain, islice, repeat
from typing import Final, Generic, TypeVar

from headgate.common.errors import UsageError
from headgate.common.layered import MISSING, LayeredTable, Layers, slices_of
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.timer_buckets import Bucket, LargeBucket, copied

K = TypeVar("K", bound=Hashable)
K_co = TypeVar("K_co", bound=Hashable, covariant=True)

LOOKS_MAX: Final = 1_000
"""Most timestamps at which :meth:`TimerQueue.about` counts timers, which takes a tenth of a millisecond."""

_SPREAD: Final = 2_654_435_761
"""A prime: its multiples, modulo the number of timestamps, are spread over them without a regular pattern."""

_STALE_MIN: Final = 64  # deleted timestamps that are swept from the heap, if they outnumber live ones


class TimerQueue(Generic[K]):
    """A queue of timers by timestamp and key; register, delete and firing take O(log n), amortised.

    Keys lie in one ordered bucket per distinct timestamp, and only timestamps are in the heap, so
    many timers of one timestamp cost one heap entry. Deletion may leave an empty bucket behind. The
    buckets are in a :class:`LayeredTable`, so a snapshot takes them without a copy; a bucket may be
    changed only after `_own` has returned it.

    The caller sets `limit`: how far its time has come (the watermark in force, or the end of the segment
    being processed). `interrupt` is set when a timer at or before `limit` is registered; the caller, perhaps
    in the middle of a batch, then fires what is due and resets `interrupt`.

    Example:
        >>> timers = TimerQueue()
        >>> for timestamp, key in [(20, "b"), (10, "a"), (20, "a"), (20, "b")]:
        ...     _ = timers.register(timestamp, key)
        >>> timers.next_time, list(timers.pop_due(20)), timers.next_time
        (10, [(10, 'a'), (20, 'b'), (20, 'a')], None)
    """

    __slots__ = ("_buckets", "_empty", "_heap", "_large", "_own", "_table", "interrupt", "limit")

    def __init__(self, limit: int = WATERMARK_MIN) -> None:
        self.limit = limit
        self.interrupt = False
        # Invariant: the heap holds exactly the keys of `_buckets`; `_empty` counts empty buckets.
        self._table: LayeredTable[int, Bucket[K]] = LayeredTable(copied)
        self._table.on_change = self._use
        self._use(self._table.entries)
        # Timestamp -> a bucket that is in layers, itself or in the past.
        self._large: dict[int, LargeBucket[K]] = {}
        self._heap: list[int] = []
        self._empty = 0

    def _use(self, buckets: MutableMapping[int, Bucket[K]]) -> None:
        self._buckets = buckets
        in_layers = not self._table.settled
        self._own: Callable[[int], Bucket[K] | None] = self._own_in_layers if in_layers else buckets.get

    def _own_in_layers(self, timestamp: int) -> Bucket[K] | None:
        # A copy, or a layer, if a snapshot holds the bucket.
        bucket: Bucket[K] = self._table.own(timestamp)
        if bucket is MISSING:
            return None
        if isinstance(bucket, LargeBucket):
            self._large[timestamp] = bucket
        return bucket

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def about(self) -> int:
        """Return the number of timers; with more than 1,000 timestamps an estimate, made in bounded time."""
        times, buckets = self._heap, self._buckets
        if len(times) <= LOOKS_MAX:
            return sum(len(buckets[timestamp]) for timestamp in times)
        looked_at = (times[place * _SPREAD % len(times)] for place in range(LOOKS_MAX))
        return sum(len(buckets[timestamp]) for timestamp in looked_at) * len(times) // LOOKS_MAX

    def register(self, timestamp: int, key: K) -> bool:
        """Add a timer; return False if `key` has one at `timestamp` (ms) already. Sets `interrupt` if the new
        timer is due, at or before `limit`. UsageError unless `timestamp` is an int of 64 bits.
        """
        bucket = self._own(timestamp)
        if bucket is None:
            check_timestamp(timestamp)
            self._buckets[timestamp] = {key: None}
            heappush(self._heap, timestamp)
        elif key in bucket:
            return False
        else:
            if not bucket:
                self._empty -= 1
            bucket[key] = None
        if timestamp <= self.limit:
            self.interrupt = True
        return True

    def delete(self, timestamp: int, key: K) -> bool:
        bucket = self._own(timestamp)
        if bucket is None or key not in bucket:
            return False
        self._remove(bucket, key)
        if self._empty > _STALE_MIN and self._empty * 2 > len(self._heap):
            self._sweep()
        return True

    def holds(self, timestamp: int, key: K) -> bool:
        bucket = self._buckets.get(timestamp)
        return bucket is not None and key in bucket

    @property
    def next_time(self) -> int | None:
        """The earliest timestamp that has a timer; None without timers."""
        while self._heap and not self._buckets[self._heap[0]]:
            del self._buckets[heappop(self._heap)]
            self._empty -= 1
        return self._heap[0] if self._heap else None

    def has_due(self, up_to: int) -> bool:
        head = self.next_time
        return head is not None and head <= up_to

    def pop_due(self, up_to: int) -> Iterator[tuple[int, K]]:
        """Remove the timers at or before `up_to` one by one, and yield each as (timestamp, key).

        A timer leaves the queue when it is yielded. The caller may register and delete in between: what
        becomes due is yielded in its place, what is deleted is not. The iteration may be suspended or
        abandoned at any point, and another one begun; what was not yielded stays.
        """
        # One frame per timestamp in progress; a second one when an earlier timer was registered.
        frames: list[tuple[int, Iterator[K]]] = []
        while True:
            head = self.next_time
            if head is not None and head <= up_to and (not frames or head < frames[-1][0]):
                bucket = self._buckets[head]
                if len(bucket) == 1:
                    del self._buckets[heappop(self._heap)]
                    yield head, next(iter(bucket))
                    continue
                frames.append((head, iter(list(bucket))))
            if not frames:
                return
            if (key := self._next_of(*frames[-1])) is None:
                frames.pop()
            else:
                yield frames[-1][0], key[0]

    def _next_of(self, timestamp: int, keys: Iterator[K]) -> tuple[K] | None:
        bucket = self._own(timestamp) or {}
        for key in keys:
            if key in bucket:
                self._remove(bucket, key)
                return (key,)
        return None

    def first_at(self, timestamp: int, count: int) -> list[K]:
        """Return the keys of the first `count` timers at `timestamp`, in order, fewer if there are fewer."""
        return list(islice(self._buckets.get(timestamp, ()), count))

    def discard(self, timestamp: int, keys: Iterable[K]) -> None:
        """Remove the timers of `keys` at `timestamp`, all of which are in the queue."""
        bucket = self._own(timestamp)
        for key in keys:
            assert bucket is not None
            self._remove(bucket, key)

    def freeze(self) -> TimersAtCut[K]:
        """Return an unchanging view of the present timers, without a copy; the caller must release it."""
        layers, ticket = self._table.freeze()
        return TimersAtCut(layers, self._table, ticket)

    def settle(self, budget: int) -> bool:
        """Merge about `budget` of the changes that were kept apart since a snapshot; True when none is left.

        To be called again and again between batches. While a view is not released it merges nothing: False.
        """
        if not self._table.settle(budget):
            return False
        for timestamp, bucket in list(self._large.items()):
            if self._buckets.get(timestamp) is bucket:
                if not bucket.settle(budget):
                    return False
                self._buckets[timestamp] = bucket.base
            del self._large[timestamp]
        return True

    def frozen(self) -> tuple[list[int], list[K]]:
        """Return a copy of all timers: a list of timestamps and one of their keys, not in order of time."""
        timestamps: list[int] = []
        keys: list[K] = []
        for timestamp, bucket in self._buckets.items():
            keys.extend(bucket)
            timestamps.extend([timestamp] * len(bucket))
        return timestamps, keys

    def snapshot(self) -> list[tuple[int, K]]:
        """Return all timers as a list of (timestamp, key) in firing order."""
        return list(zip(*in_order(*self.frozen()), strict=True))

    def restore(self, timers: Iterable[tuple[int, K]]) -> None:
        for timestamp, key in timers:
            self.register(timestamp, key)

    def _remove(self, bucket: Bucket[K], key: K) -> None:
        del bucket[key]
        if not bucket:
            self._empty += 1

    def _sweep(self) -> None:
        for timestamp in [timestamp for timestamp, bucket in self._buckets.items() if not bucket]:
            del self._buckets[timestamp]
        self._heap = list(self._buckets)
        heapify(self._heap)
        self._empty = 0


class TimersAtCut(Generic[K_co]):
    """The timers as they were at :meth:`TimerQueue.freeze`; read by the thread that writes a snapshot."""

    __slots__ = ("_layers", "_table", "_ticket")

    def __init__(self, layers: Layers, table: LayeredTable, ticket: int) -> None:
        self._layers, self._table, self._ticket = layers, table, ticket

    def slices(self, size: int) -> Iterator[tuple[list[int], list[K_co]]]:
        """Yield all timers in parts, each as (timestamps, keys): two lists of equal length below 2 * `size`.
        Parts are in no order of time; keys of one timestamp keep their order.
        """
        for stamps, buckets in slices_of(self._layers, size):
            sizes = list(map(len, buckets))
            total = sum(sizes)
            if 0 < total < 2 * size:
                yield (
                    list(chain.from_iterable(map(repeat, stamps, sizes))),
                    list(chain.from_iterable(buckets)),
                )
            elif total:
                yield from _slices_of_buckets(stamps, buckets, size)

    def release(self) -> None:
        """End the view, so that the queue may merge its changes; repeats do no harm."""
        self._layers = ()
        self._table.thaw(self._ticket)


def _slices_of_buckets(
    stamps: list[int], buckets: list[Bucket[K]], size: int
) -> Iterator[tuple[list[int], list[K]]]:
    timestamps: list[int] = []
    keys: list[K] = []
    for timestamp, bucket in zip(stamps, buckets, strict=True):
        rest = iter(bucket)
        for _ in range(0, len(bucket), size):
            keys.extend(islice(rest, size))
            timestamps.extend([timestamp] * (len(keys) - len(timestamps)))
            if len(keys) >= size:
                yield timestamps, keys
                timestamps, keys = [], []
    if keys:
        yield timestamps, keys


def in_order(timestamps: list[int], keys: list[K]) -> tuple[list[int], list[K]]:
    """Return the two lists (timestamps, keys) of :meth:`TimerQueue.frozen`, sorted into firing order."""
    order = sorted(range(len(timestamps)), key=timestamps.__getitem__)
    return [timestamps[place] for place in order], [keys[place] for place in order]


def check_timestamp(timestamp: int) -> None:
    """Raise UsageError unless `timestamp` is an int of 64 bits, in ms."""
    if type(timestamp) is not int or not WATERMARK_MIN <= timestamp <= WATERMARK_MAX:
        raise UsageError(
            f"a timer is registered for {timestamp!r} of type {type(timestamp).__qualname__}; "
            "expected whole milliseconds as an int of 64 bits"
        )
