"""Operators with a broadcast side: who may touch which state, all keys, exact event time, slices, restore."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from operator import delitem, setitem
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import ManualClock, Recorder, context, finished, opened, rows

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.common.errors import InternalError, UserFunctionError
from headgate.common.time import WATERMARK_MIN
from headgate.graph.logical import Side
from headgate.runtime.worker.operators.broadcast_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.state.backends import HeapBackends, RocksBackends
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.testing import OperatorHarness

Do = Callable[..., Any]


class Plain(hg.BroadcastProcessFunction[Any, Any, Any]):
    """Each record is a function of itself and the context, which is called."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()

    def process(self, record: Do, ctx: Any) -> Any:
        return record(self, ctx)

    def process_broadcast(self, record: Do, ctx: Any) -> Any:
        return record(self, ctx)


class Keyed(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Main records are (key, what to call); those of the other side are called."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()
    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[str] = hg.list_state()
    totals: hg.MapState[str, int] = hg.map_state()

    def process(self, record: tuple[str, Do], ctx: Any) -> Any:
        return record[1](self, ctx)

    def process_broadcast(self, record: Do, ctx: Any) -> Any:
        return record(self, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == 13:
            self.rules.put("from a timer", 13)
        yield "timer", ctx.key, timestamp, ctx.timers.current_watermark


def key_of(record: tuple[str, Do]) -> str:
    """Of main records."""
    return record[0]


def harness(function: Any) -> OperatorHarness:
    """A harness for one of the functions above."""
    return OperatorHarness(function, key_of if isinstance(function, Keyed) else None)


def put(name: str, value: int) -> Do:
    """A broadcast record that sets a rule."""
    return lambda function, _: function.rules.put(name, value)


def telling(what: Callable[[Any, Any], Any]) -> Do:
    """A record that emits what it finds."""
    return lambda function, ctx: [what(function, ctx)]


def count(function: Any, _: Any) -> None:
    """A main record that counts itself."""
    function.count.value += 1


# -- who may touch what


@pytest.mark.parametrize("function", [Plain(), Keyed()])
def test_what_one_side_is_told_the_other_side_reads(function: Any) -> None:
    """Every way of reading works on the main side, and sees what was put, removed and cleared."""

    def facts(f: Any, _: Any) -> list[Any]:
        one = [f.rules.get("a"), f.rules.get("z", 9), "a" in f.rules, list(f.rules), len(f.rules)]
        return [[*one, list(f.rules.items())]]

    bench = harness(function)
    main = ("k", facts) if isinstance(function, Keyed) else facts
    bench.process(main)
    bench.process_broadcast(put("a", 1))
    bench.process_broadcast(put("b", 2))
    bench.process(main)
    bench.process_broadcast(lambda f, _: f.rules.remove("a"))
    bench.process(main)
    bench.process_broadcast(lambda f, _: f.rules.clear())
    bench.process_broadcast(telling(lambda f, _: len(f.rules)))
    assert bench.take() == [
        [None, 9, False, [], 0, []],
        [1, 9, True, ["a", "b"], 2, [("a", 1), ("b", 2)]],
        [None, 9, False, ["b"], 1, [("b", 2)]],
        0,
    ]


@pytest.mark.parametrize("function", [Plain(), Keyed()])
@pytest.mark.parametrize("verb", ["put", "remove", "clear"])
def test_the_main_side_changes_nothing(function: Any, verb: str) -> None:
    """The refusal names the state and what to do, and is reported with operator and record."""
    bench = harness(function)
    bench.process_broadcast(put("a", 1))
    arguments = {"put": ("b", 2), "remove": ("a",), "clear": ()}[verb]
    change = lambda f, _: getattr(f.rules, verb)(*arguments)  # noqa: E731
    with pytest.raises(UserFunctionError, match=r"'rules' is read-only .* process_broadcast\(\)"):
        bench.process(("k", change) if isinstance(function, Keyed) else change)
    assert bench.operator_state("rules") == {"a": 1}


def test_timers_change_nothing_either() -> None:
    """A timer belongs to the main side, also when it fires between records of the other one."""
    bench = harness(Keyed())
    bench.process(("k", lambda _, ctx: ctx.timers.register_event_time(13)), 5)
    with pytest.raises(UserFunctionError, match="read-only"):
        bench.advance_watermark(13)
    bench = harness(Keyed())
    bench.process(("k", count), 5)

    def register_due(f: Any, ctx: Any) -> None:
        ctx.apply_to_all_keys(f.count, lambda *_: ctx.timers.register_event_time(13))

    bench.advance_watermark(20)
    with pytest.raises(UserFunctionError, match="read-only"):
        bench.process_broadcast(register_due, 5)


def test_open_may_read_but_not_change() -> None:
    """Before the first record no broadcast record has told anything."""

    class Opening(Plain):
        def open(self, context: Any) -> None:
            self.found = dict(self.rules.items())
            self.rules.put("a", 1)

    with pytest.raises(TypeError, match="read-only"):
        OperatorHarness(Opening())


@pytest.mark.parametrize(
    "use",
    [
        lambda f, ctx: f.count.value,
        lambda f, ctx: setattr(f.count, "value", 7),
        lambda f, ctx: f.seen.add("x"),
        lambda f, ctx: f.seen.get(),
        lambda f, ctx: "x" in f.totals,
        lambda f, ctx: list(f.totals),
        lambda f, ctx: len(f.totals),
        lambda f, ctx: f.totals["x"],
        lambda f, ctx: setitem(f.totals, "x", 1),
        lambda f, ctx: delitem(f.totals, "x"),
        lambda f, ctx: ctx.key,
        lambda f, ctx: ctx.timers.register_event_time(50),
        lambda f, ctx: ctx.timers.delete_processing_time(50),
    ],
)
def test_the_broadcast_side_has_no_key(use: Do) -> None:
    """Keyed state and timers are refused, and what the last main record's key holds stays as it is."""
    bench = harness(Keyed())
    bench.process(("k", count))
    with pytest.raises(UserFunctionError, match=r"no key; use ctx\.apply_to_all_keys"):
        bench.process_broadcast(use)
    assert (bench.state("count", "k"), bench.timers()) == (1, [])
    bench.process(("k", count))
    assert bench.state("count", "k") == 2


def test_no_side_but_the_two() -> None:
    """A harness of a function with one input, and an operator with one, say so."""

    class One(hg.ProcessFunction[Any, Any]):
        def process(self, record: Any, ctx: Any) -> None: ...

    with pytest.raises(hg.UsageError, match="One has no broadcast side"):
        OperatorHarness(One()).process_broadcast(1)
    with pytest.raises(InternalError, match="no broadcast side"):
        Operator(context()).entry(Side.BROADCAST)


# -- all keys


@pytest.fixture(params=["hashmap", "rocksdb"])
def keyed(request: Any, tmp_path: Path) -> Iterator[tuple[KeyedBroadcastProcessOperator, Recorder]]:
    """An open operator on either backend."""
    backends = HeapBackends() if request.param == "hashmap" else RocksBackends(1 << 24, str(tmp_path))
    operator = KeyedBroadcastProcessOperator(context(backends=backends), Keyed(), key_of)
    main, _ = opened(operator)
    yield operator, main
    operator.close()


def tell(operator: Operator, do: Do, at: int | None = None, mark: int | None = None) -> None:
    """One broadcast record."""
    batch = rows([do], None if at is None else [at], None if at is None else [mark])
    assert operator.entry(Side.BROADCAST)(batch) == 1


def test_every_key_with_an_entry_has_its_turn(keyed: Any) -> None:
    """Those without an entry in the state are left out; what the calls change is kept; others see it."""
    operator, main = keyed
    operator.process(rows([(key, count) for key in "abcab"]))
    operator.process(rows([("d", lambda f, _: f.seen.add("d"))]))
    operator.process(rows([("c", lambda f, _: f.count.clear())]))

    def double(key: str, state: Any) -> list[Any]:
        state.value *= 2
        return [(key, state.value)]

    tell(operator, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.count, double)))
    operator.process(rows([(key, telling(lambda f, ctx: (ctx.key, f.count.value))) for key in "abcd"]))
    assert main.records == [("a", 4), ("b", 4), ("a", 4), ("b", 4), ("c", 0), ("d", 0)]


def test_a_call_may_use_all_state_of_its_key(keyed: Any) -> None:
    """Other keyed state, broadcast state and the key itself; removing the entry while going through them."""
    operator, main = keyed
    operator.process(rows([(key, count) for key in "ab"]))

    def move(f: Any, ctx: Any) -> Do:
        def call(key: str, state: Any) -> Iterator[Any]:
            f.seen.add(f"{key} was {state.value}")
            f.totals.put(key, state.value)
            f.rules.put(key, len(f.rules))
            state.clear()
            yield ctx.key

        return call

    tell(operator, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.count, move(f, ctx))))
    tell(operator, lambda f, ctx: ctx.apply_to_all_keys(f.count, move(f, ctx)))
    tell(operator, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.seen, lambda _, state: state.get())))
    tell(operator, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.totals, lambda _, state: state.items())))
    tell(operator, telling(lambda f, _: sorted(f.rules)))
    assert main.records == ["a", "b", "a was 1", "b was 1", ("a", 1), ("b", 1), ["a", "b"]]


def test_an_error_that_is_caught_leaves_all_state_of_the_key_as_it_was_then(keyed: Any) -> None:
    """What one kind of state keeps, the other keeps too; behind it there is no key any more."""
    operator, main = keyed
    operator.process(rows([("a", count)]))

    def caught(f: Any, ctx: Any) -> Iterator[Any]:
        def call(key: str, state: Any) -> None:
            state.value += 10
            f.seen.add("changed")
            raise LookupError(key)

        with pytest.raises(LookupError, match="a"):
            ctx.apply_to_all_keys(f.count, call)
        with pytest.raises(RuntimeError, match="there is no key"):
            f.count.value += 1
        yield "caught"

    tell(operator, caught)
    operator.process(rows([("a", telling(lambda f, _: (f.count.value, f.seen.get())))]))
    assert main.records == ["caught", (11, ["changed"])]


def test_timers_of_all_keys(keyed: Any) -> None:
    """They fire when they are due; those that are due already, right after the record."""
    operator, main = keyed
    operator.process(rows([("a", count), ("b", count)], [5, 5], [WATERMARK_MIN, 10]))

    def register(at: int) -> Do:
        return lambda f, ctx: ctx.apply_to_all_keys(f.count, lambda *_: ctx.timers.register_event_time(at))

    tell(operator, register(10), 7, 10)
    tell(operator, register(30), 8, 12)
    due = [(("timer", key, 10, 10), 10, 10) for key in "ab"]
    assert sorted(main.timed()) == due
    operator.watermark(30)
    assert sorted(main.timed()) == sorted([*due, *((("timer", key, 30, 29), 30, 29) for key in "ab")])


def test_all_keys_while_a_snapshot_is_written(keyed: Any) -> None:
    """Keys from before the cut and after it have their turn once; the snapshot keeps what it was drawn of."""
    operator, main = keyed
    operator.process(rows([(key, count) for key in "ab"]))
    pending = operator.snapshot(1)
    operator.process(rows([("b", count), ("c", count), ("a", lambda f, _: f.count.clear())]))

    def tenfold(key: str, state: Any) -> list[Any]:
        state.value *= 10
        return [(key, state.value)]

    tell(operator, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.count, tenfold)))
    assert main.records == [("b", 20), ("c", 10)]
    restored = KeyedBroadcastProcessOperator(context(restored=[finished(pending)]), Keyed(), key_of)
    told, _ = opened(restored)
    tell(restored, lambda f, ctx: sorted(ctx.apply_to_all_keys(f.count, tenfold)))
    assert told.records == [("a", 10), ("b", 10)]


def test_all_keys_whose_time_is_not_over() -> None:
    """Entries with a time to live of event time are judged by the watermark before the broadcast record."""

    class Fleeting(Keyed):
        brief: hg.ListState[int] = hg.list_state(ttl=hg.StateTtl(10, time="event"))

    operator = KeyedBroadcastProcessOperator(context(), Fleeting(), key_of)
    main, _ = opened(operator)
    touch: Do = lambda f, ctx: f.brief.add(ctx.timestamp)  # noqa: E731
    operator.process(rows([("a", touch), ("b", touch)], [1, 9], [0, 8]))
    seen: Do = lambda f, ctx: sorted(ctx.apply_to_all_keys(f.brief, lambda key, _: [key]))  # noqa: E731
    for mark in (9, 10, 18):
        tell(operator, seen, 30, mark)
    assert main.records == ["a", "b", "b"]


CHANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 2)), max_size=40)
"""(key, value to set, -1 to clear)."""
COUNT = {"count": declared_state(Keyed())["count"]}


@settings(max_examples=40)
@given(CHANGES, st.integers(0, 40))
def test_the_heap_knows_its_keys(changes: list[tuple[int, int]], cut: int) -> None:
    """Those of a dict, with a snapshot under way or not; changes on the way do not disturb."""
    check_keys(HeapKeyedBackend(COUNT, 0, 15, 16), changes, cut)


@settings(max_examples=4)
@given(CHANGES, st.integers(0, 40))
def test_rocksdb_knows_its_keys(changes: list[tuple[int, int]], cut: int) -> None:
    """The same, written back or not."""
    with tempfile.TemporaryDirectory() as folder:
        memory, directory = RocksMemory(LIMIT_MIN), Path(folder) / "db"
        backend = RocksKeyedBackend(COUNT, 0, 15, 16, directory=directory, memory=memory, cache_entries=4)
        check_keys(backend, changes, cut)


def check_keys(backend: Any, changes: list[tuple[int, int]], cut: int) -> None:
    """Make changes, a snapshot at `cut`, and clear every key while going through them."""
    model: dict[int, int] = {}
    handle, pending = backend.handles["count"], None
    for number, (key, value) in enumerate(changes):
        if number == cut:
            pending = backend.snapshot_sync()
        handle.load(key)
        if value < 0:
            handle.clear()
            model.pop(key, None)
        else:
            handle.value = model[key] = value + 10
        handle.store()
    found = []
    for key in backend.keys("count"):
        found.append(key)
        handle.load(key)
        handle.clear()
        handle.store()
    assert sorted(found) == sorted(model)
    assert list(backend.keys("count")) == []
    if pending is not None:
        pending.release()
    backend.close()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            lambda f, ctx: ctx.apply_to_all_keys(f.rules, print),
            r"got LiveBroadcastState; expected .* self\.count",
        ),
        (lambda f, ctx: ctx.apply_to_all_keys("count", print), "got str; expected one of"),
        (
            lambda f, ctx: ctx.apply_to_all_keys(
                f.count, lambda *_: ctx.apply_to_all_keys(f.seen, lambda *_: None)
            ),
            "while it is calling a function for every key",
        ),
        (
            lambda f, ctx: ctx.apply_to_all_keys(f.count, lambda key, _: (key, 1)),
            r"the function of apply_to_all_keys\(\) returned one tuple",
        ),
        (lambda f, ctx: ctx.apply_to_all_keys(f.count, lambda *_: 1 / 0), "at key 'a'"),
        (lambda f, ctx: "record", r"process\(\) returned one str"),
    ],
)
def test_wrong_use_is_told_with_the_record(wrong: Do, why: str) -> None:
    """As an error of the user's function, and with the key where there was one."""
    bench = harness(Keyed())
    bench.process(("a", count))
    with pytest.raises(UserFunctionError, match=why):
        bench.process_broadcast(wrong)


# -- event time

ITEMS = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from("abc"),
        st.integers(0, 40),
        st.integers(0, 9),
        st.lists(st.integers(0, 40), max_size=2),
    ),
    min_size=1,
    max_size=25,
)
"""(broadcast, key, timestamp, step of the watermark, timers to register)."""


class Mixed(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Registers timers from both sides, and tells everything that it can see."""

    rules: hg.BroadcastState[int, int] = hg.broadcast_state()
    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        for at in record[1]:
            ctx.timers.register_event_time(at)
        yield "record", ctx.key, ctx.timestamp, ctx.timers.current_watermark, len(self.rules)

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.rules.put(len(self.rules), ctx.timestamp)
        yield "rule", ctx.timestamp, ctx.timers.current_watermark

        def register(key: str, count: Any) -> Iterator[Any]:
            for at in record[1]:
                ctx.timers.register_event_time(at)
            yield "told", key, count.value

        yield from ctx.apply_to_all_keys(self.count, register)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.clock.now += 1
        yield "timer", ctx.key, timestamp, ctx.timers.current_watermark, len(self.rules)


def mixed(step_target_ms: int | None, *restored: Any) -> tuple[KeyedBroadcastProcessOperator, Recorder]:
    """An open operator whose timers take 1 ms each."""
    clock = ManualClock()
    where = context(clock=clock, step_target_ms=step_target_ms, restored=list(restored))
    operator = KeyedBroadcastProcessOperator(where, Mixed(clock), lambda record: record[0])
    return operator, opened(operator)[0]


def batches_of(drawn: list[Any], sizes: list[int]) -> Iterator[tuple[Side, Any]]:
    """The records of each side in batches of at most these sizes, in order; watermarks never fall."""
    mark, items = WATERMARK_MIN, []
    for broadcast, key, at, step, register in drawn:
        if step > 5:
            mark = max(0, mark) + step - 5
        items.append((Side.BROADCAST if broadcast else Side.MAIN, (key, register), at, mark))
    turns = itertools.cycle(sizes)
    for side, run in itertools.groupby(items, key=lambda item: item[0]):
        left = list(run)
        while left:
            size = next(turns)
            _, records, times, marks = zip(*left[:size], strict=True)
            yield side, rows(records, times, marks)
            left = left[size:]


def feed(operator: Operator, batches: Any, between: Callable[[], None] = lambda: None) -> None:
    """As a subtask does it: what is not taken waits until the operator is no longer busy."""
    for side, batch in batches:
        rest = batch
        while len(rest):
            rest = rest.slice(operator.entry(side)(rest), len(rest))
            while operator.busy:
                between()
                operator.go_on()


@settings(max_examples=40)
@given(ITEMS, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from([None, 0, 2]))
def test_batches_and_slices_change_nothing(drawn: list[Any], sizes: list[int], target: int | None) -> None:
    """Timers fire between the same two records of whatever side, in batches and slices or one by one."""
    single, expected = mixed(None)
    feed(single, batches_of(drawn, [1]))
    batched, found = mixed(target)
    feed(batched, batches_of(drawn, sizes))
    assert found.log == expected.log
    assert finished(batched.snapshot(1)) == finished(single.snapshot(1))


def test_while_timers_fire_neither_side_takes_input() -> None:
    """A batch of the broadcast side is taken up to where timers are due that need more than one step."""
    operator, main = mixed(0)
    operator.process(rows([("a", [3, 4, 5])], [1], [WATERMARK_MIN]))
    rules = rows([("", []), ("", [])], [8, 9], [2, 20])
    assert operator.broadcast_some(rules) == 1
    assert operator.busy
    for side in Side:
        with pytest.raises(InternalError, match="no longer busy"):
            operator.entry(side)(rules)
    while operator.busy:
        operator.go_on()
    assert [record[0] for record in main.records] == ["record", "rule", "told", "timer", "timer", "timer"]
    assert operator.broadcast_some(rules.slice(1, 2)) == 1


def test_records_without_event_time() -> None:
    """A rule without a time sees none, although the main side has some, and gives none to what it emits."""
    operator, main = mixed(None)
    operator.process(rows([("a", [])], [7], [3]))
    operator.broadcast_some(rows([("", [])]))
    plain = BroadcastProcessOperator(context(), Plain())
    told, _ = opened(plain)
    plain.process(rows([telling(lambda _, ctx: (ctx.timestamp, ctx.watermark))], [7], [3]))
    plain.broadcast_some(rows([telling(lambda _, ctx: (ctx.timestamp, ctx.watermark))]))
    assert main.timed()[1:] == [(("rule", None, 3), None, None), (("told", "a", 1), None, None)]
    assert told.timed() == [((7, 3), 7, 3), ((None, None), None, None)]


def test_side_outputs_of_the_broadcast_side() -> None:
    """They carry the time of the record."""
    tag = hg.OutputTag[int]("aside")
    keyed, plain = Keyed(), Plain()
    for operator in (
        KeyedBroadcastProcessOperator(context(), keyed, key_of),
        BroadcastProcessOperator(context(), plain),
    ):
        _, sides = opened(operator, "aside")
        tell(operator, lambda _, ctx: ctx.side_output(tag, 1), 7, 3)
        assert sides["aside"].log == [(1, 7, 3)]


# -- snapshots


@settings(max_examples=15)
@given(ITEMS, st.integers(1, 3))
def test_a_restored_operator_goes_on(drawn: list[Any], size: int) -> None:
    """Both kinds of state, timers and event time come back, wherever the snapshot is drawn."""
    whole, expected = mixed(None)
    feed(whole, batches_of(drawn, [size]))
    batches = list(batches_of(drawn, [size]))
    for cut in range(0, len(batches) + 1, 4):
        before, first = mixed(None)
        feed(before, batches[:cut])
        after, second = mixed(None, finished(before.snapshot(1)))
        feed(after, batches[cut:])
        assert sorted(map(repr, first.log + second.log)) == sorted(map(repr, expected.log))


def test_a_harness_restores_both_kinds_of_state() -> None:
    """What was told and what was counted."""
    bench = harness(Keyed())
    bench.process(("a", count))
    bench.process_broadcast(put("limit", 3))
    later = OperatorHarness.restore(Keyed(), bench.snapshot(), key_of)
    assert (later.state("count", "a"), later.operator_state("rules")) == (1, {"limit": 3})
    assert later._operator.state_types().keys() == {"rules", "count", "seen", "totals"}
