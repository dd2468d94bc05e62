"""A time to live in the operator: the clock it goes by, the harness, snapshots under way, long walks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ttl_samples import GROUPS, HEAP, blob_of, states, workbench, write

import headgate as hg
from headgate.api.declared.state_ttl import StateTtl, TtlCleanup
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.ttl.declared import with_stamps
from headgate.testing import ManualClock, OperatorHarness
from headgate.testing.suites.value_checks import snapshot_blob

DOCS = Path(__file__).parents[4] / "docs/state-ttl.md"


class Visits(hg.KeyedProcessFunction[str, dict[str, Any], int]):
    """Counts in event time; remembers the last by the wall clock."""

    count: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl(10, time="event"))
    last: hg.ListState[int] = hg.list_state(ttl=hg.StateTtl(10))
    ever: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: dict[str, Any], ctx: Any) -> Iterator[int]:
        self.count.value += 1
        self.ever.value += 1
        self.last.add(record["n"])
        if ctx.timestamp is not None:
            ctx.timers.register_event_time(ctx.timestamp + 10)
        yield self.count.value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        yield -self.count.value


def harness_at(mark: int) -> OperatorHarness:
    """A harness that has seen a watermark."""
    harness = OperatorHarness(Visits(), key="user", clock=ManualClock(1_000))
    harness.advance_watermark(mark)
    return harness


def test_each_state_goes_by_its_own_clock() -> None:
    """The watermark moves one, the wall clock the other, neither the third."""
    harness = harness_at(100)
    harness.process({"user": "ada", "n": 1}, timestamp=101)
    harness.advance_watermark(110)
    assert [harness.state(name, "ada") for name in ("count", "last", "ever")] == [0, [1], 1]
    harness.clock.advance(10)
    assert [harness.state(name, "ada") for name in ("count", "last", "ever")] == [0, [], 1]


def test_looking_with_the_harness_changes_nothing() -> None:
    """It shows what a read would give, without refreshing or removing."""
    harness = harness_at(100)
    harness.process({"user": "ada", "n": 1}, timestamp=101)
    harness.advance_watermark(110)
    assert harness.state("count", "ada") == 0
    assert harness._operator._backend.statistics()["count"].removed == 0


def test_a_timer_sees_the_watermark_in_force_before_it() -> None:
    """A timer at 110 fires while event time is at 109, wherever the watermark goes in one step."""
    harness = harness_at(100)
    harness.process({"user": "ada", "n": 1}, timestamp=100)
    harness.take()
    harness.advance_watermark(500)
    assert harness.take() == [-1]


def test_time_goes_on_from_the_snapshot_of_an_operator() -> None:
    """Stamps and watermark are restored together."""
    harness = harness_at(100)
    harness.process({"user": "ada", "n": 1}, timestamp=101)
    clock = ManualClock(1_005)
    later = OperatorHarness.restore(Visits(), harness.snapshot(), key="user", clock=clock)
    assert (later.state("count", "ada"), later.state("last", "ada")) == (1, [1])
    later.advance_watermark(110)
    clock.advance(5)
    assert (later.state("count", "ada"), later.state("last", "ada")) == (0, [])


def test_the_sweep_goes_on_while_a_snapshot_is_under_way() -> None:
    """What it removes is still in the snapshot of before, and in no later one."""
    with workbench() as bench:
        descriptors = states(StateTtl(10, cleanup=TtlCleanup(full_snapshot=False)), "count", "log")
        backend = bench.make(HEAP, descriptors)
        for number in range(20):
            write(backend, f"cold{number}", 1)
        bench.clock.now = 10
        pending = backend.snapshot_sync(1)
        for _ in range(30):
            write(backend, "hot", 1)
        before = bench.make(HEAP, descriptors, snapshot_blob(pending))
        after = bench.make(HEAP, descriptors, blob_of(backend))
        assert (len(list(before.scan("log"))), [key for key, _ in after.scan("log")]) == (20, ["hot"])


def test_a_filter_of_a_snapshot_uses_the_time_of_the_cut() -> None:
    """However late it is written."""
    with workbench() as bench:
        descriptors = states(StateTtl(10), "count")
        backend = bench.make(HEAP, descriptors)
        write(backend, "ada", 1)
        bench.clock.now = 9
        pending = backend.snapshot_sync(1)
        bench.clock.now = 100
        write(backend, "bob", 1)
        assert list(bench.make(HEAP, descriptors, snapshot_blob(pending)).scan("count")) == [("ada", 1)]


def test_a_long_walk_over_rocksdb_sees_every_key_once(tmp_path: Path) -> None:
    """In portions, each key once, also where entries go on the way."""
    kept = with_stamps(states(StateTtl(10), "count"))
    backend = RocksKeyedBackend(
        kept, 0, GROUPS - 1, GROUPS, directory=tmp_path / "db", memory=RocksMemory(LIMIT_MIN)
    )
    for number in range(700):
        write_plain(backend, number)
    seen = []
    for key, value in backend.scan("count"):
        assert value == key + 1
        seen.append(key)
        if key % 2:
            backend.handles["count"].bind(key)
            backend.handles["count"].clear()
            backend.handles["count"].store()
    assert sorted(seen) == list(range(700))
    assert sorted(key for key, _ in backend.scan("count")) == list(range(0, 700, 2))
    backend.close()


def write_plain(backend: RocksKeyedBackend, number: int) -> None:
    """Put one value."""
    handle: Any = backend.handles["count"]
    handle.bind(number)
    handle.value = number + 1
    handle.store()


def test_the_examples_of_the_page_run() -> None:
    """docs/state-ttl.md has a program; it does what the page says."""
    (program,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(program, str(DOCS), "exec", dont_inherit=True), scope)
    assert scope["harness"].take() == ["ada logged in"]
