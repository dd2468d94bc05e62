"""Heap snapshots while processing goes on: each is the state at its cut, in any interleaving."""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import headgate as hg
from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    ReducingState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.state.heap import backend as heap
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.heap.snapshot import StateView
from headgate.state.snapshots import Inline
from headgate.testing.manual_clock import ManualClock
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 4
KEYS = st.sampled_from(["a", "b", 3, ("d", 4), b"e"])
Contents = dict[str, Any]


def longer(one: list[int], other: list[int]) -> list[int]:
    """Reduces in place."""
    one.extend(other)
    return one


class States:
    count: ValueState[int] = value_state(default=0)
    bag: ValueState[list[int]] = value_state(default_factory=list)
    log: ListState[list[int]] = list_state()
    totals: MapState[str, list[int]] = map_state()
    joined: ReducingState[list[int]] = reducing_state(longer)


def backend() -> HeapKeyedBackend:
    """An empty one of all key groups."""
    return HeapKeyedBackend(declared_state(States()), 0, GROUPS - 1, GROUPS)


def contents(made: HeapKeyedBackend) -> Contents:
    """All state and timers."""
    found: Contents = {name: dict(table.entries.items()) for name, table in made._tables.items()}
    found["event"] = made.event_timers.snapshot()
    return found


def restored(blob: bytes) -> Contents:
    """What a snapshot gives back; the order of a timestamp's keys is that of the blob."""
    made = backend()
    made.restore([blob])
    return in_any_order(contents(made))


def in_any_order(found: Contents) -> Contents:
    """The same, comparable."""
    return {**found, "event": sorted(found["event"], key=repr)}


class Backend(RuleBasedStateMachine):
    """The program changes what its handles give in place; the model is plain dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(heap, "SETTLED_PER_CALL", 2)
        self.patch.start()
        self.backend = backend()
        self.handles: dict[str, Any] = dict(self.backend.handles)
        self.model: Contents = {name: {} for name in self.handles} | {"event": []}
        self.cuts: list[tuple[Any, Contents]] = []

    @rule(key=KEYS, number=st.integers(1, 9))
    def change(self, key: Any, number: int) -> None:
        self.backend.bind(key)
        self.handles["count"].value += number
        self.handles["bag"].value.append(number)
        for inner in self.handles["log"].get():
            inner.append(number)
        self.handles["log"].add([number])
        for _, inner in self.handles["totals"].items():
            inner.append(number)
        self.handles["totals"].put(str(number), [number])
        self.handles["joined"].add([number])
        self.backend.store()
        self.change_model(key, number)

    def change_model(self, key: Any, number: int) -> None:
        model = self.model
        model["count"][key] = model["count"].get(key, 0) + number
        model["bag"].setdefault(key, []).append(number)
        for inner in model["log"].get(key, []):
            inner.append(number)
        model["log"].setdefault(key, []).append([number])
        for inner in model["totals"].get(key, {}).values():
            inner.append(number)
        model["totals"].setdefault(key, {})[str(number)] = [number]
        model["joined"].setdefault(key, []).append(number)

    @rule(key=KEYS, name=st.sampled_from(["count", "bag", "log", "totals", "joined"]))
    def clear(self, key: Any, name: str) -> None:
        self.backend.bind(key)
        self.handles[name].clear()
        self.backend.store()
        self.model[name].pop(key, None)

    @rule(key=KEYS, timestamp=st.integers(0, 3))
    def set_a_timer(self, key: Any, timestamp: int) -> None:
        if self.backend.event_timers.register(timestamp, key):
            self.model["event"].append((timestamp, key))

    @rule(up_to=st.integers(0, 3))
    def fire(self, up_to: int) -> None:
        list(self.backend.event_timers.pop_due(up_to))
        self.model["event"] = [timer for timer in self.model["event"] if timer[0] > up_to]

    @rule()
    def cut(self) -> None:
        self.cuts.append((self.backend.snapshot_sync(), copy.deepcopy(self.model)))

    @precondition(lambda self: self.cuts)
    @rule(which=st.integers(0, 99), whole=st.booleans())
    def end_a_snapshot(self, which: int, whole: bool) -> None:
        pending, expected = self.cuts.pop(which % len(self.cuts))
        if whole:
            assert in_any_order(expected) == restored(snapshot_blob(pending))
        pending.release()

    @rule()
    def settle(self) -> None:
        self.backend.settle()
        if self.backend.settled:
            assert self.handles["count"].table is self.backend._tables["count"].entries

    @invariant()
    def is_the_model(self) -> None:
        assert in_any_order(self.model) == in_any_order(contents(self.backend))

    def teardown(self) -> None:
        for pending, expected in self.cuts:
            assert in_any_order(expected) == restored(snapshot_blob(pending))
        while not self.backend.settled:
            self.backend.settle()
        assert all(type(table.entries) is dict for table in self.backend._tables.values())
        self.is_the_model()
        self.patch.stop()


TestBackend = Backend.TestCase
TestBackend.settings = settings(max_examples=12, stateful_step_count=30)


class Everything(hg.KeyedProcessFunction[Any, int, Any]):
    """One int that the generated loop keeps, a list that is changed in place, and a timer."""

    count: ValueState[int] = value_state(default=0)
    last: ValueState[list[int]] = value_state(default_factory=list)

    def process(self, record: int, ctx: Any) -> None:
        self.count.value = 0 if record % 7 == 0 else self.count.value + 1
        self.last.value.append(record)
        del self.last.value[:-3]
        ctx.timers.register_event_time(record % 50)


class Discard:
    """Takes what the operator emits."""

    def process(self, batch: Any) -> None: ...
    def watermark(self, timestamp: int) -> None: ...


def operator(keys: int) -> KeyedProcessOperator:
    """An open operator with some state."""
    made = KeyedProcessOperator(
        OperatorContext("uid", "name", 0, 1, 1, "job", GROUPS, ManualClock(), []),
        Everything(),
        lambda record: record % keys,
    )
    made.next = Discard()  # type: ignore[assignment]
    made.open()
    made.process(RowBatch(list(range(keys))))
    return made


def test_a_thread_writes_while_the_loop_goes_on() -> None:
    """Snapshots overlap, are written beside a busy loop and given up in between; each is its own cut."""
    keys, failures = 3_000, []
    made = operator(keys)
    state: Any = made._backend

    def write(pending: Any, expected: Contents) -> None:
        backend_of_blob = HeapKeyedBackend(declared_state(Everything()), 0, GROUPS - 1, GROUPS)
        backend_of_blob.restore([snapshot_blob(pending)])
        if in_any_order(contents(backend_of_blob)) != expected:
            failures.append(pending)

    start, writers = keys, []
    for round_number in range(6):
        expected = in_any_order(copy.deepcopy(contents(state)))
        pending = state.snapshot_sync()
        if round_number == 3:
            pending.release()
        else:
            writers.append(threading.Thread(target=write, args=(pending, expected)))
            writers[-1].start()
        for _ in range(6):
            made.process(RowBatch(list(range(start, start + 400))))
            start += 397
        made.watermark(10 * round_number)
    for writer in writers:
        writer.join()
    while not state.settled:
        made.process(RowBatch([start]))
    assert not failures
    assert all(type(table.entries) is dict for table in state._tables.values())


def test_generated_loops_see_the_table_of_the_moment() -> None:
    """Between two batches the dict may have become a view, and a view the dict again."""
    made = operator(10)
    state: Any = made._backend
    table = state.handles["count"].table
    assert type(table) is dict
    pending = state.snapshot_sync()
    made.process(RowBatch([1, 7, 11]))
    assert table == {key: 1 for key in range(1, 10) if key != 7}
    assert state.handles["count"].table.get(1) == 3
    snapshot_blob(pending)
    while not state.settled:
        made.process(RowBatch([]))
    assert state.handles["count"].table is table
    assert table[1] == 3


def test_what_cannot_be_changed_in_place_is_let_go_before_it_is_encoded() -> None:
    """Such a table is settled as soon as the writer has its keys and values in hand."""
    made = backend()
    for key in range(8):
        made.bind(key)
        made.handles["count"].value = key + 1  # type: ignore[union-attr]
        made.handles["bag"].value.append(key)  # type: ignore[union-attr]
        made.store()
    pending = made.snapshot_sync()
    seen: list[tuple[str, bool, bool]] = []

    def keep(name: str, keys: list[Any], values: list[Any]) -> tuple[list[Any], list[Any]]:
        made.settle()
        seen.append((name, made._tables["count"].settled, made._tables["bag"].settled))
        return keys, values

    pending.keep = keep
    snapshot_blob(pending)
    assert {("count", True, False), ("bag", True, False)} == {
        entry for entry in seen if entry[0] != "timers:event"
    }


def test_tables_have_their_layers_back_before_a_snapshot_is_sent() -> None:
    """Sending takes long; meanwhile each first change of a value would copy it."""
    made = backend()
    made.bind("a")
    made.handles["bag"].value.append(1)
    made.store()
    thawed: list[str] = []
    pending = made.snapshot_sync()
    for view in pending._views:
        if isinstance(view, StateView):
            view.thaw = partial(thawed.append, view.name)
    files = mock.Mock()
    files.write = lambda uid, parts: Inline(",".join(sorted(set(thawed))).encode())
    assert pending.store("op", files).handle == Inline(b"bag,count,joined,log,totals")
