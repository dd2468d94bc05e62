"""Windows give what a plain model gives, for any records, disorder, lateness, and place of a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windows_under_test import END, Run, Seen, span, windows

import headgate as hg

RECORDS = st.lists(
    st.builds(
        Seen,
        st.sampled_from("ab"),
        st.integers(-60, 240),
        st.one_of(st.none(), st.integers(-5, 5)),
    ),
    max_size=25,
)
Assigned = Callable[[int], list[tuple[int, int]]]


@dataclass
class Open:
    """A window of the model."""

    start: int
    end: int
    records: list[Seen] = field(default_factory=list)
    fired: bool = False


def sliding(size: int, slide: int, offset: int = 0) -> Assigned:
    """By trying all starts."""
    return lambda at: [
        (start, start + size)
        for start in range(-10 * slide + offset, 20 * slide, slide)
        if start <= at < start + size
    ]


def cumulative(size: int, step: int) -> Assigned:
    """By trying all windows."""
    return lambda at: [
        (start, end)
        for start in range(-5 * size, 10 * size, size)
        for end in range(start + step, start + size + 1, step)
        if start <= at < end
    ]


SHAPES: dict[str, tuple[Callable[[], Any], Assigned | int]] = {
    "tumbling": (lambda: hg.tumbling(50), sliding(50, 50)),
    "tumbling, moved": (lambda: hg.tumbling(50, offset=15), sliding(50, 50, 15)),
    "sliding": (lambda: hg.sliding(60, 20), sliding(60, 20)),
    "sliding, not divided": (lambda: hg.sliding(50, 30, offset=7), sliding(50, 30, 7)),
    "cumulative": (lambda: hg.cumulative(60, 20), cumulative(60, 20)),
    "sessions": (lambda: hg.session(20), 20),
}


class Model:
    """Windows of one key, by the words of the documentation."""

    def __init__(self, shape: Assigned | int, lateness: int) -> None:
        self.shape, self.lateness = shape, lateness
        self.open: list[Open] = []
        self.out: list[tuple[int, int, list[Seen]]] = []
        self.late = 0

    def add(self, record: Seen, mark: int) -> None:
        """Add a record, before which event time was `mark`."""
        self.reach(mark)
        if isinstance(self.shape, int):
            mine = self.session(Open(record.at, record.at + self.shape), mark)
        else:
            spans = [each for each in self.shape(record.at) if each[1] - 1 + self.lateness > mark]
            mine = [self.known(*each) for each in spans]
        self.late += not mine
        for window in mine:
            window.records.append(record)
            if window.end - 1 <= mark:
                self.emit(window)

    def known(self, start: int, end: int) -> Open:
        """The window, which may be new."""
        for window in self.open:
            if (window.start, window.end) == (start, end):
                return window
        self.open.append(Open(start, end))
        return self.open[-1]

    def session(self, new: Open, mark: int) -> list[Open]:
        """The session into which all that touch have merged; none if it is too late."""
        touching = [each for each in self.open if each.start <= new.end and new.start <= each.end]
        if not touching and new.end - 1 + self.lateness <= mark:
            return []
        self.open = [each for each in self.open if each not in touching]
        for each in sorted(touching, key=lambda each: each.start):
            new.records += each.records
            new.start, new.end = min(new.start, each.start), max(new.end, each.end)
        new.fired = new.end - 1 <= mark
        self.open.append(new)
        return [new]

    def reach(self, mark: int) -> None:
        """Let event time pass."""
        for window in sorted(self.open, key=lambda each: (each.end, each.start)):
            if window.end - 1 <= mark and not window.fired:
                self.emit(window)
        self.open = [each for each in self.open if each.end - 1 + self.lateness > mark]

    def emit(self, window: Open) -> None:
        """The result is that of the records so far."""
        window.fired = True
        self.out.append((window.start, window.end, list(window.records)))


def marks(records: Sequence[Seen], disorder: int) -> list[int]:
    """Event time before each record, as `with_event_time` gives it."""
    found, latest = [], -(2**63)
    for record in records:
        found.append(latest)
        latest = max(latest, record.at - disorder - 1)
    return found


def results(start: int, end: int, records: Sequence[Seen]) -> dict[str, Any]:
    """Of one window."""
    prices = [record.price for record in records if record.price is not None]
    return {
        "span": (start, end),
        "n": len(records),
        "some": len(prices),
        "total": sum(prices) if prices else None,
        "low": min(prices, default=None),
        "top": max(prices, default=None),
        "mean": sum(prices) / len(prices) if prices else None,
        "early": prices[0] if prices else None,
        "late": prices[-1] if prices else None,
        "all": prices,
    }


def model_of(
    shape: Assigned | int, records: Sequence[Seen], disorder: int, lateness: int
) -> tuple[dict[str, list[Any]], int]:
    """Results by key, in order, and how many records were late."""
    models = {key: Model(shape, lateness) for key in "ab"}
    for record, mark in zip(records, marks(records, disorder), strict=True):
        for model in models.values():
            model.reach(mark)
        models[record.key].add(record, mark)
    for model in models.values():
        model.reach(END)
    found = {key: [results(*each) for each in model.out] for key, model in models.items()}
    return found, sum(model.late for model in models.values())


def aggregated(stream: Any) -> Any:
    """All aggregates."""
    return stream.aggregate(
        uid="w",
        n=hg.count(),
        some=hg.count("price"),
        total=hg.sum("price"),
        low=hg.min("price"),
        top=hg.max("price"),
        mean=hg.avg("price"),
        early=hg.first("price"),
        late=hg.last("price"),
        all=hg.collect_list("price"),
    )


def processed(stream: Any) -> Any:
    """The same results of whole windows."""
    return stream.process(
        lambda key, window, records, ctx: [{"key": key, **results(window.start, window.end, records)}]
    )


def run(
    stream: Callable[[], Any], records: Sequence[Seen], disorder: int, cut: int
) -> tuple[dict[str, list[Any]], int]:
    """What the harness gives, with a restart before the record `cut`; and what was late."""
    tried = Run(stream)
    outputs = []
    for place, (record, mark) in enumerate(zip(records, marks(records, disorder), strict=True)):
        if place == cut:
            tried.restart()
        outputs += tried.watermark(mark) + tried.feed(record)
    outputs += tried.watermark(END)
    found: dict[str, list[Any]] = {"a": [], "b": []}
    for time, result in outputs:
        row = dict(result)
        if "window" in row:
            row["span"] = span(row)
            del row["window"]
        assert time == row["span"][1] - 1
        found[row.pop("key")].append(row)
    assert [tried.left(key) for key in "ab"] == [{}, {}]
    assert tried.timers == []
    return found, tried.harness.function.dropped


@pytest.mark.parametrize("kind", [aggregated, processed])
@pytest.mark.parametrize("shape", SHAPES)
@given(
    records=RECORDS,
    disorder=st.sampled_from([0, 25, 400]),
    lateness=st.sampled_from([0, 30]),
    cut=st.integers(0, 25),
)
@settings(max_examples=40, deadline=None)
def test_windows_are_those_of_the_model(
    shape: str, kind: Callable[[Any], Any], records: list[Seen], disorder: int, lateness: int, cut: int
) -> None:
    """Every result, in the order of each key, at the last ms of its window; nothing is left at the end."""
    make, model = SHAPES[shape]
    expected = model_of(model, records, disorder, lateness)
    assert run(lambda: kind(windows(make()).lateness(lateness)), records, disorder, cut) == expected


@given(records=RECORDS, cut=st.integers(0, 25), n=st.integers(1, 4), slide=st.sampled_from([None, 1, 2, 3]))
@settings(max_examples=60, deadline=None)
def test_windows_of_counts_are_of_records_in_order_of_arrival(
    records: list[Seen], cut: int, n: int, slide: int | None
) -> None:
    """Each `n` records, or the last `n` after every `slide`."""
    tried = Run(lambda: windows(hg.count_window(n, slide)).aggregate(all=hg.collect_list("at")))
    outputs = []
    for place, record in enumerate(records):
        if place == cut:
            tried.restart()
        outputs += tried.feed(record)
    for key in "ab":
        times = [record.at for record in records if record.key == key]
        step = slide or n
        ends = range(step, len(times) + 1, step)
        found = [(time, row["all"]) for time, row in outputs if row["key"] == key]
        assert found == [(None, times[max(0, end - n) : end]) for end in ends]
