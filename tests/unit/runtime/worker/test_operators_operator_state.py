"""Operators whose functions have operator state: handles before `open`, snapshots of both parts, restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from operator_samples import InlineFiles, context, finished, opened, rows
from snapshot_samples import Bench, over

import headgate as hg
from headgate.common.errors import StorageError, UsageError
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.stateless import ProcessOperator
from headgate.state.snapshots import Inline, OperatorSubtaskState
from headgate.testing import OperatorHarness


class Batches(hg.ProcessFunction[int, list[int]]):
    """Emits records by threes; counts those of all subtasks before it was opened."""

    waiting: hg.OperatorListState[int] = hg.operator_list_state()
    counts: hg.OperatorListState[int] = hg.operator_list_state(redistribution="union")

    def open(self, context: hg.RuntimeContext) -> None:
        self.before = sum(self.counts.get())
        self.counts.update([0])

    def process(self, record: int, ctx: Any) -> Any:
        self.counts.update([self.counts.get()[0] + 1])
        self.waiting.add(record)
        if len(self.waiting) == 3:
            yield self.waiting.get()
            self.waiting.clear()


class Without(hg.ProcessFunction[int, int]):
    """Has no state."""

    def process(self, record: int, ctx: Any) -> Any:
        yield record


class Both(hg.KeyedProcessFunction[str, str, int]):
    """Counts records per key and per subtask."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.OperatorListState[str] = hg.operator_list_state()

    def process(self, record: str, ctx: Any) -> Any:
        self.count.value += 1
        self.seen.add(record)
        yield self.count.value, len(self.seen)


def run(function: Any, records: list[Any], restored: list[OperatorSubtaskState]) -> tuple[Any, Any]:
    """The outputs of a process function over some records, and what is stored after them."""
    operator = ProcessOperator(context(restored=restored), function)
    main, _ = opened(operator)
    if records:
        operator.process(rows(records))
    return main.records, operator.snapshot(1)


def test_a_function_without_state_adds_nothing_to_a_checkpoint() -> None:
    """Neither state nor types."""
    operator = ProcessOperator(context(), Without())
    opened(operator)
    assert operator.snapshot(1) is None
    assert operator.state_types() == {}


def test_two_functions_do_not_share_state() -> None:
    """Each instance has its own handles."""
    first, second = Batches(), Batches()
    run(first, [1, 2], [])
    assert run(second, [3], [])[0] == []
    assert (first.waiting.get(), second.waiting.get()) == ([1, 2], [3])


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_so1_what_waits_finds_another_subtask(parallelism: int) -> None:
    """sO1: each waiting record waits in one new subtask; each sees the counts of all."""
    old = [finished(run(Batches(), records, [])[1]) for records in ([1, 2, 3, 4, 5], [6, 7])]
    assert [[held.count for held in state.operator_state] for state in old] == [[2, 1], [2, 1]]
    functions = [Batches() for _ in range(parallelism)]
    for function, share in zip(functions, share_operator(old, parallelism, 128), strict=True):
        run(function, [], share)
    assert [n for function in functions for n in function.waiting.get()] == [4, 5, 6, 7]
    assert [function.before for function in functions] == [7] * parallelism


def test_keyed_and_operator_state_are_in_one_snapshot() -> None:
    """And come back together."""
    operator = KeyedProcessOperator(context(), Both(), lambda word: word)
    opened(operator)
    operator.process(rows(["a", "b", "a"]))
    assert list(operator.state_types()) == ["count", "seen"]
    state = finished(operator.snapshot(1))
    assert state.keyed is not None
    assert [(held.name, held.count) for held in state.operator_state] == [("seen", 3)]
    assert state.size() > state.keyed.size
    again = KeyedProcessOperator(context(restored=[state]), Both(), lambda word: word)
    main, _ = opened(again)
    again.process(rows(["a"]))
    assert main.records == [(3, 4)]


def test_changes_after_the_barrier_are_not_in_the_snapshot() -> None:
    """The asynchronous part comes later."""
    function = Batches()
    _, pending = run(function, [1], [])
    function.waiting.add(2)
    held = {each.name: each.count for each in finished(pending).operator_state}
    assert held == {"waiting": 1, "counts": 1}


def test_what_was_given_up_stores_nothing() -> None:
    """`release` in place of `finish`, and after it."""
    _, pending = run(Batches(), [1], [])
    pending.release()
    assert pending.finish(InlineFiles()).operator_state == []


def test_files_of_a_snapshot_that_is_given_up_are_deleted(tmp_path: Path) -> None:
    """Each list has a file; those of an acknowledged snapshot stay."""
    operator = ProcessOperator(context(), Batches())
    opened(operator)
    operator.process(rows([1, 2]))
    bench = Bench(tmp_path, operator)  # type: ignore[arg-type]
    bench.draw(over(1))
    bench.background.run()
    assert len(bench.files) == 2
    bench.snapshots.aborted(1)
    bench.run()
    assert bench.files == []
    bench.draw(over(2))
    bench.run()
    (state,) = bench.acknowledged[2].operators
    again = Batches()
    opened(ProcessOperator(context(restored=[state], disk=bench.disk), again))
    assert (again.waiting.get(), again.before) == ([1, 2], 2)


def test_a_damaged_blob_is_refused_with_the_states_name() -> None:
    """Before the function is opened."""
    state = finished(run(Batches(), [1], [])[1])
    (held, other) = state.operator_state
    assert isinstance(held.handle, Inline)
    damaged = msgspec.structs.replace(held, handle=Inline(held.handle.data[:-1]))
    broken = msgspec.structs.replace(state, operator_state=[damaged, other])
    function = Batches()
    with pytest.raises(StorageError, match="operator state 'waiting'"):
        run(function, [], [broken])
    assert not hasattr(function, "before")


def test_a_function_that_declares_nothing_does_not_drop_state() -> None:
    """It refuses."""
    state = finished(run(Batches(), [1], [])[1])
    with pytest.raises(UsageError, match="operator state 'waiting', which the program does not declare"):
        run(Without(), [], [state])


def test_the_examples_of_the_documentation_run() -> None:
    """Records that wait come back; numbers go on behind all that were given."""
    text = (Path(__file__).parents[4] / "docs/operator-state.md").read_text()
    scope: dict[str, Any] = {"__name__": __name__, "orders": Without()}
    scope["orders"].process = lambda function, uid: function  # type: ignore[method-assign]
    for block in text.split("```python\n")[1:]:
        exec(compile(block.split("```")[0], "docs", "exec", dont_inherit=True), scope)
    batches, numbered = OperatorHarness(scope["Batches"]()), scope["Numbered"]
    batches.process_batch([{"n": n} for n in range(150)])
    later = OperatorHarness.restore(scope["Batches"](), batches.snapshot())
    later.process_batch([{"n": n} for n in range(150, 200)])
    assert [len(batch) for batch in batches.take() + later.take()] == [100, 100]
    old = [finished(run(numbered(), ["a"] * n, [])[1]) for n in (2, 5)]
    three = share_operator(old, 3, 128)
    found = []
    for subtask, share in enumerate(three):
        operator = ProcessOperator(context(subtask=subtask, parallelism=3, restored=share), numbered())
        main, _ = opened(operator)
        operator.process(rows(["b", "b"]))
        found += [number for number, _ in main.records]
    assert sorted(found) == [6, 7, 8, 9, 10, 11]


def test_the_harness_shows_operator_state() -> None:
    """Of what runs, as a copy, and across a restore."""
    harness = OperatorHarness(Batches())
    harness.process_batch([1, 2, 3, 4])
    assert (harness.take(), harness.operator_state("waiting")) == ([[1, 2, 3]], [4])
    harness.operator_state("waiting").append(9)
    later = OperatorHarness.restore(Batches(), harness.snapshot())
    assert (later.operator_state("waiting"), later.function.before) == ([4], 4)
    with pytest.raises(UsageError, match="Batches declares 'waiting', 'counts'"):
        later.operator_state("gone")
    with pytest.raises(UsageError, match="declares no operator state"):
        OperatorHarness(Without()).operator_state("gone")


def test_the_keyed_part_is_let_go_when_operator_state_cannot_be_encoded() -> None:
    """The pause encodes lists of what can be changed in place, and a value may be of another type."""
    released: list[int] = []

    class Keyed:
        def finish(self, files: Any) -> OperatorSubtaskState:
            raise AssertionError("it is not asked for")

        def release(self) -> None:
            released.append(1)

    class Lists(hg.ProcessFunction[Any, int]):
        seen: hg.OperatorListState[list[int]] = hg.operator_list_state()

        def process(self, record: Any, ctx: Any) -> Any:
            self.seen.add(record)

    operator = ProcessOperator(context(), Lists())
    opened(operator)
    operator.process(rows([object()]))
    with pytest.raises(UsageError, match="operator state 'seen' cannot be stored"):
        operator._state.snapshot(Keyed())
    assert released == [1]
