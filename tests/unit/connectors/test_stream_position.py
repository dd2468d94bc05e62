"""Positions and triggers of streaming DataFrames: what is not understood is refused in one sentence."""

from __future__ import annotations

import pytest

from headgate.common.errors import UsageError
from headgate.connectors.dataframe.stream_plan import trigger_of
from headgate.connectors.dataframe.stream_position import Mark, Position

STORED = Position(Mark("line", "query", 3), {"metadata": b"id"}).to_plain()


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (["000.json"], "that is none of a streaming DataFrame"),
        ({"folder": "/staged", "files": []}, "that is none of a streaming DataFrame"),
        ({**STORED, "version": 2}, "has version 2; expected 1"),
    ],
)
def test_a_position_of_something_else_is_refused(stored: object, reason: str) -> None:
    """Of files, of a bounded DataFrame, of a newer version: the source is named."""
    with pytest.raises(UsageError, match=rf"position of source 'orders' .*{reason}"):
        Position.from_plain(stored, "orders")


def test_a_query_that_goes_on_stays_in_its_line() -> None:
    """It has a name of its own, and counts on from where it begins."""
    first = Mark.of_new_query(None)
    assert (first.line, first.epoch) == (first.query, -1)
    second = Mark.of_new_query(Position(first.at(7), {}))
    assert (second.line, second.epoch) == (first.line, 7)
    assert second.query != first.query


@pytest.mark.parametrize("trigger", ["", "once", "processing-time", "processing-time soon", "availableNow"])
def test_a_trigger_that_is_none_is_refused(trigger: str) -> None:
    """With what is expected."""
    with pytest.raises(UsageError, match=r"trigger of from_spark\(\) is .*; expected"):
        trigger_of(trigger)
