"""What the sinks of a plan were given, in memory: changes and marks in order, and what was committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.relational.changes import CHANGE, Change
from headgate.testing.simulation.invariants import Violation
from sim.plans.queries import shown

Entry: TypeAlias = list[dict[str, Any]] | dict[tuple[str, str], int]
"""Changes, or the counts of a mark."""

STORIES: dict[str, dict[int, Story]] = {}
"""Sink -> subtask -> its story; found by name, as the sink travels to workers with the plan."""


class Story:
    """What one subtask of a sink was given in the present attempt.

    Attributes:
        entries: all of it.
        taken: how many of them went into parts.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.taken = 0


PARTS: list[list[Entry]] = []
"""What sinks have prepared; committables are places in this list."""


class StorySink(Sink[Any]):
    """A sink of changes into the story called `uid`."""

    def __init__(self, uid: str) -> None:
        self.uid = uid

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        story = STORIES[self.uid][context.subtask] = Story()
        return StoryWriter(story)

    @override
    def create_committer(self) -> SinkCommitter:
        return StoryCommitter()


class StoryCommitter(SinkCommitter):
    """Does nothing: what checkpoints hold is looked up in them."""

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        pass


class StoryWriter(SinkWriter[Any]):
    """Keeps what it gets; a part is committed when its checkpoint completes."""

    accepts_columns = True

    def __init__(self, story: Story) -> None:
        self._story = story

    @override
    def write(self, records: Any) -> None:
        self._story.entries.append(records.to_pylist())

    @override
    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        self._story.entries.append(dict(rows))

    @override
    def prepare_commit(self) -> list[Any]:
        story = self._story
        part, story.taken = story.entries[story.taken :], len(story.entries)
        if not part:
            return []
        PARTS.append(part)
        return [len(PARTS) - 1]


class Shown:
    """The rows that a sink shows: changes are added up, and none may go that has not come."""

    def __init__(self, uid: str) -> None:
        self.uid, self._counts = uid, Counter[str]()
        self._exact = Counter[str]()

    def add(self, changes: Sequence[dict[str, Any]]) -> None:
        """Some changes."""
        for change in changes:
            *values, kind = change.values()
            assert CHANGE in change
            sign = 1 if Change(kind).adds else -1
            self._counts[shown(values)] += sign
            self._exact[repr(values)] += sign

    def rows(self) -> Counter[str]:
        """The rows after whole changes; Violation: one went that had not come."""
        gone = [row for row, count in self._exact.items() if count < 0]
        if gone:
            raise Violation(f"sink {self.uid!r}: a row went that had not come: {gone[0]}")
        return +self._counts
