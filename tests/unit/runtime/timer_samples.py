"""A keyed function that does everything with timers, and random records for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from operator_samples import columns, rows

import headgate as hg
from headgate.common.time import WATERMARK_MIN

LATE = hg.OutputTag("late")
FIRINGS_MAX = 12
"""After this many events a key's timers register nothing more, so that every run ends."""


class Rig(hg.KeyedProcessFunction[str, Any, Any]):
    """Does with timers whatever its records ask for, and tells everything that it can see."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        if self.count.value % 3 == 0:
            self.seen.add(ctx.timestamp)
        for timestamp in record["register"]:
            ctx.timers.register_event_time(timestamp)
        for timestamp in record["delete"]:
            ctx.timers.delete_event_time(timestamp)
        mark = ctx.timers.current_watermark
        if ctx.timestamp <= mark:
            ctx.side_output(LATE, (ctx.key, record["n"], mark))
        yield "record", record["n"], ctx.key, ctx.timestamp, mark, self.count.value
        if self.count.value % 4 == 0:
            yield "seen", ctx.key, tuple(self.seen.get())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        yield "timer", ctx.key, timestamp, ctx.timestamp, ctx.timers.current_watermark, self.count.value
        for again in renewed(timestamp, self.count.value):
            ctx.timers.register_event_time(again)
        if self.count.value % 5 == 0:
            ctx.timers.delete_event_time(timestamp + 1)


def renewed(timestamp: int, count: int) -> list[int]:
    """Which timers a timer registers: later ones, itself, and ones that are due already."""
    if count > FIRINGS_MAX:
        return []
    return {0: [timestamp + 7], 1: [timestamp - 2], 2: [timestamp], 3: []}[count % 4]


TIMES = st.integers(0, 40)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        TIMES,
        st.integers(0, 9),
        st.lists(TIMES, max_size=3),
        st.lists(TIMES, max_size=2),
    ),
    min_size=1,
    max_size=25,
)
Item = tuple[dict[str, Any], int, int]


def items_of(drawn: list[Any]) -> list[Item]:
    """(record, timestamp, watermark before it), with watermarks that never fall."""
    items: list[Item] = []
    mark = WATERMARK_MIN
    for n, (key, timestamp, step, register, delete) in enumerate(drawn):
        if step > 5:
            mark = max(0, mark) + step - 5
        items.append(({"key": key, "n": n, "register": register, "delete": delete}, timestamp, mark))
    return items


def batch_of(items: list[Item], columnar: bool) -> Any:
    """One batch of these records."""
    make = columns if columnar else rows
    records, times, marks = zip(*items, strict=True)
    return make(records, times, marks)


CUTS = st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), min_size=1, max_size=5)
