"""Positions and triggers of streaming DataFrames: what is not understood is refused in one sentence."""

from __future__ import annotations

import zlib

import pytest

from headgate.common.errors import StorageError, UsageError
from headgate.connectors.dataframe.stream_plan import trigger_of
from headgate.connectors.dataframe.stream_position import Position, QueryEpoch

STORED = Position(QueryEpoch("3f9c", "a01b", 3), {"metadata": zlib.compress(b"id")}).to_plain()


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


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"line": "../../elsewhere"}, "its line is '../../elsewhere', expected hexadecimal digits"),
        ({"query": None}, "its query is None"),
        ({"epoch": "3"}, "its epoch is '3'"),
        ({"epoch": -2}, "its epoch is -2"),
        ({"log": []}, "its log is a list"),
        ({"log": {"../../.bashrc": zlib.compress(b"")}}, r"an entry named '../../.bashrc', which is none"),
        ({"log": {"sources/0/..": zlib.compress(b"")}}, "an entry named"),
        ({"log": {"/etc/passwd": zlib.compress(b"")}}, "an entry named"),
        ({"log": {"offsets/3": b"v1"}}, "its entry 'offsets/3' cannot be unpacked"),
        ({"log": {"offsets/3": "v1"}}, "its entry 'offsets/3' cannot be unpacked"),
        ({"log": {"offsets/3": zlib.compress(b"v1")[:-3]}}, "its entry 'offsets/3' ends early"),
    ],
)
def test_a_position_that_is_damaged_or_a_strangers_is_refused(changed: object, reason: str) -> None:
    """It names folders and files that a query's log is laid out in: only names that Spark gives."""
    assert isinstance(changed, dict)
    with pytest.raises(StorageError, match=rf"position of source 'orders' is damaged: .*{reason}"):
        Position.from_plain({**STORED, **changed}, "orders")


def test_an_entry_that_unpacks_to_far_more_is_refused() -> None:
    """Before it fills the memory. It is packed here: where tests are collected, each process would do it."""
    packer = zlib.compressobj(1)
    packed = b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(257)), packer.flush()])
    with pytest.raises(StorageError, match=r"'orders' is damaged: .*unpacks to more than 268435456 bytes"):
        Position.from_plain({**STORED, "log": {"offsets/3": packed}}, "orders")


def test_a_query_that_goes_on_stays_in_its_line() -> None:
    """It has a name of its own, and counts on from where it begins."""
    first = QueryEpoch.of_new_query(None)
    assert (first.line, first.epoch) == (first.query, -1)
    second = QueryEpoch.of_new_query(Position(first.at(7), {}))
    assert (second.line, second.epoch) == (first.line, 7)
    assert second.query != first.query


@pytest.mark.parametrize("trigger", ["", "once", "processing-time", "processing-time soon", "availableNow"])
def test_a_trigger_that_is_none_is_refused(trigger: str) -> None:
    """With what is expected."""
    with pytest.raises(UsageError, match=r"trigger of from_spark\(\) is .*; expected"):
        trigger_of(trigger)
