"""The collection source: every record once, in order within a split, from any snapshot on."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReaderContext, Split
from headgate.common.errors import OperatingError, UsageError
from headgate.connectors.collection import CollectionSource, collection_source
from headgate.connectors.generator import GeneratorSource, generator_source

Steps = list[tuple[int, bool]]
STEPS = st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=30)


def read_with_crashes(source: CollectionSource | GeneratorSource, steps: Steps) -> list[object]:
    """Poll with the given sizes; where a step says so, throw all away and go on from a snapshot."""
    enumerator = source.create_enumerator(None)
    reader = source.create_reader(SourceReaderContext("uid", 0, 1))
    seen: list[object] = []
    for size, crash in [*steps, *[(5, False)] * 10_000]:
        if crash:
            positions, state = reader.snapshot(), enumerator.snapshot()
            source = pickle.loads(pickle.dumps(source))
            enumerator = source.create_enumerator(state)
            reader = source.create_reader(SourceReaderContext("uid", 0, 1))
            reader.add_splits(positions)
        polled = reader.poll(size)
        if polled is END_OF_INPUT:
            return seen
        if polled is NOTHING_AVAILABLE:
            splits = enumerator.next_splits(0)
            reader.add_splits(splits) if splits is not None else reader.no_more_splits()
        else:
            assert isinstance(polled, list)
            assert 0 < len(polled) <= size
            seen.extend(polled)
    raise AssertionError("the source did not end")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(), max_size=40), st.integers(1, 6), STEPS)
def test_collection_survives_crashes(records: list[int], splits: int, steps: Steps) -> None:
    """Whatever the poll sizes, splits and crash points, one reader gives the collection in order."""
    assert read_with_crashes(collection_source(records, splits), steps) == records


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(1, 6), STEPS)
def test_generator_survives_crashes(count: int, splits: int, steps: Steps) -> None:
    """The generator gives each index once and in order, from any snapshot on."""
    source = generator_source(abs, count, splits=splits)
    assert read_with_crashes(source, steps) == list(range(count))


def test_splits_are_contiguous_and_do_not_depend_on_readers() -> None:
    """The splits cover the collection in order, whoever asks for them."""
    enumerator = collection_source(range(10), splits=3).create_enumerator(None)
    ids = [enumerator.next_splits(subtask)[0].id for subtask in (1, 0, 1)]  # type: ignore[index]
    assert ids == ["0-3", "3-6", "6-10"]
    assert enumerator.next_splits(0) is None


def test_small_collection_is_one_split() -> None:
    """Up to 1024 records stay in one split, so that they keep their order altogether."""
    assert collection_source(range(1024)).splits == 1
    assert collection_source(range(1025)).splits == 2
    assert collection_source(range(10**6)).splits == 64


def test_shorter_collection_after_restart_is_refused() -> None:
    """A split beyond the collection's end is refused by name instead of reading less."""
    reader = collection_source([1, 2]).create_reader(SourceReaderContext("uid", 0, 1))
    with pytest.raises(OperatingError, match=r"split 0-3 .* has 2 records"):
        reader.add_splits([Split("0-3", 1)])


def test_splits_below_one_are_refused() -> None:
    """A collection cannot be cut into no splits."""
    with pytest.raises(UsageError, match="splits=0"):
        collection_source([1], splits=0)


@pytest.mark.parametrize("name", ["0", "a", "0-x", "1-2-3"])
def test_splits_of_another_kind_of_source_are_refused(name: str) -> None:
    """A checkpoint's splits that are no ranges belong to another source, and the sentence says what to do."""
    with pytest.raises(UsageError, match="positions are those of another kind of source"):
        collection_source([1, 2]).check_restore(None, [Split(name, 12)])


def test_a_split_can_be_made_with_the_type_of_its_position() -> None:
    """As type checkers allow it; it is the same split, and as little changed."""
    split = Split[int]("0-3", 1)
    assert split == Split("0-3", 1) == pickle.loads(pickle.dumps(split))
    with pytest.raises(AttributeError):
        split.position = 2  # type: ignore[misc]
