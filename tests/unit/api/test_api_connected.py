"""connect(): what it makes, what it refuses, which types it knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headgate as hg
from headgate.graph import logical


class Judge(hg.BroadcastProcessFunction[int, str, float]):
    """Without a key."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()

    def process(self, record: int, ctx: hg.BroadcastContext) -> Iterator[float]:
        yield float(record)

    def process_broadcast(self, record: str, ctx: hg.BroadcastContext) -> None:
        self.rules.put(record, 1)


class KeyedJudge(hg.KeyedBroadcastProcessFunction[int, int, str, float]):
    """With a key."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[float]:
        yield float(record)

    def process_broadcast(self, record: str, ctx: hg.KeyedBroadcastContext[int]) -> None:
        self.rules.put(record, 1)


def streams() -> tuple[hg.DataStream[int], hg.BroadcastStream[str]]:
    """A main stream and a broadcast one."""
    env = hg.Environment(parallelism=2)
    numbers = env.from_collection([1], uid="numbers")
    return numbers, env.from_collection(["rule"], uid="rules").broadcast()


def test_a_connection_becomes_a_node_with_two_inputs() -> None:
    """The main side first; name, uid, type and place are those of other operators."""
    numbers, rules = streams()
    plain = numbers.connect(rules).process(Judge(), uid="judge")._node
    keyed = numbers.key_by(lambda n: n).connect(rules).process(KeyedJudge(), uid="keyed")._node
    assert isinstance(plain, logical.BroadcastProcessNode)
    assert isinstance(keyed, logical.KeyedBroadcastProcessNode)
    for node in (plain, keyed):
        assert [source.name for source in node.inputs][1] == "broadcast"
        assert (node.name, node.record_type) == (type(node.function).__name__, float)
        assert "test_api_connected.py" in node.site
    assert keyed.uid == "keyed"


def test_a_blocking_function_is_marked() -> None:
    """As everywhere."""
    numbers, rules = streams()
    assert numbers.connect(rules).process(hg.blocking(Judge()))._node.blocking


@pytest.mark.parametrize("keyed", [False, True])
def test_only_a_broadcast_stream_is_connected(keyed: bool) -> None:
    """The refusal says what is supported, and where."""
    numbers, rules = streams()
    main: Any = numbers.key_by(lambda n: n) if keyed else numbers
    for wrong in (numbers, numbers.key_by(lambda n: n), rules.union(numbers), rules.rebalance(), [1]):
        with pytest.raises(hg.PlanError, match=r"connect\(\) \(test_api_connected.*rules\.broadcast\(\)"):
            main.connect(wrong)
    with pytest.raises(hg.PlanError, match="another Environment"):
        main.connect(streams()[1])


def test_each_connection_takes_its_own_kind_of_function() -> None:
    """And each of the others is told where it belongs."""
    numbers, rules = streams()
    plain: Any = numbers.connect(rules)
    keyed: Any = numbers.key_by(lambda n: n).connect(rules)
    with pytest.raises(hg.PlanError, match=r"got KeyedJudge; expected a BroadcastProcessFunction \("):
        plain.process(KeyedJudge())
    with pytest.raises(hg.PlanError, match="got Judge; expected a KeyedBroadcastProcessFunction"):
        keyed.process(Judge())
    for stream in (numbers, numbers.key_by(lambda n: n)):
        for function in (Judge(), KeyedJudge()):
            unchecked: Any = stream
            with pytest.raises(hg.PlanError, match=f"got {type(function).__name__}; expected a"):
                unchecked.process(function)


@pytest.mark.parametrize(
    ("function", "what"), [(Judge(), "operator state"), (KeyedJudge(), "operator state")]
)
def test_with_checkpoints_broadcast_state_needs_a_uid(function: Any, what: str) -> None:
    """Else it could not be found again."""
    numbers, rules = streams()
    main: Any = numbers.key_by(lambda n: n) if isinstance(function, KeyedJudge) else numbers
    main.connect(rules).process(function).collect_later(uid="out")
    env = numbers._environment.checkpoints(every="1s", storage="/tmp/nowhere")
    with pytest.raises(hg.PlanError, match=rf"'{type(function).__name__}' .* has {what} but no uid"):
        env.plan()


def test_timers_need_a_uid_and_their_absence_none() -> None:
    """A keyed function without any state is judged by whether it has timers."""

    class Stateless(hg.KeyedBroadcastProcessFunction[int, int, str, int]):
        def process(self, record: int, ctx: Any) -> None: ...
        def process_broadcast(self, record: str, ctx: Any) -> None: ...

    class Timed(Stateless):
        def on_timer(self, timestamp: int, ctx: Any) -> None: ...

    for function, refused in ((Stateless(), False), (Timed(), True)):
        numbers, rules = streams()
        numbers.key_by(lambda n: n).connect(rules).process(function).collect_later(uid="out")
        env = numbers._environment.checkpoints(every="1s", storage="/tmp/nowhere")
        if refused:
            with pytest.raises(hg.PlanError, match="has timers but no uid"):
                env.plan()
        else:
            assert env.plan().slots == 2


def test_keyed_state_without_a_key_is_refused() -> None:
    """Nobody would bring it to life."""

    class Misplaced(Judge):
        count: hg.ValueState[int] = hg.value_state(default=0)

    numbers, rules = streams()
    numbers.connect(rules).process(Misplaced()).collect_later(uid="out")
    with pytest.raises(hg.PlanError, match="is a BroadcastProcessFunction and declares keyed state 'count'"):
        numbers._environment.plan()


def test_output_types_that_annotations_tell() -> None:
    """Both sides must agree, or one yields nothing; type arguments of the class go before."""

    class Untyped(hg.BroadcastProcessFunction):
        def process(self, record: Any, ctx: Any) -> Iterator[int]:
            yield 1

    class Silent(Untyped):
        def process_broadcast(self, record: Any, ctx: Any) -> None: ...

    class Agreeing(Untyped):
        def process_broadcast(self, record: Any, ctx: Any) -> list[int]:
            return [1]

    class Parting(Untyped):
        def process_broadcast(self, record: Any, ctx: Any) -> list[str]:
            return ["a"]

    class Unsaid(Untyped):
        def process_broadcast(self, record: Any, ctx: Any): ...  # type: ignore[no-untyped-def]

    numbers, rules = streams()
    kinds = [
        numbers.connect(rules).process(function())._node.record_type
        for function in (Judge, Silent, Agreeing, Parting, Unsaid)
    ]
    assert kinds == [float, int, int, None, None]


def test_explain_shows_broadcast_state() -> None:
    """With its types, at the operator that has it."""
    numbers, rules = streams()
    numbers.connect(rules).process(Judge(), uid="judge").collect_later(uid="out")
    text = numbers._environment.explain()
    assert "state rules: broadcast[str, int]" in text
    assert "(broadcast side)" in text
