"""Collect and counting sinks: exactly once in the driver, whatever is committed again."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.sink import SinkWriter, SinkWriterContext
from headgate.common.errors import UsageError
from headgate.connectors.collection import CollectSink, collect_sink
from headgate.connectors.committed import CommittedOnce
from headgate.connectors.discard import CountingSink, discard_sink


@dataclasses.dataclass
class Point:
    x: int
    y: list[str]


class Pair(NamedTuple):
    a: int
    b: str


class Struct(msgspec.Struct):
    a: int


class View:
    def as_dict(self) -> dict[str, int]:
        return {"v": 1}


def writer_of(sink: CollectSink | CountingSink, subtask: int = 0, attempt: int = 1) -> SinkWriter[object]:
    """A writer of a copy of the sink, as a worker has it."""
    shipped = pickle.loads(pickle.dumps(sink))
    writer: SinkWriter[object] = shipped.create_writer(SinkWriterContext("s", subtask, 2, attempt, "job"), [])
    return writer


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8))))
def test_every_committable_is_taken_once(events: list[tuple[str, int]]) -> None:
    """In any order and with any repetition, each number of each writer is taken exactly once."""
    once = CommittedOnce()
    taken = [event for event in events if once.take(*event)]
    assert sorted(taken) == sorted(set(events))


def test_collect_is_exactly_once_over_restarts() -> None:
    """What a checkpoint held is collected once, although committed twice; the rest is not at all."""
    sink = collect_sink()
    writer = writer_of(sink)
    writer.write([1, 2])
    first = writer.prepare_commit()
    sink.create_committer().commit(first)
    writer.write([3])
    writer.prepare_commit()  # Prepared, but its checkpoint never completes: the job restarts.
    committer = sink.create_committer()
    committer.commit(first)
    committer.abandon(first)
    again = writer_of(sink, attempt=2)
    again.write([3, 4])
    committer.commit(again.prepare_commit())
    assert sink.results == [1, 2, 3, 4]


@pytest.mark.parametrize("make", [collect_sink, discard_sink])
def test_attempts_of_two_drivers_are_told_apart(make: Callable[[], CollectSink | CountingSink]) -> None:
    """A driver that goes on with a job counts attempts from 1 again; nothing of it is taken for a repeat."""
    sink = make()
    committer = sink.create_committer()
    for generation in (1, 2, 2):
        context = SinkWriterContext("s", 0, 1, attempt=1, job="job", generation=generation)
        writer = sink.create_writer(context, [])
        writer.write(["a", "b"])
        committer.commit(writer.prepare_commit())
    taken = len(sink.results) if isinstance(sink, CollectSink) else sink.count
    assert taken == 4


def test_nothing_written_makes_no_committable() -> None:
    """A checkpoint without records has no committables."""
    assert writer_of(collect_sink()).prepare_commit() == []
    assert writer_of(discard_sink()).prepare_commit() == []


def test_pickled_copies_share_the_drivers_results() -> None:
    """A copy of the sink in the driver's process commits into the list of the original."""
    sink = collect_sink()
    writer = writer_of(sink)
    writer.write(["a"])
    copy = pickle.loads(pickle.dumps(sink))
    copy.create_committer().commit(writer.prepare_commit())
    assert sink.results == ["a"]
    assert collect_sink().results == []


def test_limits_are_refused_in_writer_and_committer() -> None:
    """More records than the limit are refused, whether one writer sees it or only the driver."""
    sink = collect_sink(limit=2)
    with pytest.raises(UsageError, match="limit of 2"):
        writer_of(sink).write([1, 2, 3])
    left, right = writer_of(sink, 0), writer_of(sink, 1)
    left.write([1, 2])
    right.write([3])
    with pytest.raises(UsageError, match="limit of 2"):
        sink.create_committer().commit([*left.prepare_commit(), *right.prepare_commit()])
    with pytest.raises(UsageError, match="limit=0"):
        collect_sink(limit=0)


class Hue(Enum):
    """A record that is a member of an enumeration."""

    RED = 1


@pytest.mark.parametrize(
    "record",
    [
        Point(1, ["a"]),
        Struct(5),
        Pair(1, "b"),
        Hue.RED,
        [(None, True, 1.5, b"x", -(2**70))],
        ("key", Point(2, [])),
        {"a": {1, 2}, "b": frozenset({Pair(1, "c")})},
        {1: Hue.RED, (2,): dt.date(2020, 1, 2)},
        Decimal("1.50"),
    ],
    ids=repr,
)
def test_collected_records_are_the_records(record: Any) -> None:
    """Plain values, records of classes and containers of them come back as what they were."""
    sink = collect_sink()
    writer = writer_of(sink)
    writer.write([record])
    sink.create_committer().commit(writer.prepare_commit())
    assert sink.results == [record]
    assert type(sink.results[0]) is type(record)


def test_rows_are_collected_as_dicts() -> None:
    """A view of a row has no class of its own to come back as."""
    sink = collect_sink()
    writer = writer_of(sink)
    writer.write([View()])
    sink.create_committer().commit(writer.prepare_commit())
    assert sink.results == [{"v": 1}]


def test_values_without_a_serializer_are_refused() -> None:
    """An object of an unknown kind is refused by type."""
    with pytest.raises(UsageError, match="type object"):
        writer_of(collect_sink()).write([object()])


def test_record_type_rebuilds_records() -> None:
    """With a record type the collected records are of that class again."""
    for record in (Point(1, ["a"]), Pair(1, "b"), Struct(5)):
        sink = collect_sink(record_type=type(record))
        writer = writer_of(sink)
        writer.write([record])
        sink.create_committer().commit(writer.prepare_commit())
        assert sink.results == [record]
        assert type(sink.results[0]) is type(record)


def test_record_type_that_does_not_fit_is_refused() -> None:
    """A record that is not of the promised type is refused, naming the field."""
    sink = collect_sink(record_type=Point)
    writer = writer_of(sink)
    writer.write([{"x": 1}])
    with pytest.raises(UsageError, match=r"a Point.*`y`"):
        sink.create_committer().commit(writer.prepare_commit())


def test_collect_takes_columns_as_dicts() -> None:
    """A record batch is collected as one dict per row."""
    sink = collect_sink()
    writer = writer_of(sink)
    writer.write(pa.record_batch({"a": [1, 2]}))
    sink.create_committer().commit(writer.prepare_commit())
    assert sink.results == [{"a": 1}, {"a": 2}]


def test_counts_per_subtask_are_exactly_once() -> None:
    """The counting sink adds up rows of both shapes per subtask, once per committable."""
    sink = discard_sink()
    left, right = writer_of(sink, 0), writer_of(sink, 1)
    left.write([1, 2])
    right.write(pa.record_batch({"a": [1, 2, 3]}))
    ready = [*left.prepare_commit(), *right.prepare_commit()]
    sink.create_committer().commit(ready)
    sink.create_committer().commit(ready)
    left.write([9])
    sink.create_committer().commit(left.prepare_commit())
    assert sink.counts == {0: 3, 1: 3}
    assert sink.count == 6
