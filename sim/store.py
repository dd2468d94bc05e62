"""The outside world of the simulated jobs: events to read, and a store that a two-phase sink publishes to.

Both are found by name in this process, because the sink travels to simulated workers with the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkCommitterContext, SinkWriter, SinkWriterContext
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
)
from headgate.common.errors import OperatingError


@dataclass
class Store:
    """Where a sink's output ends up: prepared parts, and what readers can see.

    Attributes:
        prepared: part -> records; durable, not visible.
        published: part -> records; visible.
        held: parts of savepoints; nobody abandons them.
        on_publish: called with a part's name before it becomes visible.
        on_abandon: called before prepared parts are removed.
    """

    prepared: dict[str, list[Any]] = field(default_factory=dict)
    published: dict[str, list[Any]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    on_publish: Any = None
    on_abandon: Any = None

    def publish(self, part: str) -> None:
        """Make a prepared part visible; again does nothing."""
        if part in self.published:
            return
        if part not in self.prepared:
            raise OperatingError(f"part {part!r} is neither prepared nor published")
        if self.on_publish is not None:
            self.on_publish(part)
        self.published[part] = self.prepared.pop(part)

    def records(self) -> list[Any]:
        """Everything visible."""
        return [record for part in sorted(self.published) for record in self.published[part]]


STORES: dict[str, Store] = {}
"""By the name that sinks carry."""


class StoreSink(Sink[Any]):
    """A two-phase sink into the store called `name`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return StoreWriter(self.name, context)

    @override
    def create_committer(self) -> SinkCommitter:
        return StoreCommitter(self.name)


class StoreWriter(SinkWriter[Any]):
    """Collects records and prepares one part per checkpoint."""

    def __init__(self, name: str, context: SinkWriterContext) -> None:
        self._store = STORES[name]
        # Sorted by name, parts are in the order in which they were written, over all executions of the job.
        deployment = f"g{context.generation:03d}-a{context.attempt:04d}"
        self._prefix, self._count = f"{context.job} {deployment}-s{context.subtask}", 0
        self._records: list[Any] = []

    @override
    def write(self, records: Any) -> None:
        self._records.extend(tuple(record) for record in records)

    @override
    def prepare_commit(self) -> list[Plain]:
        if not self._records:
            return []
        part, self._count = f"{self._prefix}-{self._count:04d}", self._count + 1
        self._store.prepared[part], self._records = self._records, []
        return [part]


class StoreCommitter(SinkCommitter):
    """Publishes parts."""

    def __init__(self, name: str) -> None:
        self._store = STORES[name]
        self._context: SinkCommitterContext | None = None

    @override
    def begin(self, context: SinkCommitterContext) -> None:
        self._context = context

    @override
    def hold(self, committables: Sequence[Plain]) -> None:
        self._store.held.update(committables)

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for part in committables:
            self._store.publish(part)

    @override
    def abandon(self, committed_through: Sequence[Plain]) -> None:
        keep = {*committed_through, *self._store.held}
        if self._store.on_abandon is not None:
            self._store.on_abandon()
        for part in [part for part in self._store.prepared if part not in keep]:
            if self._is_over(part):
                del self._store.prepared[part]

    def _is_over(self, part: str) -> bool:
        """Whether who prepared it is not of a later driver than this, which may have been replaced."""
        assert self._context is not None
        job, _, rest = part.rpartition(" ")
        job = job[job.find("-") + 1 :] if job[:1].isdigit() else job
        ancestors = {fork.job for fork in self._context.lineage.forks}
        generation = int(rest[1:4])
        return job in ancestors or (job == self._context.job and generation <= self._context.generation)


class EventSource(Source[Any]):
    """A bounded source over fixed events that come in dribs and drabs.

    Args:
        events: all of them, in arrival order.
        split_size: events of one split.
    """

    def __init__(self, events: Sequence[Any], split_size: int) -> None:
        self.events, self.split_size = list(events), split_size

    @override
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        return EventEnumerator(self, 0 if restored is None else restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return EventReader(self)


class EventEnumerator(SplitEnumerator):
    """Hands out splits in order; its state is the number of the next one."""

    def __init__(self, source: EventSource, following: int) -> None:
        self._source, self._next = source, following

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        start = self._next * self._source.split_size
        if start >= len(self._source.events):
            return None
        self._next += 1
        return [Split(str(self._next - 1), start)]

    @override
    def snapshot(self) -> Plain:
        return self._next


class EventReader(SourceReader[Any]):
    """Reads a split to its end; now and then there is nothing for a moment."""

    def __init__(self, source: EventSource) -> None:
        self.bad_records = []
        self._source = source
        self._splits: list[tuple[str, int]] = []
        self._final, self._polls = False, 0

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        # In order also when it takes over what several readers had begun: time would run ahead otherwise.
        begun = [(split.id, int(split.position)) for split in splits]
        self._splits = sorted(self._splits + begun, key=lambda split: int(split[0]))

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def poll(self, max_records: int) -> list[Any] | PollStatus:
        self._polls += 1
        if not self._splits:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        if self._polls % 3:
            return NOTHING_AVAILABLE
        split, start = self._splits[0]
        end = min((int(split) + 1) * self._source.split_size, len(self._source.events))
        stop = min(end, start + max(1, min(max_records, 1 + (start * 7 + self._polls) % 4)))
        self._splits[0] = (split, stop)
        if stop == end:
            del self._splits[0]
        return list(self._source.events[start:stop])

    @override
    def snapshot(self) -> list[Split]:
        return [Split(split, position) for split, position in self._splits]
