"""Snapshots of TimerQueue: the timers at the cut, whatever is set, deleted and fired while they are read."""

from __future__ import annotations

from itertools import islice
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.core import timer_buckets
from headgate.core.timer_buckets import DEPTH_MAX, LargeBucket, copied
from headgate.core.timers import TimerQueue, TimersAtCut, in_order

Timers = list[tuple[int, str]]
TIMES = st.integers(0, 2)
NAMES = st.sampled_from("abcdefgh")


def read(cut: TimersAtCut, size: int = 3) -> Timers:
    """A snapshot's timers in firing order, read in slices."""
    timestamps: list[int] = []
    keys: list[str] = []
    for some_timestamps, some_keys in cut.slices(size):
        assert 0 < len(some_keys) < 2 * size
        timestamps += some_timestamps
        keys += some_keys
    return list(zip(*in_order(timestamps, keys), strict=True))


class Queue(RuleBasedStateMachine):
    """Buckets of more than two keys count as large; the model is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(timer_buckets, "COPIED_MAX", 2)
        self.patch.start()
        self.timers: TimerQueue[str] = TimerQueue()
        self.model: Timers = []
        self.cuts: list[tuple[TimersAtCut, Timers]] = []

    @rule(timestamp=TIMES, key=NAMES)
    def register(self, timestamp: int, key: str) -> None:
        fresh = (timestamp, key) not in self.model
        assert fresh == self.timers.register(timestamp, key)
        if fresh:
            self.model.append((timestamp, key))

    @rule(timestamp=TIMES)
    def register_many(self, timestamp: int) -> None:
        for key in "hgfedcba":
            self.register(timestamp, key)

    @rule(timestamp=TIMES, key=NAMES)
    def delete(self, timestamp: int, key: str) -> None:
        assert ((timestamp, key) in self.model) == self.timers.delete(timestamp, key)
        self.model = [timer for timer in self.model if timer != (timestamp, key)]

    @rule(up_to=TIMES)
    def fire(self, up_to: int) -> None:
        assert self.due(up_to) == list(self.timers.pop_due(up_to))
        self.model = [timer for timer in self.model if timer[0] > up_to]

    @rule(up_to=TIMES, count=st.integers(1, 4))
    def fire_some(self, up_to: int, count: int) -> None:
        due = self.timers.pop_due(up_to)
        fired = list(islice(due, count))
        due.close()  # type: ignore[attr-defined]
        assert fired == self.due(up_to)[: len(fired)]
        self.model = [timer for timer in self.model if timer not in fired]

    @rule()
    def freeze(self) -> None:
        self.cuts.append((self.timers.freeze(), list(self.model)))

    @precondition(lambda self: self.cuts)
    @rule(which=st.integers(0, 99))
    def end_a_snapshot(self, which: int) -> None:
        self.check(*self.cuts.pop(which % len(self.cuts)))

    @rule(budget=st.integers(0, 6))
    def settle(self, budget: int) -> None:
        self.timers.settle(budget)

    @invariant()
    def heap_and_buckets_agree(self) -> None:
        buckets = self.timers._buckets
        assert sorted(self.timers._heap) == sorted(buckets)
        assert self.timers._empty == sum(not bucket for bucket in buckets.values())

    def due(self, up_to: int) -> Timers:
        return sorted((timer for timer in self.model if timer[0] <= up_to), key=lambda timer: timer[0])

    def check(self, cut: TimersAtCut, expected: Timers) -> None:
        assert sorted(expected, key=lambda timer: timer[0]) == read(cut)
        cut.release()
        cut.release()

    @invariant()
    def is_the_model(self) -> None:
        assert self.due(9) == self.timers.snapshot()
        assert len(self.model) == len(self.timers)
        assert min((timer[0] for timer in self.model), default=None) == self.timers.next_time

    def teardown(self) -> None:
        for cut, expected in self.cuts:
            self.check(cut, expected)
        for _ in range(200):
            if self.timers.settle(2):
                break
        assert self.timers.settle(0)
        assert all(type(bucket) is dict for bucket in self.timers._buckets.values())
        assert not self.timers._large
        self.is_the_model()
        self.heap_and_buckets_agree()
        self.patch.stop()


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=30, stateful_step_count=40)


def test_a_timer_set_again_while_its_bucket_settles_comes_last() -> None:
    """A key that a snapshot had, and that was deleted and registered anew, keeps its new place."""
    bucket = LargeBucket(dict.fromkeys(range(4)))
    for key in (0, 1):
        del bucket[key]
    bucket[9] = None
    bucket[0] = None
    orders = [list(bucket)]
    for _ in range(20):
        if bucket.settle(1):
            break
        orders.append(list(bucket))
    assert orders == [[2, 3, 9, 0]] * len(orders)
    assert list(bucket.base) == [2, 3, 9, 0]


@pytest.mark.parametrize("distinct", [True, False], ids=["distinct", "equal"])
def test_a_snapshot_is_the_buckets_themselves(distinct: bool) -> None:
    """Nothing is copied at the cut, and a large bucket not even when it is changed."""
    timers: TimerQueue[int] = TimerQueue()
    for key in range(3_000):
        timers.register(key if distinct else 5, key)
    held = timers._buckets
    bucket = held[5]
    cut = timers.freeze()
    timers.register(5, -1)
    assert held is cut._layers[0]
    assert cut._layers[0][5] is bucket
    assert -1 not in bucket
    if not distinct:
        assert timers._buckets[5].base is bucket
    cut.release()
    while not timers.settle(100):
        pass
    assert timers._buckets is held
    assert list(held[5])[-1] == -1


def test_a_large_bucket_settles_however_fast_timers_are_set() -> None:
    """Each call does what came since the last one, and some more."""
    timers: TimerQueue[int] = TimerQueue()
    for key in range(2_000):
        timers.register(5, key)
    cut = timers.freeze()
    for key in range(2_000, 4_000):
        timers.register(5, key)
    cut.release()
    fresh = 4_000
    for _ in range(300):
        if timers.settle(10):
            break
        for _ in range(50):
            timers.register(5, fresh)
            fresh += 1
    assert timers.settle(0)
    assert [key for _, key in timers.pop_due(5)] == list(range(fresh))


def test_a_bucket_in_many_snapshots_is_copied_at_last() -> None:
    """Buckets above buckets have a bound."""
    bucket: dict[int, None] | LargeBucket = dict.fromkeys(range(2_000))
    depths = []
    for number in range(2_000, 2_000 + 2 * DEPTH_MAX + 2):
        bucket = copied(bucket)
        bucket[number] = None
        depths.append(bucket.depth if isinstance(bucket, LargeBucket) else 0)
    assert depths == [*range(1, DEPTH_MAX + 1), 0] * 2
    assert list(bucket) == list(range(2_000 + 2 * DEPTH_MAX + 2))
