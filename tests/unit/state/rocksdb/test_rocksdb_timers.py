"""Timers in RocksDB are those of a queue in memory, however few of them are there, and across restores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from native_bench import GROUPS, MEMORY, NativeBench, keyed, put, tables

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.timers import TimerQueue
from headgate.state.heap.backend import TIMER_KINDS
from headgate.state.rocksdb import timer_queue
from headgate.state.rocksdb.database import Database
from headgate.state.rocksdb.timer_queue import RocksTimerQueue, stored_timer, timer_of
from headgate.testing.suites.value_checks import snapshot_blob

ON_DISK = {"timers_on_disk": True}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One for all queues; each empties its column family."""
    made = Database(tmp_path_factory.mktemp("timers") / "db", TIMER_KINDS, MEMORY)
    yield made
    made.close()


@pytest.fixture
def queue(database: Database) -> RocksTimerQueue:
    """A queue that holds two to four timers in memory and writes every three changes."""
    store = database.stores[TIMER_KINDS[0]]
    store.write([(key, None) for key, _ in store.items(stop=b"\xff" * 9)])
    return RocksTimerQueue(store, GROUPS, 2, 3)


TIMES = st.sampled_from([WATERMARK_MIN, -5, 0, 1, 2, 3, 10, 2**40, WATERMARK_MAX])
KEYS = st.sampled_from(["a", "b", 1, True, 1.0, ("x", 2), b"c"])
OPERATIONS = st.lists(
    st.one_of(
        *[st.tuples(st.just("register"), TIMES, KEYS)] * 4,
        *[st.tuples(st.just("delete"), TIMES, KEYS)] * 2,
        st.tuples(st.just("fire"), TIMES, st.integers(0, 5)),
        st.tuples(st.just("look"), TIMES, st.none()),
        st.tuples(st.just("flush"), st.none(), st.none()),
        st.tuples(st.just("attach"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(
    max_examples=100, derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)
@given(OPERATIONS)
def test_random_operations_are_those_of_a_queue_in_memory(database: Database, taken: list[Any]) -> None:
    """What each call gives, what fires up to when, the interrupt and the length; ties in any order."""
    store = database.stores[TIMER_KINDS[1]]
    store.write([(key, None) for key, _ in store.items(stop=b"\xff" * 9)])
    queue, model = RocksTimerQueue(store, GROUPS, 2, 3), TimerQueue[Any](limit=2)
    queue.limit = 2
    for action, time, other in taken:
        if action in ("register", "delete"):
            assert getattr(queue, action)(time, other) == getattr(model, action)(time, other)
            assert queue.interrupt == model.interrupt
        elif action == "fire":
            _fire_alike(queue, model, time, other)
            queue.interrupt = model.interrupt = False
        elif action == "look":
            assert queue.has_due(time) == model.has_due(time)
        elif action == "flush":
            queue.flush()
        else:
            queue.flush()
            queue.attach(store)
        assert queue.next_time == model.next_time
    assert queue.about() >= 0
    assert len(queue) == len(model) == queue.about()
    assert queue.snapshot() == sorted(model.snapshot(), key=_order)
    assert list(queue.pop_due(WATERMARK_MAX)) == sorted(model.snapshot(), key=_order)
    assert (len(queue), queue.next_time, list(queue.entries())) == (0, None, [])


def _fire_alike(queue: Any, model: TimerQueue[Any], up_to: int, count: int) -> None:
    """Fire some from one, take them from the other: the earliest that are due, each once."""
    due = sorted((timer for timer in model.snapshot() if timer[0] <= up_to), key=_order)
    fired = list(itertools.islice(queue.pop_due(up_to), count))
    assert fired == due[:count]
    for timestamp, key in fired:
        assert model.delete(timestamp, key)


def _order(timer: tuple[int, Any]) -> bytes:
    return stored_timer(*timer, GROUPS)[0]


def test_what_is_registered_while_firing_comes_in_its_place(queue: RocksTimerQueue) -> None:
    """Earlier ones come next, deleted ones do not come, and an abandoned iteration loses nothing."""
    for time in range(10, 20):
        queue.register(time, "k")
    seen = []
    for timestamp, _ in queue.pop_due(15):
        seen.append(timestamp)
        if timestamp == 11:
            queue.register(5, "early")
            queue.delete(12, "k")
        if timestamp == 13:
            break
    assert seen == [10, 11, 5, 13]
    queue.register(13, "late")
    assert list(queue.pop_due(15)) == [(13, "late"), (14, "k"), (15, "k")]
    assert len(queue) == 4


def test_memory_holds_a_bounded_number(queue: RocksTimerQueue) -> None:
    """However many there are, before and after the next ones were read."""
    for time in range(200, 0, -1):
        queue.register(time, time)
        assert len(queue._live) <= 4
        assert len(queue._pending) <= 3
    assert [timestamp for timestamp, _ in queue.pop_due(150)] == list(range(1, 151))
    assert (len(queue), queue.next_time) == (50, 151)
    assert len(queue._head) <= 4


def test_timers_that_come_and_go_at_once_are_never_written(queue: RocksTimerQueue) -> None:
    """A timeout that is moved with each record costs no tombstone; nor does the heap grow."""
    queue.register(1, "other")
    queue.flush()
    for time in range(1000):
        queue.register(time + 100, "k")
        queue.delete(time + 100, "k")
        assert queue._pending == {}
    assert len(queue._head) < 100


def test_what_is_no_timestamp_is_refused_or_not_there(queue: RocksTimerQueue) -> None:
    """As by the queue in memory."""
    for wrong in (1.5, "10", None, 2**63):
        with pytest.raises(UsageError, match="expected whole milliseconds as an int of 64 bits"):
            queue.register(wrong, "k")  # type: ignore[arg-type]
        assert not queue.delete(wrong, "k")  # type: ignore[arg-type]
    memory = TimerQueue[Any]()
    for equal in (10.0, Decimal(10), np.int64(10), np.float64(10)):
        for timers in (queue, memory):
            timers.register(10, "k")
            assert timers.delete(equal, "k")  # type: ignore[arg-type]
            assert not timers.delete(float("inf"), "k")  # type: ignore[arg-type]
            assert timers.next_time is None


def test_the_key_comes_back_as_it_was_registered(queue: RocksTimerQueue) -> None:
    """Although keys that are equal are one, and another of them may stand for it in RocksDB."""
    queue.register(1, True)
    queue.flush()
    queue.attach(queue._store)
    ((timestamp, key),) = queue.pop_due(1)
    assert (timestamp, type(key)) == (1, bool)


def test_a_damaged_timer_is_told(queue: RocksTimerQueue) -> None:
    """Before anything fires at a wrong time."""
    with pytest.raises(StorageError, match="a timer stored in RocksDB does not decode"):
        timer_of(b"\0" * 9, b"")
    queue._store.write([(b"\x80" + b"\0" * 9 + b"\xc1", b"")])
    queue.attach(queue._store)
    with pytest.raises(StorageError, match="it is damaged"):
        queue.has_due(0)


# -- in checkpoints


def _set(made: Any, count: int) -> set[tuple[int, int]]:
    timers = {(n % 17, n) for n in range(count)}
    for timestamp, key in timers:
        made.event_timers.register(timestamp, key)
        made.processing_timers.register(-timestamp, key)
    return timers


def _found(made: Any) -> set[tuple[int, Any]]:
    assert {(-t, k) for t, k in made.processing_timers.snapshot()} == set(made.event_timers.snapshot())
    return set(made.event_timers.snapshot())


def test_they_are_part_of_incremental_checkpoints_without_being_copied(bench: NativeBench) -> None:
    """A second checkpoint refers to the table with the timers of the first."""
    made = bench.backend(**ON_DISK)
    timers = _set(made, 5000)
    one = bench.snapshot(made, 1)
    put(made, {1: "x"})
    made.event_timers.register(99, 99)
    made.processing_timers.register(-99, 99)
    two = bench.snapshot(made, 2, completed=1)
    assert tables(one).items() < tables(two).items()
    assert two.bytes_written < one.bytes_written / 10
    again = bench.backend(stored=[keyed(two)], **ON_DISK)
    assert _found(again) == timers | {(99, 99)}
    assert again.event_timers.next_time == 0
    assert len(list(again.event_timers.pop_due(5))) == sum(timestamp <= 5 for timestamp, _ in timers)
    assert len(again.event_timers) == 5001 - sum(timestamp <= 5 for timestamp, _ in timers)


@pytest.mark.parametrize(
    ("before", "incremental"),
    [
        (True, True),
        *[pytest.param(*c, marks=pytest.mark.ci) for c in ((True, False), (False, True), (False, False))],
    ],
)
def test_where_they_live_may_change_at_any_restore(
    bench: NativeBench, before: bool, incremental: bool
) -> None:
    """From memory to RocksDB, from RocksDB to memory, into the heap backend, at another parallelism."""
    made = bench.backend(timers_on_disk=before, incremental=incremental)
    timers = _set(made, 300)
    stored = [keyed(bench.snapshot(made, 1))]
    for after, parallelism in itertools.product([False, True], [1, 3]):
        parts = bench.subtasks(parallelism, stored, timers_on_disk=after, incremental=incremental)
        assert set().union(*map(_found, parts)) == timers
        assert sum(len(part.event_timers) for part in parts) == 300
        drawn = [keyed(bench.draw(part, 2, subtask=i)()) for i, part in enumerate(parts)]
        (whole,) = bench.subtasks(1, drawn, timers_on_disk=before)
        assert _found(whole) == timers
    assert _found(bench.heap(stored)) == timers


@pytest.mark.parametrize("time", [WATERMARK_MIN, 2**62, WATERMARK_MAX - 1, WATERMARK_MAX])
def test_timers_at_the_ends_of_time_alone_move_into_memory(bench: NativeBench, time: int) -> None:
    """Their bytes may lie behind those of every key of a state."""
    made = bench.backend(**ON_DISK)
    made.event_timers.register(time, "k")
    stored = [keyed(bench.snapshot(made, 1))]
    for on_disk, parallelism in itertools.product([False, True], [1, 2]):
        parts = bench.subtasks(parallelism, stored, timers_on_disk=on_disk)
        assert [timer for part in parts for timer in part.event_timers.snapshot()] == [(time, "k")]


def test_the_canonical_blob_is_that_of_timers_in_memory(
    bench: NativeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By key group and in firing order, also when they are too many to be held at once."""
    blobs = []
    for on_disk, at_once in ((False, 1000), (True, 1000), (True, 7)):
        monkeypatch.setattr(timer_queue, "PASS_TIMERS", at_once)
        made = bench.backend(incremental=False, timers_on_disk=on_disk)
        for n in range(100):
            made.event_timers.register(n * 7 % 100, n)
        blobs.append(snapshot_blob(made.snapshot_sync()))
    assert blobs[0] == blobs[1] == blobs[2]


def test_a_timer_of_another_subtask_fails_the_snapshot(bench: NativeBench) -> None:
    """It would be lost at the next rescaling."""
    made = bench.backend((0, 3), incremental=False, **ON_DISK)
    for key in range(20):
        made.event_timers.register(1, key)
    with pytest.raises(
        InternalError, match=r"timers:event hold one of key \d+, which is outside the key groups 0 to 3"
    ):
        snapshot_blob(made.snapshot_sync())


def test_changes_after_the_cut_do_not_reach_the_snapshot(bench: NativeBench) -> None:
    """What fires or is set while the snapshot is written belongs to the next one."""
    made = bench.backend(incremental=False, **ON_DISK)
    timers = _set(made, 50)
    pending = made.snapshot_sync()
    list(made.event_timers.pop_due(WATERMARK_MAX))
    made.event_timers.register(1000, 1)
    restored = bench.heap([])
    restored.restore([snapshot_blob(pending)])
    assert set(restored.event_timers.snapshot()) == timers
