"""Decides which stored state of an earlier checkpoint a segment may follow, and which changes it holds.

A checkpoint is removed when a later one completes, and with it every file that the later one does not refer
to. So a segment of checkpoint C follows what K stored, the newest complete one, only if every snapshot that
was taken between K and C, and may complete before C does, refers to all of it too.

| event | `_stored` | `_refers` |
| --- | --- | --- |
| snapshot of changes taken for C | | C: the files that it follows |
| complete snapshot taken for C | | C: no files |
| either is durable | C: its stored state | C: all its files |
| either fails or is aborted | nothing: no snapshot refers to it, and K decides what follows | |
| K is complete | K and later stay | later than K stay |

So a complete snapshot that is pending, or was aborted, makes the next one complete too; as does a pending
one that does not refer to K's last segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from headgate.state.changelog.change_tracking import Changed, Changes
from headgate.state.snapshots import Inline, KeyedStateHandle, StateHandle, size_of


@dataclass(frozen=True, slots=True)
class Stored:
    """One subtask's stored state up to checkpoint `reaches`: a base, written for `base`, and segments."""

    handle: KeyedStateHandle  # the base, and the segments after it
    reaches: int  # the checkpoint up to which changes are in it
    base: int  # the checkpoint that the base was written for; 0: unknown
    before: Stored | None = None  # it without the last segment, where that may still be written anew
    root: str | None = None  # the storage that it was restored from; None: this attempt wrote it

    @property
    def followed(self) -> Stored:
        """The stored state that the next segment extends: this one, less a last segment kept in metadata.

        A segment in the metadata would be in that of every later checkpoint. So the next one takes its
        place, and holds its changes too.
        """
        if self.before is not None and isinstance(self.handle.log[-1], Inline):
            return self.before
        return self

    @property
    def log_bytes(self) -> int:
        return sum(map(size_of, self.handle.log))

    def with_segment(self, segment: StateHandle, checkpoint: int) -> Stored:
        log = [*self.handle.log, segment]
        size = self.handle.size + size_of(segment)
        longer = msgspec.structs.replace(self.handle, log=log, size=size)
        return Stored(longer, checkpoint, self.base, replace(self, before=None, root=None))

    def unchanged(self, checkpoint: int) -> Stored:
        """Return this stored state as that of a later `checkpoint`; the caller knows that nothing changed."""
        # the caller knows that nothing changed up to `checkpoint`
        return replace(self, reaches=checkpoint, before=None, root=None)


class Chain:
    """One subtask's stored states of earlier checkpoints, one of which its next segment may continue.

    The operator's thread asks; the thread that writes snapshots reports what is durable.
    """

    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}
        self._refers: dict[int, frozenset[StateHandle]] = {}

    def restored(self, checkpoint: int, stored: Stored) -> None:
        self._stored[checkpoint] = stored

    def taken(self, checkpoint: int, follows: Stored | None) -> None:
        """Record a pending snapshot for `checkpoint` that extends `follows`; None: one that may store all
        state anew, after which files of earlier checkpoints may go.
        """
        self._refers[checkpoint] = _files_of(follows)

    def stored(self, checkpoint: int, stored: Stored) -> None:
        """Record that the snapshot for `checkpoint` is durable as `stored`; it may still not complete."""
        self._refers[checkpoint] = _files_of(stored)
        self._stored[checkpoint] = stored

    def completed(self, checkpoint: int) -> Stored | None:
        """Return the stored state of `checkpoint`, the newest complete one, and forget older ones; None:
        unknown.
        """
        # In place and one by one: the other thread adds to both meanwhile.
        for number in [number for number in list(self._stored) if number < checkpoint]:
            del self._stored[number]
        for number in [number for number in list(self._refers) if number <= checkpoint]:
            del self._refers[number]
        return self._stored.get(checkpoint)

    def may_follow(self, stored: Stored) -> bool:
        """Return whether all files of `stored` stay until a snapshot taken now is complete, so that it may
        refer to them: all pending and later snapshots refer to them too. Ask after :meth:`completed`.
        """
        needed = _files_of(stored)
        return all(needed <= files for files in list(self._refers.values()))


def _files_of(stored: Stored | None) -> frozenset[StateHandle]:
    return frozenset() if stored is None else frozenset(stored.handle.handles())


class Epochs:
    """Changes of one subtask's state, grouped by the first checkpoint that was taken after them.

    Example:
        >>> epochs = Epochs()
        >>> epochs.close(1, {"count": {"a": 1}})
        >>> epochs.close(2, {"count": {"a": 2, "b": 1}})
        >>> epochs.close(3, {"names": {"c"}})
        >>> epochs.since(0), epochs.since(2)
        ({'count': {'a': 2, 'b': 1}, 'names': {'c'}}, {'names': {'c'}})
        >>> epochs.forget(2)
        >>> epochs.since(0)
        {'names': {'c'}}
    """

    def __init__(self) -> None:
        self._epochs: list[tuple[int, Changes]] = []

    def close(self, checkpoint: int, changes: Changes) -> None:
        """Add the changes made since the last call, up to the snapshot of `checkpoint`; not copied."""
        if changes:
            self._epochs.append((checkpoint, changes))

    def since(self, checkpoint: int) -> Changes:
        """Return all closed changes after the snapshot of `checkpoint`, by state, newer values over older
        ones. The caller must not change them in place.
        """
        found: Changes = {}
        for number, changes in self._epochs:
            if number > checkpoint:
                for name, changed in changes.items():
                    found[name] = _joined(found[name], changed) if name in found else changed
        return found

    def forget(self, checkpoint: int) -> None:
        self._epochs = [(number, changes) for number, changes in self._epochs if number > checkpoint]


def _joined(older: Changed, newer: Changed) -> Changed:
    if isinstance(older, dict) and isinstance(newer, dict):
        return older | newer
    return set(older) | set(newer)


class Waste:
    """Remembered changes that will not be written, freed a few per call: a million at once would be a pause.

    `settle(n)` frees at most `n` entries, and is True once none is left.

    Example:
        >>> waste = Waste()
        >>> waste.add({"names": {"a", "b"}, "count": {"c": 1}})
        >>> waste.settle(2), waste.settle(2), waste.settle(2)
        (False, True, True)
    """

    def __init__(self) -> None:
        self._left: list[Changed] = []

    def add(self, changes: Changes) -> None:
        self._left += changes.values()

    def settle(self, budget: int) -> bool:
        while self._left:
            changed = self._left[-1]
            pop = changed.popitem if isinstance(changed, dict) else changed.pop
            for _ in range(min(budget, len(changed))):
                pop()
                budget -= 1
            if changed:
                return False
            self._left.pop()
        return True
