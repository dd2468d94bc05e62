"""Generator and rate limit: ranges, batches, and rates kept by the clock that was passed in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    Boundedness,
    InputLeft,
    SourceReader,
    SourceReaderContext,
    Split,
)
from headgate.common.errors import UsageError
from headgate.connectors.collection import collection_source
from headgate.connectors.generator import GeneratorSource, generator_source, throttled


class FakeClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.at_ms


def reader_of(source: GeneratorSource, *splits: Split, parallelism: int = 1) -> SourceReader[object]:
    """A reader with these splits."""
    reader = source.create_reader(SourceReaderContext("uid", 0, parallelism))
    reader.add_splits(splits)
    return reader


def test_rate_is_kept_without_sleeping() -> None:
    """Ahead of its rate a reader says NOTHING_AVAILABLE; later it gives what time has earned."""
    clock = FakeClock()
    reader = reader_of(generator_source(abs, 1000, 10, clock=clock), Split("0-1000"))
    assert reader.poll(100) is NOTHING_AVAILABLE
    clock.at_ms += 300
    assert reader.poll(100) == [0, 1, 2]
    assert reader.poll(100) is NOTHING_AVAILABLE
    clock.at_ms += 99
    assert reader.poll(100) is NOTHING_AVAILABLE
    clock.at_ms += 1
    assert reader.poll(100) == [3]


def test_burst_after_a_pause_is_one_second() -> None:
    """Time without polls is credited for at most one second."""
    clock = FakeClock()
    reader = reader_of(generator_source(abs, 1000, 10, clock=clock), Split("0-1000"))
    reader.poll(100)
    clock.at_ms += 60_000
    assert reader.poll(100) == list(range(10))


def test_rate_below_one_per_second_still_flows() -> None:
    """A rate of one record in two seconds gives it after two seconds, not never."""
    clock = FakeClock()
    reader = reader_of(generator_source(abs, 5, 0.5, clock=clock), Split("0-5"))
    reader.poll(1)
    clock.at_ms += 2_000
    assert reader.poll(1) == [0]


def test_rate_is_shared_by_parallel_readers() -> None:
    """Each of four readers keeps a quarter of the rate."""
    clock = FakeClock()
    reader = reader_of(generator_source(abs, 100, 40, clock=clock), Split("0-100"), parallelism=4)
    reader.poll(100)
    clock.at_ms += 500
    assert reader.poll(100) == [0, 1, 2, 3, 4]


def test_endless_generator_always_has_splits() -> None:
    """Without a count the enumerator never ends and every index is in exactly one split."""
    source = generator_source(abs, split_size=5)
    enumerator = source.create_enumerator(None)
    ids = [split.id for _ in range(3) for split in enumerator.next_splits(0) or []]
    assert source.boundedness is Boundedness.UNBOUNDED
    assert ids == ["0-5", "5-10", "10-15"]
    assert enumerator.snapshot() == 15


def test_batch_function_stays_columnar() -> None:
    """A batch function takes a range and its record batch is passed on as it is."""

    def squares(indices: range) -> pa.RecordBatch:
        return pa.record_batch({"i": list(indices)})

    reader = reader_of(generator_source(squares, 10, batch=True), Split("0-10", 4))
    polled = reader.poll(3)
    assert isinstance(polled, pa.RecordBatch)
    assert polled.column("i").to_pylist() == [4, 5, 6]
    assert reader.snapshot() == [Split("0-10", 7)]


def test_batch_function_of_wrong_length_is_refused() -> None:
    """A batch function that loses records is refused, because positions would lie."""
    reader = reader_of(generator_source(lambda indices: [0], 10, batch=True), Split("0-10"))
    with pytest.raises(UsageError, match=r"returned 1 records .* expected 3"):
        reader.poll(3)
    assert reader.snapshot() == [Split("0-10", 0)]


def test_throttled_checks_a_restore_and_shows_columns_as_the_source_inside() -> None:
    """Positions that the source cannot go on from are refused before the start; explain() shows its shape."""
    source = throttled(generator_source(abs, 10), 2)
    source.check_restore(3, [Split("0-5", 2)])
    with pytest.raises(UsageError, match="those of another kind of source"):
        source.check_restore(3, [Split("a.json", {"offset": 2})])
    inside = collection_source("abcd")
    assert not throttled(inside, 2).produces_columns
    inside.produces_columns = True
    assert throttled(inside, 2).produces_columns


def test_throttled_keeps_positions_and_passes_bad_records() -> None:
    """A throttled source has the positions, bad records and end of the source inside."""
    clock = FakeClock()
    source = throttled(collection_source("abcd"), 2, clock=clock)
    reader = source.create_reader(SourceReaderContext("uid", 0, 1))
    reader.add_splits([Split("0-4")])
    reader.no_more_splits()
    assert reader.poll(9) is NOTHING_AVAILABLE
    clock.at_ms += 1_000
    assert reader.poll(9) == ["a", "b"]
    assert reader.snapshot() == [Split("0-4", 2)]
    bad = BadRecord("f", 1, "because", b"x")
    reader.bad_records = [bad]
    assert reader.bad_records == [bad]
    clock.at_ms += 1_000
    assert reader.poll(9) == ["c", "d"]
    clock.at_ms += 1_000
    assert reader.poll(9) is END_OF_INPUT


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_impossible_rates_are_refused(rate: float) -> None:
    """A rate must be above zero and finite."""
    with pytest.raises(UsageError, match="rate_per_s"):
        generator_source(abs, 1, rate)
    with pytest.raises(UsageError, match="rate_per_s"):
        throttled(collection_source([1]), rate)


def test_contradictory_numbers_are_refused() -> None:
    """Counts and splits out of bounds, and a function that is none, are refused in a sentence."""
    with pytest.raises(UsageError, match="count=-1"):
        generator_source(abs, -1)
    with pytest.raises(UsageError, match="splits=2"):
        generator_source(abs, splits=2)
    with pytest.raises(UsageError, match="split_size=0"):
        generator_source(abs, 1, split_size=0)
    with pytest.raises(UsageError, match="expected a function"):
        generator_source(7, 1).validate()  # type: ignore[arg-type]


def test_slow_generator_takes_small_splits() -> None:
    """With a rate, a split is a tenth of a second long, so that readers stay close in their indices."""
    assert generator_source(abs, rate_per_s=1000).split_size == 100
    assert generator_source(abs, rate_per_s=1).split_size == 1
    assert generator_source(abs, count=160).split_size == 10


def test_a_generator_without_an_end_tells_nothing_of_its_ranges() -> None:
    """They have ever new names, each a series of its own; with an end, what is left is known."""
    split = Split("0-1000")
    assert reader_of(generator_source(abs), split).left_to_read() == {}
    assert reader_of(generator_source(abs, rate_per_s=5), split).left_to_read() == {}
    assert reader_of(generator_source(abs, 1000), split).left_to_read() == {"0-1000": InputLeft(records=1000)}
