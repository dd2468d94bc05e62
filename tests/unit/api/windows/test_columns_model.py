"""Windows of columns give what the model of windows of rows gives, whatever is late, and in any batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from columns_under_test import AGGREGATES, LATE, ColumnsRun, grouped
from hypothesis import given, settings
from hypothesis import strategies as st
from test_windows_model import Model, cumulative, marks, results, sliding
from windows_under_test import END, Seen

import headgate.functions as F  # noqa: N812  # as PySpark's users write it

# Even times and an odd gap: whether sessions that only touch are one depends on which record came first.
RECORDS = st.lists(
    st.builds(Seen, st.sampled_from("ab"), st.integers(-30, 120).map(lambda n: 2 * n),
              st.one_of(st.none(), st.integers(-5, 5))),
    max_size=25,
)  # fmt: skip
SHAPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "tumbling": (lambda: F.window("at", 50), sliding(50, 50)),
    "tumbling, moved": (lambda: F.window("at", 50, offset=15), sliding(50, 50, 15)),
    "sliding": (lambda: F.window("at", 60, 20), sliding(60, 20)),
    "sliding, not divided": (lambda: F.window("at", 50, 30, 7), sliding(50, 30, 7)),
    "cumulative": (lambda: F.cumulate_window("at", 60, 20), cumulative(60, 20)),
    "sessions": (lambda: F.session_window("at", 21), 21),
}
NAMES = ("span", "n", "some", "total", "low", "top", "mean")


def expected(
    shape: Any, records: Sequence[Seen], disorder: int, lateness: int
) -> tuple[dict[str, list[Any]], list[Seen]]:
    """Results by key, in order, and the records that were too late, by the model."""
    models, late = {key: Model(shape, lateness) for key in "ab"}, []
    for record, mark in zip(records, marks(records, disorder), strict=True):
        for model in models.values():
            model.reach(mark)
        before = models[record.key].late
        models[record.key].add(record, mark)
        if models[record.key].late > before:
            late.append(record)
    for model in models.values():
        model.reach(END)
    found = {
        key: [{name: results(*each)[name] for name in NAMES} for each in model.out]
        for key, model in models.items()
    }
    return found, late


def run(
    make: Callable[[], Any], records: Sequence[Seen], disorder: int, sizes: Sequence[int], cut: int
) -> tuple[dict[str, list[Any]], ColumnsRun]:
    """What columns give, in batches of these sizes, with a restart before batch `cut`."""
    tried, outputs, start = ColumnsRun(make), [], 0
    before = marks(records, disorder)
    for number in range(len(records)):
        if number == cut:
            tried.restart()
        stop = start + sizes[number % len(sizes)]
        if start < len(records):
            outputs += tried.feed(records[start:stop], before[start:stop])
        start = stop
    outputs += tried.finish()
    found: dict[str, list[Any]] = {"a": [], "b": []}
    for time, row in outputs:
        assert time == row["span"][1] - 1
        found[row.pop("key")].append(row)
    return found, tried


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@given(
    records=RECORDS,
    disorder=st.sampled_from([0, 25, 400]),
    lateness=st.sampled_from([0, 30, 1_000]),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    cut=st.integers(0, 25),
)
@settings(max_examples=20, deadline=None)
def test_windows_are_those_of_the_model(
    shape: str, tagged: bool, records: list[Seen], disorder: int, lateness: int, sizes: list[int], cut: int
) -> None:
    """Every result, in the order of each key, whatever the batches; late rows go where they were sent."""
    make, model = SHAPES[shape]
    if not (lateness or tagged):
        tagged = True  # without either the plain operator runs, which other tests try

    def table() -> Any:
        windows = grouped(make()).lateness(lateness)
        return (windows.late_to(LATE) if tagged else windows).agg(*AGGREGATES, uid="w")

    answer, late = expected(model, records, disorder, lateness)
    found, tried = run(table, records, disorder, sizes, cut)
    assert found == answer
    assert tried.left == 0
    if tagged:
        assert tried.dropped == 0
        assert [(time, Seen(**row)) for time, row in tried.late_records] == [(each.at, each) for each in late]
    else:
        assert tried.dropped == len(late)
