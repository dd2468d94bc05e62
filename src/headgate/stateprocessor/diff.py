"""Compares the keyed state of two snapshots: keys added, removed and changed, state by state.

Both are read once, whatever form, backend and number of key groups they have, and brought into the order of
one number of key groups through the disk for temporary files. Of each state one key group of both is in
memory at a time. No program is needed, but a state whose values only a program can tell apart is reported as
unread. Last-access times do not count.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import MAX_PARALLELISM_LIMIT
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.rewriting import keyed_handles
from headgate.offline.storages import storage_options
from headgate.offline.words import state_words
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.arrow_types import codec_of
from headgate.serde.arrow.stored_values import Beyond
from headgate.state.canonical.table_layout import BYTES, TIMER, TIMER_SECTIONS, row_of, stored_type
from headgate.state.snapshots import CheckpointMetadata
from headgate.state.state_names import is_stamps
from headgate.state.stored.blob_format import Section
from headgate.state.stored.contract import SectionCodec
from headgate.state.stored.regroup import Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import PlainValues

SAMPLES: Final = 5

Entries = dict[Hashable, Any]
"""Of one key group: key -> value without its class; for timers (key, time) -> None."""
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Sample:
    """One key that differs, with its value in each snapshot (of a record a dict), None where it has none.

    `change` is "added", "removed" or "changed"; `key` is the key as Python writes it, of a timer with its
    time.
    """

    change: str  # "added", "removed" or "changed"
    key: str
    before: Any
    after: Any


@dataclass(slots=True)
class StateDifference:
    """The comparison of one state, or kind of timers, of one operator in two snapshots; counts are of keys.

    `types`: the state's type in each, None: no entries. `unread`: why values were not compared, or None.
    """

    uid: str
    state: str
    types: tuple[str | None, str | None]  # in both snapshots, for people; None where one has no entry
    same: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    samples: list[Sample] = field(default_factory=list)  # those of low key groups first
    unread: str | None = None  # why the values could not be compared

    @property
    def differs(self) -> bool:
        """Whether the snapshots differ in this state or its type, or values could not be compared."""
        changes = self.changed or self.added or self.removed or self.unread
        return bool(changes) or self.types[0] != self.types[1]


def compare(
    before: str, after: str, only: str | None = None, samples: int = SAMPLES, options: Sequence[str] = ()
) -> list[StateDifference]:
    """Return the comparison of each keyed state, and kind of timers, of two snapshots; equal ones as well.

    `before` and `after` are their URIs; `only` is "uid" or "uid/state" (UsageError if neither has it), None:
    all. `samples`: keys kept of a state for each kind of change; `options`: ``key=value`` storage settings.
    """
    with storage_options(options):
        pair = _Snapshot(*open_checkpoint(before)), _Snapshot(*open_checkpoint(after))
        groups = max(snapshot.metadata.max_parallelism for snapshot in pair)
        uids = sorted({uid for snapshot in pair for uid in snapshot.metadata.operators})
        wanted = [uid for uid in uids if only is None or only == uid or only.startswith(uid + "/")]
        found = [
            one
            for uid in wanted
            for one in _differences(uid, pair, groups, samples)
            if only in (None, uid, f"{uid}/{one.state}")
        ]
    if only is not None and not found:
        raise UsageError(
            f"neither snapshot has keyed state {only!r}; they have operators "
            f"{', '.join(uids) or 'without state'}"
        )
    return found


class _Snapshot(NamedTuple):
    disk: Disk
    metadata: CheckpointMetadata


def _differences(
    uid: str, pair: tuple[_Snapshot, _Snapshot], groups: int, samples: int
) -> Iterator[StateDifference]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-diff-")))

        def in_order(snapshot: _Snapshot) -> _Sorted:
            handles = keyed_handles(snapshot.metadata.operators.get(uid, []))
            sorter = Sorter(folder, groups, 1, sum(keyed.size for keyed in handles))
            stack.callback(sorter.close)
            files, values = DiskFiles(snapshot.disk), _Readable()
            for keyed in handles:
                for chunk in stored_chunks(files, keyed, values, snapshot.metadata.max_parallelism):
                    sorter.add(chunk)
            return _Sorted(sorter, values)

        first, second = map(in_order, pair)
        unread = second.values.unread | first.values.unread
        for state in sorted(first.sorter.codecs.keys() | second.sorter.codecs.keys() | unread.keys()):
            types = first.values.words(state), second.values.words(state)
            found = StateDifference(uid, state, types, unread=unread.get(state))
            if found.unread is None:
                views = _View(first.sorter.codecs.get(state)), _View(second.sorter.codecs.get(state))
                for before, after in _paired(first.by_group(state), second.by_group(state)):
                    _compare(found, before, after, views, samples)
            yield found


def _compare(
    found: StateDifference, before: Entries, after: Entries, views: tuple[_View, _View], samples: int
) -> None:
    first, second = views
    alike = first.schema == second.schema

    def sample(change: str, number: int, key: Hashable, old: Any, new: Any) -> None:
        if number <= samples:
            found.samples.append(Sample(change, repr(key), old, new))

    for key, old in before.items():
        if key not in after:
            found.removed += 1
            sample("removed", found.removed, key, first.shown(old), None)
            continue
        new = after[key]
        if _same(old, new) if alike else _same(first.shown(old), second.shown(new)):
            found.same += 1
        else:
            found.changed += 1
            sample("changed", found.changed, key, first.shown(old), second.shown(new))
    for key in after.keys() - before.keys():
        found.added += 1
        sample("added", found.added, key, None, second.shown(after[key]))


class _Sorted(NamedTuple):
    """The keyed state of one operator in one snapshot, sorted by key group."""

    sorter: Sorter
    values: _Readable

    def by_group(self, state: str) -> Iterator[tuple[int, Entries]]:
        if state not in self.sorter.codecs:
            return
        timers = state in TIMER_SECTIONS
        for group, chunks in groupby(self.sorter.chunks(0, state), attrgetter("group")):
            entries: Entries = {}
            for chunk in chunks:
                pairs = zip(chunk.keys, chunk.values, strict=True)
                entries.update(((pair, None) for pair in pairs) if timers else pairs)
            yield group, entries


class _Readable(PlainValues):
    """Reads stored values as plain ones, without classes; keeps a reason for each state not read so."""

    def __init__(self) -> None:
        super().__init__()
        self.unread: dict[str, str] = {}  # state -> reason
        self._schemas: dict[str, Description] = {}

    def codec(self, section: Section) -> SectionCodec | None:
        if is_stamps(section.name) or not section.chunks:
            return None
        self._schemas.setdefault(section.name, section.schema)
        try:
            return super().codec(section)
        except UsageError:
            self.unread[section.name] = (
                "its values cannot be told apart without the program: rewrite both snapshots with "
                "headgate savepoint migrate first"
            )
            return None

    def words(self, state: str) -> str | None:
        if state in TIMER_SECTIONS:
            return "timers"
        schema = self._schemas.get(state)
        return None if schema is None else state_words(schema)


class _View:
    """Shows the plain values of one state to people."""

    def __init__(self, codec: SectionCodec | None) -> None:
        self.schema = schema = None if codec is None else codec.target.schema
        self._column: ArrowColumn | None = None
        if schema is not None and row_of(schema) not in (BYTES, TIMER):
            stored = stored_type(schema)
            self._column = None if codec_of(stored) is None else ArrowColumn("value", stored)

    def shown(self, plain: Any) -> Any:
        if isinstance(plain, Beyond):
            return plain.plain
        if self._column is None or plain is None:
            return plain
        typed = self._column.arrays([plain])[0]
        return plain if typed.null_count else typed.to_pylist()[0]


def _same(before: V, after: V) -> bool:
    # What is written alike is the same, too: NaN equals nothing.
    return before == after or repr(before) == repr(after)


def _paired(
    before: Iterator[tuple[int, Entries]], after: Iterator[tuple[int, Entries]]
) -> Iterator[tuple[Entries, Entries]]:
    ends: tuple[int, Entries] = (MAX_PARALLELISM_LIMIT, {})
    old, new = next(before, ends), next(after, ends)
    while (group := min(old[0], new[0])) < MAX_PARALLELISM_LIMIT:
        yield (old[1] if old[0] == group else {}), (new[1] if new[0] == group else {})
        old = next(before, ends) if old[0] == group else old
        new = next(after, ends) if new[0] == group else new
