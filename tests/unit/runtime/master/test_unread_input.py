"""What the sources of an attempt still have to read, however reports and assignments cross on their way."""

from __future__ import annotations

from typing import Any

import counted_metrics
import msgspec
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.api.source import InputLeft
from headgate.metrics.of_parts import Part
from headgate.runtime.master.attempt.unread_input import UnreadInput
from headgate.runtime.protocol.messages import Counters


def vertex(parallelism: int = 1) -> Any:
    """A source."""
    env = hg.Environment(parallelism=parallelism)
    env.from_collection([1], uid="in").rebalance().map(str).print()
    return env.plan().vertices[0]


def told(subtask: int, given: int, *left: int | None) -> Counters:
    """What a reader reports that was given so many splits, of which these records are left."""
    parts = [Part("split", [str(n)], [each, None, None]) for n, each in enumerate(left)]
    return msgspec.structs.replace(counted_metrics.counted(0, subtask, SPLITS=given), parts=parts)


def test_what_was_handed_out_is_left_until_a_report_has_it() -> None:
    """Or all would be read as long as the last split is on its way."""
    unread, source = UnreadInput(InputLeft(records=10), restored=False), vertex()
    assert unread.left(source, []) == InputLeft(records=10)
    unread.assigned(0, 1, InputLeft(records=4))
    assert unread.left(source, []) == InputLeft(records=10)
    assert unread.left(source, [told(0, 0)]) == InputLeft(records=10)
    assert unread.left(source, [told(0, 1, 6)]) == InputLeft(records=10)
    assert unread.left(source, [told(0, 1, 1)]) == InputLeft(records=5)
    unread.assigned(0, 2, InputLeft(records=0))
    assert unread.left(source, [told(0, 1)]) == InputLeft(records=4)
    assert unread.left(source, [told(0, 3, 2, 1)]) == InputLeft(records=3)
    assert unread.left(source, [told(0, 3)]) == InputLeft(records=0)


def test_what_readers_restored_is_not_known_before_they_report() -> None:
    """Each of them."""
    unread, source = UnreadInput(InputLeft(records=3), restored=True), vertex(2)
    assert unread.left(source, []) is None
    assert unread.left(source, [told(0, 0, 7)]) is None
    assert unread.left(source, [told(0, 0, 7), told(1, 0)]) == InputLeft(records=10)


def test_a_sum_without_a_part_is_not_known() -> None:
    """A split without an end, or an enumerator that does not know."""
    source = vertex()
    unread = UnreadInput(InputLeft(records=1), restored=False)
    unread.assigned(0, 1, InputLeft(records=0))
    assert unread.left(source, [told(0, 1, None)]) is None
    assert UnreadInput(None, restored=False).left(source, []) is None


def test_a_source_that_never_knows_costs_no_memory_for_each_assignment() -> None:
    """As without an end; if it knows later, what was handed out until then is not known before a report."""
    unread, source = UnreadInput(None, restored=False), vertex()
    for _ in range(100):
        unread.assigned(0, 2, None)
        assert unread.left(source, [told(0, 0)]) is None
    assert [len(each) for each in unread._handed.values()] == [1]
    unread.assigned(0, 1, InputLeft(records=5))
    assert unread.left(source, [told(0, 0)]) is None
    assert unread.left(source, [told(0, 201, 3)]) == InputLeft(records=8)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1), st.integers(0, 3)), max_size=12))
def test_nothing_is_lost_or_counted_twice(steps: list[tuple[int, int, int]]) -> None:
    """Readers are given splits, and report late or never."""
    source, whole = vertex(2), sum(size for size, _, _ in steps)
    unread, rest = UnreadInput(InputLeft(records=whole), restored=False), whole
    splits: list[list[int]] = [[], []]
    given = [0, 0]
    reports: dict[int, Counters] = {}
    for size, reader, read in steps:
        rest -= size
        unread.assigned(reader, 1, InputLeft(records=rest))
        if read:  # a report, then some records
            splits[reader].append(size)
            given[reader] += 1
            reports[reader] = told(reader, given[reader], *splits[reader])
        else:
            splits[reader].append(size)
            given[reader] += 1
        assert unread.left(source, reports.values()) == InputLeft(records=whole)
