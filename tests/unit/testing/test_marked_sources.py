"""Test sources: markers between the records say what happens there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import headgate as hg
from headgate.testing import CRASH_ONCE, EOF, PAUSE, TestSource


def reader_of(source: TestSource, *splits: hg.Split) -> Any:
    """A reader with splits, by default the whole first list."""
    reader = source.create_reader(hg.SourceReaderContext("s", 0, 1))
    reader.add_splits(splits or [hg.Split("0", 0)])
    reader.no_more_splits()
    return reader


def read(reader: Any) -> list[Any]:
    """Everything up to the first moment without records."""
    found: list[Any] = []
    while isinstance(polled := reader.poll(2), list):
        found += polled
    return found


def test_records_come_in_order_and_positions_follow() -> None:
    """A position is right behind the last record that was read."""
    reader = reader_of(TestSource([1, 2, 3]))
    assert reader.poll(2) == [1, 2]
    assert reader.snapshot() == [hg.Split("0", 2)]
    assert (read(reader), reader.poll(1), reader.snapshot()) == ([3], hg.END_OF_INPUT, [])


def test_a_crash_happens_once(tmp_path: Path) -> None:
    """Another reader, also of a copy in another process, passes the place where the first one crashed."""
    source = TestSource([1, CRASH_ONCE, 2, CRASH_ONCE], memory=tmp_path)
    reader = reader_of(source)
    assert reader.poll(9) == [1]
    with pytest.raises(hg.OperatingError, match="split 0 of a TestSource crashes at entry 1"):
        reader.poll(9)
    again = reader_of(cloudpickle.loads(cloudpickle.dumps(source)))
    assert (again.poll(9), again.poll(9)) == ([1], [2])
    with pytest.raises(hg.OperatingError, match="entry 3"):
        again.poll(9)
    assert read(reader_of(source)) == [1, 2]


def test_a_pause_has_no_records() -> None:
    """During a pause nothing is available; it does not count as the end."""
    reader = reader_of(TestSource([1, PAUSE(60_000), 2]))
    assert [reader.poll(9) for _ in range(3)] == [[1], hg.NOTHING_AVAILABLE, hg.NOTHING_AVAILABLE]
    assert read(reader_of(TestSource([PAUSE(0), 1]), hg.Split("0", 1))) == [1]
    with pytest.raises(hg.UsageError, match="PAUSE got -1 ms"):
        PAUSE(-1)


def test_the_end_can_be_passed_by_a_restored_job() -> None:
    """EOF ends a reader's input; its position is behind it."""
    source = TestSource([1, EOF, 2])
    reader = reader_of(source)
    assert (read(reader), reader.poll(9)) == ([1], hg.END_OF_INPUT)
    assert reader.snapshot() == [hg.Split("0", 2)]
    assert read(reader_of(source, *reader.snapshot())) == [2]


def test_splits_are_handed_out_once() -> None:
    """The enumerator's state is what it has not handed out."""
    source = TestSource(["a"], ["b"])
    enumerator = source.create_enumerator(None)
    assert enumerator.next_splits(0) == [hg.Split("0", 0)]
    restored = source.create_enumerator(enumerator.snapshot())
    assert (restored.next_splits(0), restored.next_splits(0)) == ([hg.Split("1", 0)], None)


def test_its_memory_must_exist(tmp_path: Path) -> None:
    """A folder that is not there is refused before the job starts."""
    with pytest.raises(hg.UsageError, match="create it first"):
        TestSource([1], memory=tmp_path / "none").validate()
    source = TestSource([1])
    source.validate()
    folder = Path(source.memory)
    del source
    assert not folder.exists()


def test_a_reader_restored_during_a_pause_pauses_too() -> None:
    """A snapshot of the pause stands before it, so a job that rests goes on resting after a restart."""
    source = TestSource([1, PAUSE(60_000), 2])
    reader = reader_of(source, hg.Split("0", 0))
    assert [reader.poll(10), reader.poll(10)] == [[1], hg.NOTHING_AVAILABLE]
    restored = reader_of(source, *reader.snapshot())
    assert [restored.poll(10), restored.poll(10)] == [hg.NOTHING_AVAILABLE, hg.NOTHING_AVAILABLE]


def test_a_reader_goes_on_after_its_pause() -> None:
    """Once the time is over, and once only."""
    reader = reader_of(TestSource([1, PAUSE(0), 2]), hg.Split("0", 0))
    assert [reader.poll(10), reader.poll(10), reader.poll(10)] == [[1], hg.NOTHING_AVAILABLE, [2]]
    assert reader.snapshot() == [hg.Split("0", 3)]
