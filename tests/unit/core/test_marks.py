"""Single cases of marks at one gate; `test_marks_search.py` tries all orders."""

from __future__ import annotations

from headgate.core.marks import MarkGate

A, B = 0, 1


def mark(gate: MarkGate, channel: int, epoch: int, **rows: int) -> int | None:
    """A mark that comes while no barrier is aligned, with counts of the splits of source "s"."""
    return gate.mark(channel, epoch, {("s", split): count for split, count in rows.items()}, aligning=False)


def test_a_mark_comes_out_with_the_counts_of_all_channels() -> None:
    """Only after the last open channel has brought it."""
    gate = MarkGate(2)
    assert mark(gate, A, 4, first=10) is None
    assert gate.waiting == {A}
    assert mark(gate, B, 4, second=7) == 4
    assert not gate.waiting
    assert gate.rows() == {("s", "first"): 10, ("s", "second"): 7}
    assert gate.rows() == {}


def test_counts_of_dropped_marks_go_out_with_the_next_one() -> None:
    """A later count of a split replaces an earlier one."""
    gate = MarkGate(2)
    mark(gate, A, 4, first=10, third=1)
    mark(gate, B, 5)
    assert gate.waiting == {B}
    assert mark(gate, A, 5, first=12) == 5
    assert gate.rows() == {("s", "first"): 12, ("s", "third"): 1}


def test_nothing_waits_for_a_mark_that_was_dropped() -> None:
    """Because of a barrier, which may have come on another channel before or after."""
    gate = MarkGate(2)
    gate.mark(A, 4, {}, aligning=True)
    assert mark(gate, B, 4) is None
    assert not gate.waiting
    mark(gate, A, 5)
    gate.drop()
    assert mark(gate, B, 5) is None
    assert not gate.waiting
    assert [mark(gate, A, 6), mark(gate, B, 6)] == [None, 6]


def test_an_end_counts_for_epochs_that_began_after_it() -> None:
    """Not for those that a source above had begun before."""
    gate = MarkGate(2)
    assert gate.end(A, 4) is None
    assert mark(gate, B, 4) is None
    assert not gate.waiting
    assert mark(gate, B, 5) == 5
    assert gate.last == 4


def test_an_end_is_all_that_a_mark_waited_for() -> None:
    """The mark comes out as the channel ends."""
    gate = MarkGate(2)
    mark(gate, A, 4)
    assert gate.end(B, 3) == 4


def test_after_the_last_end_no_mark_comes_out() -> None:
    """There is nobody left to send one."""
    gate = MarkGate(1)
    assert gate.end(A, 4) is None


def test_a_mark_that_is_dropped_is_told_once_and_nobody_waits_for_it() -> None:
    """A gate that waits for it on another way would hold back what a barrier of this one waits for."""
    gate = MarkGate(2)
    assert gate.mark(0, 3, {}, aligning=True) is None
    assert gate.untold() == 3
    assert gate.untold() is None
    below = MarkGate(2)
    assert below.mark(0, 3, {}, aligning=False) is None
    assert below.waiting == {0}
    below.lost(3)
    assert below.waiting == frozenset()
    assert below.untold() == 3
    assert below.mark(0, 4, {}, aligning=False) is None
    assert below.mark(1, 4, {}, aligning=False) == 4
    assert below.untold() is None
