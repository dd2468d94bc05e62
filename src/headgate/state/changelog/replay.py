"""Restoring a base and the segments after it, in order; for every backend, with a changelog or without.

All stored descriptions, of bases and segments alike, are judged before anything is filled in: what they say
may reconfigure a serializer, and nothing may have been written by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.common.errors import StorageError
from headgate.core.timers import TimerQueue
from headgate.state.backend import BlobReader, StateTable
from headgate.state.changelog.sections import REMOVED_STATE, changed_name
from headgate.state.heap.heap_blob import BytesBlob, Header, read_header
from headgate.state.heap.restore import readers_of, restored_sections
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.targets import Target


class LoggedState:
    """What one earlier subtask stored. Read as bytes it is its base.

    Args:
        base: everything at some time, as a blob or as a backend's own files beside one.
        log: what changed since, oldest first; each a blob.
        handle: what it was stored as, for whoever goes on from there; None: unknown.
        root: the storage that it is in.
    """

    def __init__(
        self,
        base: BlobReader,
        log: Sequence[BlobReader] = (),
        handle: KeyedStateHandle | None = None,
        root: str | None = None,
    ) -> None:
        self.base, self.log, self.handle, self.root = base, log, handle, root
        self.size = base.size

    def read(self, offset: int, length: int) -> bytes:
        """Of the base."""
        return self.base.read(offset, length)


class Replay:
    """The restore of one backend.

    Args:
        stored: of all subtasks whose key groups overlap.
        targets: the declared states, and timers.
        groups: first and last key group of the subtask.
        max_parallelism: number of key groups of the operator.

    Attributes:
        bases: what the backend restores before :meth:`apply`.

    Raises:
        StorageError: a base or segment is damaged.
        UsageError: stored and declared state do not fit; the message names the state.
    """

    def __init__(
        self,
        stored: Iterable[BlobReader | bytes],
        targets: Mapping[str, Target],
        groups: tuple[int, int],
        max_parallelism: int,
    ) -> None:
        states = [each if isinstance(each, LoggedState) else _without_log(each) for each in stored]
        self.bases = [state.base for state in states]
        self._targets, self._groups, self._max_parallelism = targets, groups, max_parallelism
        self._segments: list[_Segment] = []
        logs = [state.log for state in states]
        if any(logs):
            for base in self.bases:
                readers_of(read_header(base)[0], targets, max_parallelism)
            self._segments = [self._judged(log, place) for log in logs for place in range(len(log))]

    def _judged(self, log: Sequence[BlobReader], place: int) -> _Segment:
        where = f"segment {place + 1} of {len(log)} of the changelog"
        try:
            header, _ = read_header(log[place])
            targets = self._targets_for(header)
            readers_of(header, targets, self._max_parallelism)
        except StorageError as error:
            raise StorageError(f"{where}: {error}") from error
        first, last = max(self._groups[0], header.first_group), min(self._groups[1], header.last_group)
        return _Segment(where, log[place], targets, (first, last))

    def _targets_for(self, header: Header) -> dict[str, Target]:
        targets = dict(self._targets)
        for section in header.sections:
            state = changed_name(section.name)
            if state is not None:
                timers = self._targets.get(state)
                kept = timers is not None and timers.schema["kind"] == "timers"
                targets[section.name] = timers if timers is not None and kept else REMOVED_STATE
        return targets

    def apply(self, tables: Mapping[str, StateTable], timers: Mapping[str, TimerQueue[Any]]) -> None:
        """Change what the bases gave, segment by segment.

        Raises:
            StorageError: a segment is damaged; the message says which.
            UsageError: a value cannot be read as declared.
        """
        for segment in self._segments:
            if segment.groups[0] > segment.groups[1]:
                continue
            try:
                for name, keys, values in restored_sections(
                    [segment.blob], segment.targets, segment.groups, self._max_parallelism
                ):
                    _change(name, keys, values, tables, timers)
            except StorageError as error:
                raise StorageError(f"{segment.where}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Segment:
    where: str
    blob: BlobReader
    targets: Mapping[str, Target]
    groups: tuple[int, int]


def _without_log(stored: BlobReader | bytes) -> LoggedState:
    return LoggedState(BytesBlob(stored) if isinstance(stored, bytes) else stored)


def _change(
    name: str,
    keys: Sequence[Any],
    values: Sequence[Any],
    tables: Mapping[str, StateTable],
    timers: Mapping[str, TimerQueue[Any]],
) -> None:
    gone = changed_name(name)
    state = name if gone is None else gone
    if state in timers:
        change = timers[state].register if gone is None else timers[state].delete
        for timestamp, key in zip(values, keys, strict=True):
            change(timestamp, key)
    elif state in tables:  # else nothing of it is left, and the program declares it no more
        table = tables[state]
        for key, value in zip(keys, values, strict=True):
            if gone is None:
                table.put(key, value)
            else:
                table.remove(key)
