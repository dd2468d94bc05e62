"""Sources, selection, process functions, event time and sinks, each without a job around it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import ManualClock, columns, context, finished, opened, rows

import headgate as hg
from headgate.api.sink import Sink, SinkWriter
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    PollStatus,
    Source,
    SourceReader,
    Split,
)
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.errors import UsageError, UserFunctionError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row import Row
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.stateless import ProcessOperator, SelectOperator, SinkOperator
from headgate.runtime.worker.operators.timestamps import TimestampsOperator

SIDE = hg.OutputTag("side")


# -- event time


def stamped(selector: Any, bound: int = 0, idleness: int | None = None, **changes: Any) -> Any:
    """An open timestamps operator and its output."""
    operator = TimestampsOperator(context(**changes), WatermarkStrategy(selector, bound, idleness))
    return operator, opened(operator)[0]


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=40),
    st.integers(0, 100),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.booleans(),
)
def test_the_watermark_before_each_record_is_exact(
    times: list[int], bound: int, sizes: list[int], columnar: bool
) -> None:
    """It is the greatest timestamp before the record, less the bound, less 1 - however batches are cut."""
    operator, out = stamped("t", bound)
    make, at, turn = columns if columnar else rows, 0, 0
    while at < len(times):
        size = sizes[turn % len(sizes)]
        operator.process(make([{"t": t} for t in times[at : at + size]]))
        at, turn = at + size, turn + 1
        assert out.log[-1] == ("watermark", max(times[:at]) - bound - 1)
    marks = [max(times[:i]) - bound - 1 if i else WATERMARK_MIN for i in range(len(times))]
    assert [(entry[1], entry[2]) for entry in out.timed()] == list(zip(times, marks, strict=True))


def test_event_time_goes_on_after_a_restore() -> None:
    """The greatest timestamp is state."""
    first, _ = stamped("t", 5)
    first.process(rows([{"t": 100}]))
    second, out = stamped("t", 5, restored=[finished(first.snapshot(1))])
    second.process(rows([{"t": 50}]))
    assert out.timed() == [({"t": 50}, 50, 94)]


def test_only_the_end_of_time_passes() -> None:
    """Watermarks from before are replaced by those of this operator."""
    operator, out = stamped("t")
    operator.watermark(5)
    operator.watermark(WATERMARK_MAX)
    assert out.log == [("watermark", WATERMARK_MAX)]


def test_idleness_is_told_once_and_ends_with_a_record() -> None:
    """After the time without records the others are told not to wait; the next record starts anew."""
    clock = ManualClock(0)
    operator, out = stamped("t", 0, 100, clock=clock)
    assert operator.next_processing_time() == 100
    operator.fire_processing_time(99)
    assert out.log == []
    operator.fire_processing_time(100)
    assert (out.log, operator.next_processing_time()) == (["idle"], None)
    clock.now = 500
    operator.process(rows([{"t": 1}]))
    assert operator.next_processing_time() == 600


def test_timestamp_columns_are_milliseconds_whatever_their_unit() -> None:
    """Seconds, micro- and nanoseconds, with and without zone, are converted."""
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
    expected = int(moment.timestamp() * 1000)
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("ms")):
        array = pa.array([expected], pa.int64()).cast(pa.timestamp("ms")).cast(kind)
        operator, out = stamped("t")
        operator.process(ArrowBatch(pa.RecordBatch.from_arrays([array], ["t"])))
        assert out.batches[0].timestamps is not None
        assert out.batches[0].timestamps.tolist() == [expected]


@pytest.mark.parametrize("value", [None, 1.5, "12", True, dt.datetime(2024, 1, 1), 2**63, [1]], ids=repr)
def test_what_is_no_time_is_refused_with_its_record(value: Any) -> None:
    """Only whole milliseconds are times of rows: nothing is cut off, parsed or guessed."""
    operator, _ = stamped(lambda r: r["t"])
    with pytest.raises(UsageError, match="expected integer milliseconds") as caught:
        operator.process(rows([{"t": 1}, {"t": value}]))
    assert repr({"t": value}) in str(caught.value)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (pa.array([1, None]), "1 records without a timestamp"),
        (pa.array([1.5]), "is double"),
        (pa.array(["x"]), "is string"),
    ],
)
def test_columns_that_are_no_times_are_refused(array: Any, words: str) -> None:
    """Nulls and other types are refused by column."""
    operator, _ = stamped("t")
    with pytest.raises(UsageError, match=words):
        operator.process(ArrowBatch(pa.RecordBatch.from_arrays([array], ["t"])))


def test_a_timestamp_function_that_raises_is_the_users() -> None:
    """Operator, record and cause are named."""
    operator, _ = stamped(lambda r: 1 // r)
    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as caught:
        operator.process(rows([1, 0]))
    assert caught.value.record == "0"


# -- sources


class Script(SourceReader[Any]):
    """Gives what it was told to give."""

    def __init__(self, polls: list[Any]) -> None:
        self.polls, self.splits, self.completed = polls, [Split("s", 0)], []

    def add_splits(self, splits: Sequence[Split]) -> None:
        self.splits = list(splits)

    def no_more_splits(self) -> None: ...

    def poll(self, max_records: int) -> Any:
        given = self.polls.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    def snapshot(self) -> list[Split]:
        return self.splits

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed.append(checkpoint_id)


class Scripted(Source[Any]):
    """A source of one script."""

    def __init__(self, polls: list[Any]) -> None:
        self.reader = Script(polls)

    def create_enumerator(self, restored: Any) -> Any: ...

    def create_reader(self, context: Any) -> Script:
        return self.reader


def test_a_source_wraps_lists_and_record_batches() -> None:
    """Lists become rows, record batches stay columns, statuses pass."""
    table = pa.RecordBatch.from_pydict({"a": [1]})
    operator = SourceOperator(context(), Scripted([[1, 2], table, NOTHING_AVAILABLE, END_OF_INPUT]))
    opened(operator)
    polled = [operator.poll(10) for _ in range(4)]
    assert not isinstance(polled[0], PollStatus)
    assert polled[0].rows() == [1, 2]
    assert isinstance(polled[1], ArrowBatch)
    assert polled[2:] == [NOTHING_AVAILABLE, END_OF_INPUT]


class ForeignColumns:
    """Columns as another copy of pyarrow has them: nothing is known of them but Arrow's C data interface."""

    def __init__(self, columns: pa.RecordBatch) -> None:
        self._columns = columns

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._columns.__arrow_c_array__(requested_schema)


def test_columns_of_another_copy_of_pyarrow_are_read() -> None:
    """A job that brings its own pyarrow makes such ones."""
    table = pa.record_batch({"v": [3, 4]})
    operator = SourceOperator(context(), Scripted([ForeignColumns(table)]))
    opened(operator)
    batch = operator.poll(10)
    assert isinstance(batch, ArrowBatch)
    assert batch.columns.equals(table)


@pytest.mark.parametrize(
    "given", [[], (1,), None, pa.RecordBatch.from_pydict({"a": []})], ids=["list", "tuple", "None", "columns"]
)
def test_a_poll_that_breaks_the_contract_is_refused(given: Any) -> None:
    """Nothing, or something else than records, is answered by naming the operator and the contract."""
    operator = SourceOperator(context(), Scripted([given]))
    opened(operator)
    with pytest.raises(UsageError, match="expected a non-empty"):
        operator.poll(10)


def test_splits_are_the_sources_state() -> None:
    """Positions go into the snapshot as plain values and come back as splits."""
    source = Scripted([])
    operator = SourceOperator(context(), source)
    opened(operator)
    source.reader.splits = [Split("x", {"row": 3}), Split("y")]
    state = finished(operator.snapshot(1))
    assert state.list_state == {"splits": [["x", {"row": 3}], ["y", None]]}
    again = Scripted([])
    opened(SourceOperator(context(restored=[state]), again))
    assert again.reader.splits == [Split("x", {"row": 3}), Split("y")]
    operator.checkpoint_complete(7)
    assert source.reader.completed == [7]


def test_bad_records_go_to_their_side_output_once() -> None:
    """What the reader set aside since the last poll is emitted before the records."""
    bad = BadRecord("f", 1, "why", b"x")
    source = Scripted([[1], [2]])
    operator = SourceOperator(context(), source)
    _, sides = opened(operator, "bad-records")
    source.reader.bad_records = [bad]
    operator.poll(1)
    operator.poll(1)
    assert sides["bad-records"].records == [bad]


def test_an_error_of_a_users_reader_shows_the_users_frames() -> None:
    """A reader of the program's own that raises is named with operator and attempt."""
    operator = SourceOperator(context(), Scripted([ValueError("torn")]))
    opened(operator)
    with pytest.raises(UserFunctionError, match="torn") as caught:
        operator.poll(1)
    assert caught.value.operator == "operator 'the op' (uid 'op')"


# -- selection and process functions


def test_select_keeps_shape_order_and_times() -> None:
    """Columns stay columns; rows become rows of the fields, in the order asked for."""
    for make in (columns, rows):
        operator = SelectOperator(context(), ("b", "a"))
        out, _ = opened(operator)
        operator.process(make([{"a": 1, "b": 2, "c": 3}], [5], [4]))
        assert out.log == [(Row.of(b=2, a=1), 5, 4)]
        assert isinstance(out.batches[0], ArrowBatch) == (make is columns)
    single = SelectOperator(context(), ("a",))
    out, _ = opened(single)
    single.process(rows([{"a": 1}]))
    assert out.records == [Row.of(a=1)]


def test_select_of_an_unknown_column_is_refused() -> None:
    """In both shapes, by name."""
    for make in (columns, rows):
        operator = SelectOperator(context(), ("a", "zz"))
        opened(operator)
        with pytest.raises(UsageError, match="zz"):
            operator.process(make([{"a": 1}]))


class Splitting(hg.ProcessFunction[int, Any]):
    """Yields n records for n, and the odd ones aside."""

    closed = 0

    def process(self, record: int, ctx: Any) -> Any:
        if record == 13:
            raise ValueError("unlucky")
        if record % 2:
            ctx.side_output(SIDE, record)
            return None
        return [(record, ctx.timestamp, ctx.watermark)] * record

    def close(self) -> None:
        self.closed += 1


def test_process_functions_emit_any_number_with_their_origins_times() -> None:
    """Outputs and side outputs carry the time of the record that caused them."""
    operator = ProcessOperator(context(), Splitting())
    out, sides = opened(operator, "side")
    operator.process(rows([2, 3, 1, 4], [10, 11, 12, 13], [1, 2, 3, 4]))
    assert out.log == [((2, 10, 1), 10, 1)] * 2 + [((4, 13, 4), 13, 4)] * 4
    assert sides["side"].log == [(3, 11, 2), (1, 12, 3)]
    operator.process(rows([1]))
    assert len(out.batches) == 1


def test_process_functions_that_raise_are_named() -> None:
    """With record and attempt."""
    operator = ProcessOperator(context(), Splitting())
    opened(operator)
    with pytest.raises(UserFunctionError, match="unlucky") as caught:
        operator.process(rows([2, 13]))
    assert (caught.value.record, caught.value.attempt) == ("13", 3)


# -- sinks


class Shelf(SinkWriter[Any]):
    """Keeps what it is given; fails on demand."""

    def __init__(self, restored: Sequence[Any]) -> None:
        self.got: list[Any] = []
        self.restored, self.number, self.fails = list(restored), 0, ""

    def write(self, records: Any) -> None:
        if self.fails == "write":
            raise ValueError("full")
        self.got.append(records)

    def prepare_commit(self) -> list[Any]:
        if self.fails == "prepare":
            raise ValueError("full")
        if not self.got:
            return []
        self.got, self.number = [], self.number + 1
        return [self.number]

    def snapshot(self) -> list[Any]:
        return [{"n": self.number}] if self.number else []


class Shelves(Sink[Any]):
    """A sink of one shelf."""

    writer: Shelf

    def create_writer(self, context: Any, restored: Sequence[Any]) -> Shelf:
        self.writer = Shelf(restored)
        return self.writer


def shelf(**changes: Any) -> tuple[SinkOperator, Shelf]:
    """An open sink operator and its writer."""
    sink = Shelves()
    operator = SinkOperator(context(**changes), sink)
    opened(operator)
    return operator, sink.writer


def test_what_was_prepared_stays_in_every_snapshot_until_one_completes() -> None:
    """An aborted checkpoint does not take prepared output with it."""
    operator, _ = shelf()
    for checkpoint in (1, 2):
        operator.process(rows([checkpoint]))
        state = finished(operator.snapshot(checkpoint))
    assert state.committables == [1, 2]
    operator.checkpoint_complete(1)
    assert finished(operator.snapshot(3)).committables == [2]
    operator.checkpoint_complete(3)
    assert finished(operator.snapshot(4)).committables == []


def test_events_pass_a_sink() -> None:
    """Side outputs from the middle of a chain hear of time and ends from the chain's end, behind the sink."""
    operator, _ = shelf()
    operator.watermark(5)
    operator.idle()
    operator.end_of_data()
    assert operator.next.log == [("watermark", 5), "idle", "end"]  # type: ignore[attr-defined]


def test_a_writers_own_state_comes_back() -> None:
    """Writer states are lists, given to the writer of the next attempt."""
    operator, _ = shelf()
    operator.process(rows([1]))
    state = finished(operator.snapshot(1))
    _, writer = shelf(restored=[state])
    assert writer.restored == [{"n": 1}]


def test_columns_are_handed_over_as_they_are_to_writers_that_take_them() -> None:
    """Others get rows."""
    operator, writer = shelf()
    operator.process(columns([{"a": 1}]))
    assert writer.got == [[Row.of(a=1)]]
    operator._columns = True
    operator.process(columns([{"a": 2}]))
    assert isinstance(writer.got[1], pa.RecordBatch)


@pytest.mark.parametrize("where", ["write", "prepare"])
def test_an_error_of_a_users_writer_shows_the_users_frames(where: str) -> None:
    """A writer of the program's own that raises is named with operator and attempt."""
    operator, writer = shelf()
    writer.fails = where
    with pytest.raises(UserFunctionError, match="full") as caught:
        operator.process(rows([1]))
        operator.snapshot(1)
    assert caught.value.operator == "operator 'the op' (uid 'op')"
    assert caught.value.attempt == 3
