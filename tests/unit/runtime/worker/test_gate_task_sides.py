"""A subtask with two inputs: batches enter on their side, time and barriers concern both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operator_samples import rows
from task_samples import Rig

from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.graph.logical import Side
from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import EndOfData, Idle, Watermark

MAIN, RULES = 0, 1


class TwoSided(Rig):
    """A rig whose second channel is of the broadcast side; the operator's records tell their side."""

    def __init__(self, **options: Any) -> None:
        super().__init__(2, **options)
        self.task.channels[RULES].side = Side.BROADCAST
        self.sides: list[tuple[str, Any]] = []
        self.operator.entry = self._entry  # type: ignore[method-assign]

    def _entry(self, side: Side) -> Callable[[Batch], int]:
        def take(batch: Batch) -> int:
            self.sides += [(side.value, record) for record in batch.rows()]
            return self.operator.process_some(batch)

        return take

    @property
    def events(self) -> list[Any]:
        """What the operator was told besides records."""
        return [
            entry
            for entry in self.operator.seen.log
            if not isinstance(entry, tuple) or entry[0] == "watermark"
        ]


@pytest.mark.parametrize("cost_ms", [0, 30])
def test_batches_enter_on_their_side(cost_ms: float) -> None:
    """Also where a batch is processed slice by slice."""
    rig = TwoSided(cost_ms=cost_ms)
    rig.deliver((MAIN, rows([1, 2, 3])), (RULES, rows(["a", "b"])), (MAIN, rows([4])))
    assert sorted(rig.sides, key=str) == [
        ("broadcast", "a"),
        ("broadcast", "b"),
        *(("main", n) for n in (1, 2, 3, 4)),
    ]


def test_event_time_is_the_least_of_both_sides() -> None:
    """A side that is idle holds nothing back; one that ended neither."""
    rig = TwoSided()
    rig.deliver((MAIN, Watermark(10)), (RULES, Watermark(4)))
    rig.deliver((RULES, Watermark(7)))
    rig.deliver((RULES, Idle()), (MAIN, Watermark(20)))
    rig.deliver((MAIN, Idle()))
    assert rig.events == [("watermark", 4), ("watermark", 7), ("watermark", 10), ("watermark", 20), "idle"]


def test_records_of_one_side_are_late_by_the_time_of_both() -> None:
    """The watermark that a record carries is bounded by the other side; who is behind is read first."""
    rig = TwoSided()
    rig.deliver((MAIN, Watermark(1)), (RULES, Watermark(5)))
    rig.deliver((RULES, rows(["a"], [9], [8])), (MAIN, rows([1], [9], [6])))
    assert rig.operator.seen.timed() == [(1, 9, 5), ("a", 9, 6)]


def test_a_side_that_ended_leaves_the_other_one_going() -> None:
    """The subtask is at its end when both are."""
    rig = TwoSided()
    rig.deliver((RULES, rows(["a"])), (MAIN, rows([1])), (RULES, EndOfData()))
    assert not rig.task.ended
    rig.deliver((MAIN, rows([2])), (MAIN, EndOfData()))
    assert rig.task.ended
    assert [record for side, record in rig.sides if side == "main"] == [1, 2]


def test_a_barrier_that_overtakes_waits_on_the_broadcast_side() -> None:
    """The cut is behind all rules before the barrier; only main records are taken along."""
    rig = TwoSided(unaligned=True, forced=frozenset({RULES}), cost_ms=30)
    rig.deliver((MAIN, Watermark(0)), (RULES, Watermark(0)))
    barrier = Barrier(1, 1_000, Alignment.UNALIGNED)
    rig.task.deliver(RULES, rows(["a", "b"]))
    rig.task.deliver(MAIN, barrier)
    rig.task.deliver(MAIN, rows([1]))
    rig.task.deliver(RULES, barrier.as_forced())
    rig.run()
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1]
    drawn = rig.taken.drawn[0].pending[0]
    assert {"a", "b"} <= set(drawn.state.list_state["seen"])  # type: ignore[attr-defined]
    assert rig.taken.captures[1].of(RULES) == []
