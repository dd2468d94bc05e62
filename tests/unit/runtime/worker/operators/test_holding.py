"""Keys whose records are held: each sees, over releases, what it would see without the failure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import Recorder, columns, context, opened, rows

import headgate as hg
from headgate.api.declared.held_names import HELD
from headgate.api.held_states import with_held_states
from headgate.api.holding import Holding
from headgate.common.time import WATERMARK_MAX
from headgate.graph.logical import NEW, KeyedProcessNode
from headgate.metrics.metric_table import HELD_RECORDS
from headgate.records.row import Row
from headgate.runtime.worker.operators.guarded.holding_keyed import HoldingKeyedOperator
from headgate.state.snapshots import Inline, OperatorSubtaskState


class TwoClocks:
    """The wall clock stands until a test moves it; each call of the function takes a ms of the other."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_000, 0

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.passed

    def precise_ms(self) -> float:
        return float(self.passed)


class Journal(hg.KeyedProcessFunction[Any, Any, Any]):
    """Tells all that it sees; changes state, sets and deletes timers, and then fails on some."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()

    def __init__(self, clock: TwoClocks, bad: frozenset[Any] = frozenset()) -> None:
        self.clock, self.bad = clock, bad

    def process(self, record: dict[str, Any], ctx: Any) -> Iterator[Any]:
        self.clock.passed += 1
        n = record["n"]
        self.total.value += n
        self.seen.add(n)
        for later in record.get("later", ()):
            ctx.timers.register_event_time(ctx.timestamp + later)
        for gone in record.get("gone", ()):
            ctx.timers.delete_event_time(gone)
        for later in record.get("wall", ()):
            ctx.timers.register_processing_time(record["at"] + later)
        yield ctx.key, "record", n, ctx.timestamp, self.total.value, len(self.seen.get())
        record["n"] = -1  # a function may change what it gets
        if n in self.bad:
            record["n"] = n
            raise ValueError(f"no {n}")

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.clock.passed += 1
        self.total.value += 1_000
        if timestamp % 7 == 0 and self.total.value < 5_000 and ctx.time_domain == "event":
            ctx.timers.register_event_time(timestamp + 5)
        yield ctx.key, ctx.time_domain, timestamp, ctx.timers.current_watermark, self.total.value
        if timestamp in self.bad:
            raise KeyError(timestamp)


class Files:
    """Snapshots in memory."""

    def write(self, uid: str, parts: Any) -> Inline:
        return Inline(b"".join(map(bytes, parts)))

    def write_sections(self, uid: str, sections: Sequence[Any], *, inline: bool) -> list[Any]:
        return [self.write(uid, parts) for parts in sections]

    def share(self, handle: Any, root: str | None) -> bool:
        return False


class Versions:
    """A program that is restored again and again; keeps what it has emitted, by key."""

    def __init__(
        self,
        function: Any = Journal,
        hold: int = 1_000,
        of: Any = None,
        bounds: tuple[int, float] = (10**6, 2.0),
        **where: Any,
    ) -> None:
        self.clock, self.function, self.hold, self.where = TwoClocks(), function, hold, where
        self.of, self.bounds = of, bounds
        self.stored: list[OperatorSubtaskState] = []
        self.main, self.sides = Recorder(), {}

    def start(self, release: str, bad: frozenset[Any] = frozenset()) -> HoldingKeyedOperator:
        policy, function = Holding(self.hold, release), self.function(self.clock, bad)
        node = with_held_states(
            KeyedProcessNode(NEW, "", function=function, key="key", on_error=policy), self.of
        )
        where = context(
            clock=self.clock,
            step_target_ms=1,
            failing_records=self.bounds,
            restored=self.stored,
            **self.where,
        )
        self.operator = HoldingKeyedOperator(where, node, copy.copy(node.function))
        main, sides = opened(self.operator, "errors")
        main.log[:0], self.main = self.main.log, main
        sides["errors"].log[:0] = self.sides.get("errors", Recorder()).log
        self.sides = sides
        return self.operator

    def stop(self) -> None:
        pending = self.operator.snapshot(1)
        assert pending is not None
        self.stored = [pending.finish(Files())]
        self.operator.close()

    def feed(self, items: Sequence[Any]) -> None:
        self.settle()
        for item in items:
            if isinstance(item, int):
                self.operator.watermark(item)
            elif isinstance(item, tuple):
                self.clock.wall = item[0]
                while (due := self.operator.next_processing_time()) is not None and due <= item[0]:
                    self.operator.fire_processing_time(item[0])
            else:
                copied = copy.deepcopy(item)
                times = [record["time"] for record in copied] if "time" in copied[0] else None
                marks = times and [record["mark"] for record in copied]
                self.operator.process(rows(copied, times, marks))
            self.settle()

    def settle(self) -> None:
        while self.operator.busy:
            self.operator.go_on()

    def emitted(self) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for record, _, _ in self.main.timed():
            found.setdefault(record[0], []).append(record[1:])
        return found

    def errors(self) -> list[Any]:
        return [record for record, _, _ in self.sides["errors"].timed()]


def record(n: int, key: Any = "a", time: int | None = None, mark: int = 0, **more: Any) -> dict[str, Any]:
    timed = {} if time is None else {"time": time, "mark": mark}
    return {"n": n, "key": key, **timed, **more}


def without_the_bug(items: Sequence[Any], **where: Any) -> dict[Any, list[Any]]:
    versions = Versions(**where)
    versions.start("1")
    versions.feed(items)
    versions.operator.close()
    return versions.emitted()


@st.composite
def inputs(draw: st.DrawFn) -> list[Any]:
    """Batches of records with timers in event time, and watermarks."""
    items: list[Any] = []
    mark, n = 0, 0
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            batch = []
            for _ in range(draw(st.integers(1, 6))):
                n, mark = n + 1, mark + draw(st.integers(0, 9))
                later = draw(st.lists(st.integers(-3, 30), max_size=2))
                gone = draw(st.lists(st.integers(0, 60), max_size=2))
                key = draw(st.sampled_from("ab"))
                batch.append(record(n, key, mark + draw(st.integers(0, 5)), mark, later=later, gone=gone))
            items.append(batch)
        else:
            mark += draw(st.integers(1, 20))
            items.append(mark)
    return [*items, mark + 100, WATERMARK_MAX]


@given(
    inputs(),
    st.sets(st.integers(1, 40)),
    st.lists(st.integers(0, 9), min_size=2, max_size=2),
    st.integers(0, 9),
)
@settings(max_examples=80, deadline=None)
def test_each_key_sees_what_it_would_see_without_the_bug(
    items: list[Any], bad: set[int], cuts: list[int], steps: int
) -> None:
    """Records and timers, with their times; a checkpoint is restored in one release, and within a release."""
    kept, released = sorted(min(cut, len(items) - 1) for cut in cuts)
    versions = Versions()
    versions.start("1", frozenset(bad))
    versions.feed(items[:kept])
    versions.stop()
    versions.start("1", frozenset(bad))
    versions.feed(items[kept:released])
    held = versions.operator.held.records
    versions.stop()
    versions.start("2")
    assert versions.operator.measured()[HELD_RECORDS.name] == held
    for _ in range(steps):
        if versions.operator.busy:
            versions.operator.go_on()
    versions.stop()
    versions.start("2")
    versions.feed(items[released:])
    assert versions.emitted() == without_the_bug(items)
    assert versions.operator.held.records == 0
    assert [name for name in HELD if list(versions.operator._backend.keys(name))] == []
    versions.operator.close()


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.integers(1, 30), max_size=2), st.integers(0, 20))),
    st.sets(st.integers(1, 20)),
    st.integers(0, 20),
)
@settings(max_examples=40, deadline=None)
def test_timers_of_the_wall_clock_keep_their_place_among_records(
    drawn: list[tuple[str, list[int], int]], bad: set[int], cut: int
) -> None:
    """In a stream without event time."""
    wall, items = 1_000, list[Any]()
    for n, (key, later, passed) in enumerate(drawn, 1):
        wall += passed
        items += [(wall,), [record(n, key, wall=later, at=wall)]]
    items.append((wall + 100,))
    versions = Versions()
    versions.start("1", frozenset(bad))
    versions.feed(items[: 2 * cut])
    versions.stop()
    versions.start("2")
    versions.feed(items[2 * cut :])
    assert versions.emitted() == without_the_bug(items)
    versions.operator.close()


def test_what_fails_again_is_held_again_with_what_is_behind_it() -> None:
    """Each failure is quarantined, and marked."""
    batch = [record(n) for n in (1, 2, 3, 4, 5)]
    versions = Versions()
    versions.start("1", frozenset({2, 4}))
    versions.feed([batch])
    assert versions.operator.held.records == 4
    versions.stop()
    versions.start("2", frozenset({4}))
    versions.feed([])
    assert [each[1] for each in versions.emitted()["a"]] == [1, 2, 3]
    versions.stop()
    versions.start("2")
    versions.feed([[record(6)]])
    assert [each[1] for each in versions.emitted()["a"]] == [1, 2, 3]
    versions.stop()
    versions.start("3")
    versions.feed([[record(7)]])
    assert versions.emitted() == without_the_bug([[*batch, record(6), record(7)]])
    assert [(each.message, each.held) for each in versions.errors()] == [("no 2", True), ("no 4", True)]
    versions.operator.close()


def test_a_timer_that_fails_holds_its_key() -> None:
    """It is quarantined, and fires first in the next release."""
    items = [[record(1, time=1, later=[5])], 20, [record(2, time=30, mark=20)], 40]
    versions = Versions()
    versions.start("1", frozenset({6}))
    versions.feed(items)
    assert [each[0] for each in versions.emitted()["a"]] == ["record"]
    assert [(each.timer, each.timestamp, each.held) for each in versions.errors()] == [(True, 6, True)]
    versions.stop()
    versions.start("2", frozenset({6}))
    versions.feed([])
    versions.stop()
    versions.start("3")
    versions.feed([])
    assert versions.emitted() == without_the_bug(items)
    versions.operator.close()


def test_another_record_than_may_be_held_fails_the_attempt() -> None:
    """Of one key; the message says what to do."""
    versions = Versions(hold=2)
    versions.start("1", frozenset({1}))
    versions.feed([[record(1), record(2), record(3, "b"), record(4, "b"), record(5, "b")]])
    with pytest.raises(
        hg.UsageError, match=r"holds 2 records of key 'a' .* as many as hold=2 allows.*raise hold"
    ):
        versions.feed([[record(6)]])
    versions.operator.close()


def test_rows_of_columns_are_given_as_rows() -> None:
    """Whose columns are gone by then."""

    class Rows(Journal):
        def process(self, record: Any, ctx: Any) -> Iterator[Any]:
            if record.n in self.bad:
                raise ValueError
            yield ctx.key, record.n, record.as_dict()

    versions = Versions(Rows)
    versions.start("1", frozenset({1}))
    batch = [record(n) for n in (1, 2)]
    versions.operator.process(columns(batch))
    versions.stop()
    versions.start("2")
    versions.feed([])
    assert versions.emitted() == {"a": [(n, record(n)) for n in (1, 2)]}
    versions.operator.close()


def test_a_release_is_cut_into_slices() -> None:
    """So a barrier waits for one of them; no more is given to the function in it."""
    versions = Versions()
    versions.start("1", frozenset(range(0, 100, 10)))
    versions.feed([[record(n, n // 10) for n in range(100)]])
    versions.stop()
    versions.start("2")
    slices = 0
    while versions.operator.busy:
        before = versions.clock.passed
        versions.operator.go_on()
        slices += 1
        assert versions.clock.passed <= before + 1
    assert slices >= 100
    assert versions.emitted() == without_the_bug([[record(n, n // 10) for n in range(100)]])
    versions.operator.close()


def test_keys_that_fail_again_end_a_slice_as_others_do() -> None:
    """Of many keys whose calls fail again, no more are called in it, and each is held on."""
    versions = Versions()
    bad = frozenset(range(100))
    versions.start("1", bad)
    versions.feed([[record(n, n) for n in range(100)]])
    versions.stop()
    versions.start("2", bad)
    slices = 0
    while versions.operator.busy:
        before = versions.clock.passed
        versions.operator.go_on()
        slices += 1
        assert versions.clock.passed <= before + 1
    assert slices == 100
    assert versions.operator.held.records == 100
    versions.stop()
    versions.start("3")
    versions.feed([])
    assert versions.emitted() == without_the_bug([[record(n, n) for n in range(100)]])
    versions.operator.close()


def test_failures_at_a_release_do_not_count_anew() -> None:
    """A release that mends some of many keys starts; new bad records are bounded as ever."""
    versions = Versions(bounds=(60, 2.0))
    bad = frozenset(range(100))
    versions.start("1", bad)
    for first in (0, 50):
        versions.feed([[record(n, n) for n in range(first, first + 50)]])
        versions.stop()  # a checkpoint, from which on it counts anew
        versions.start("1", bad)
    versions.stop()
    versions.start("2", bad - {7})
    versions.feed([])
    assert versions.operator.held.records == 99
    assert versions.emitted() == without_the_bug([[record(7, 7)]])
    more = frozenset(range(200, 260))
    versions.stop()
    versions.start("3", more | {300})
    versions.feed([[record(n, n) for n in sorted(more)]])
    with pytest.raises(hg.UserFunctionError, match="no 300"):
        versions.feed([[record(300, 300)]])
    versions.operator.close()


def test_a_record_that_state_cannot_hold_fails_the_attempt() -> None:
    """Nobody said of which type it is."""
    versions = Versions()
    versions.start("1", frozenset({1}))
    with pytest.raises(hg.UsageError, match=r"which holds records of a key, is to keep a Other"):
        versions.operator.process(rows([Other(1, "a")]))


def test_each_record_is_checked_when_it_is_held() -> None:
    """Not when a checkpoint is taken, and not only the first of its class."""
    versions = Versions()
    versions.start("1", frozenset({1}))
    versions.operator.process(rows([record(1), record(2, later=[3.5])]))
    with pytest.raises(
        hg.UsageError, match=r"the op\b.* is to keep a dict that state cannot hold; .*make dict"
    ):
        versions.operator.process(rows([record(3, later=[object()])]))
    versions.operator.close()


class Seen(Journal):
    """Fails on its first release; then tells what it gets."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        if self.bad:
            raise ValueError
        yield ctx.key, record


@dataclasses.dataclass
class Pair:
    """Of a key and a number, but for bad ones."""

    key: str
    n: int


class Triple(NamedTuple):
    """Another class of records."""

    key: str
    n: int
    more: int = 5


ODD = [
    Pair("a", 1),
    Pair("a", "2"),  # type: ignore[arg-type]
    Triple("a", 1),
    Triple("a", [1.5], {2}),  # type: ignore[arg-type]
    {"key": "a", "n": None},
]


@pytest.mark.parametrize(
    ("declared", "records"),
    [
        (Pair | Triple, ODD),
        (Pair, [ODD[1], ODD[0], ODD[4]]),
        (dict[str, int], [record(1), record(2, more="2"), {"key": "a", 7: (1, 2)}]),
        (dict[str, int], [Row.of(key="a", n=1, x="x"), Row.of(key="a", n=2)]),
        (Any, [record(1), Row.of(key="a", n=b"1")]),
    ],
)
def test_what_is_not_of_its_declared_type_comes_back_as_it_was(declared: Any, records: list[Any]) -> None:
    """With its class, through a snapshot."""
    versions = Versions(Seen, of=declared)
    versions.start("1", frozenset({1}))
    for each in records:
        versions.operator.process(rows([each]))
    versions.stop()
    versions.start("2")
    versions.feed([])
    assert [each for (each,) in versions.emitted()["a"]] == records
    assert [type(each) for (each,) in versions.emitted()["a"]] == list(map(type, records))
    versions.operator.close()


@dataclasses.dataclass(frozen=True)
class Frozen(hg.KeyedProcessFunction[Any, Any, Any]):
    """A function whose attributes cannot be set."""

    clock: TwoClocks
    bad: frozenset[Any]

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        if self.bad:
            raise ValueError
        yield ctx.key, record


def test_functions_that_are_frozen_hold_records() -> None:
    """As the plan makes their class anew."""
    versions = Versions(Frozen)
    versions.start("1", frozenset({1}))
    versions.feed([[record(1)], [record(2)]])
    versions.stop()
    versions.start("2")
    versions.feed([])
    assert versions.emitted() == {"a": [(record(1),), (record(2),)]}
    versions.operator.close()


def test_fields_that_cannot_be_stored_fail_the_attempt() -> None:
    """In the words of the record's class."""
    versions = Versions(Seen, of=Pair)
    versions.start("1", frozenset({1}))
    with pytest.raises(
        hg.UsageError, match=r"is to keep a Pair that state cannot hold; annotate .* return Pair"
    ):
        versions.operator.process(rows([Pair("a", object())]))  # type: ignore[arg-type]
    versions.operator.close()


@dataclasses.dataclass
class Other:
    """No plain data."""

    n: int
    key: str

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def get(self, name: str, default: Any) -> Any:
        return default
