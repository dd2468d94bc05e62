"""The layout in which windows are stored has a number; what this version would misread is refused."""

from __future__ import annotations

from typing import Any

import pytest
from windows_under_test import END, Run, Seen, windows

import headgate as hg
from headgate.api.windows.window_function import LAYOUT


def open_window(last: Any = lambda stream: stream.aggregate(n=hg.count())) -> Run:
    """A window with a record in it."""
    run = Run(lambda: last(windows(hg.tumbling(100))))
    run.feed(Seen("a", 1))
    return run


@pytest.mark.parametrize(
    "last",
    [
        lambda stream: stream.aggregate(n=hg.count()),
        lambda stream: stream.reduce(max),
        lambda stream: stream.process(lambda key, window, records, ctx: records),
    ],
)
def test_each_snapshot_has_the_number(last: Any) -> None:
    """It is one, also after restarts. Versions without numbers refuse a state of that name."""
    run = open_window(last)
    for _ in range(3):
        assert run.harness.function.layout.get() == [LAYOUT]
        run.restart()
    assert len(run.watermark(END)) == 1


def test_a_snapshot_without_a_number_goes_on() -> None:
    """It is from before there were numbers."""
    run = open_window()
    run.harness.function.layout.clear()
    run.restart()
    assert run.harness.function.layout.get() == [LAYOUT]
    assert len(run.watermark(END)) == 1


def test_a_later_number_is_refused() -> None:
    """The message says what wrote it and what to do."""
    run = open_window()
    run.harness.function.layout.update([LAYOUT, LAYOUT + 1])
    with pytest.raises(
        hg.UsageError, match=f"stored in layout {LAYOUT + 1}; this Headgate reads up to {LAYOUT}"
    ):
        run.restart()
