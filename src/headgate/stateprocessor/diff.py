"""What differs between the keyed state of two snapshots: keys added, removed and changed, state by state.

Both are read once, whatever form, backend and number of key groups they have, and brought into the order of
one number of key groups through the disk for temporary files. Of each state one key group of both is in
memory at a time. No program is needed: values are compared as they are described. When they were written does
not count.
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
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.offline.words import state_words
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.arrow_types import codec_of
from headgate.serde.arrow.stored_values import Beyond
from headgate.state.canonical.table_layout import BYTES, TIMER_SECTIONS, row_of, stored_type
from headgate.state.heap.heap_blob import Section
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle
from headgate.state.state_names import is_stamps
from headgate.state.stored.contract import SectionCodec
from headgate.state.stored.regroup import Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import PlainValues

SAMPLES: Final = 5

Entries = dict[Hashable, Any]
"""The entries of one key group: keys and plain values; timers by key and time, with None."""
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Sample:
    """One key that differs.

    Attributes:
        before: what the first snapshot has, as plain values by the names of fields; None where nothing.
    """

    change: str
    key: str
    before: Any
    after: Any


@dataclass(slots=True)
class StateDifference:
    """One state of one operator, or its timers of one time domain.

    Attributes:
        types: of the state in both snapshots, for people; None where one does not have it.
        samples: some of them, those of low key groups first.
        unread: why the values could not be compared, or None.
    """

    uid: str
    state: str
    types: tuple[str | None, str | None]
    same: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    samples: list[Sample] = field(default_factory=list)
    unread: str | None = None

    @property
    def differs(self) -> bool:
        """Whether there is anything to tell."""
        return (
            bool(self.changed or self.added or self.removed or self.unread) or self.types[0] != self.types[1]
        )


def compare(
    before: str, after: str, only: str | None = None, samples: int = SAMPLES, options: Sequence[str] = ()
) -> list[StateDifference]:
    """The difference of each state of two snapshots, also of those that are the same; `only` is "uid" or
    "uid/state".
    """
    with storage_options(options):
        sides = _Side(*open_checkpoint(before)), _Side(*open_checkpoint(after))
        groups = max(side.metadata.max_parallelism for side in sides)
        uids = sorted({uid for side in sides for uid in side.metadata.operators})
        wanted = [uid for uid in uids if only is None or only == uid or only.startswith(uid + "/")]
        found = [
            one
            for uid in wanted
            for one in _Operator(uid, sides, groups, samples).differences()
            if only in (None, uid, f"{uid}/{one.state}")
        ]
    if only is not None and not found:
        raise UsageError(
            f"neither snapshot has keyed state {only!r}; they have operators "
            f"{', '.join(uids) or 'without state'}"
        )
    return found


class _Side(NamedTuple):
    disk: Disk
    metadata: CheckpointMetadata

    def handles(self, uid: str) -> list[KeyedStateHandle]:
        states = self.metadata.operators.get(uid, [])
        return [state.keyed for state in states if state.keyed is not None]


class _Operator:
    """Both sides of one operator."""

    def __init__(self, uid: str, sides: tuple[_Side, _Side], groups: int, samples: int) -> None:
        self._uid, self._sides, self._groups, self._samples = uid, sides, groups, samples

    def differences(self) -> Iterator[StateDifference]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-diff-")))
            sorted_sides = []
            for side in self._sides:
                size = sum(keyed.size for keyed in side.handles(self._uid))
                sorter, values = Sorter(folder, self._groups, 1, size), _Readable()
                stack.callback(sorter.close)
                for keyed in side.handles(self._uid):
                    stored = stored_chunks(DiskFiles(side.disk), keyed, values, side.metadata.max_parallelism)
                    for chunk in stored:
                        sorter.add(chunk)
                sorted_sides.append((sorter, values))
            (first, of_first), (second, of_second) = sorted_sides
            unread = of_first.unread.keys() | of_second.unread.keys()
            for state in sorted(first.codecs.keys() | second.codecs.keys() | unread):
                yield self._state(state, (first, second), (of_first, of_second))

    def _state(
        self, state: str, sorters: tuple[Sorter, Sorter], forms: tuple[_Readable, _Readable]
    ) -> StateDifference:
        first, second = (form.words(state) for form in forms)
        found = StateDifference(self._uid, state, (first, second))
        found.unread = forms[0].unread.get(state) or forms[1].unread.get(state)
        if found.unread is not None:
            return found
        views = tuple(_View(sorter.codecs.get(state)) for sorter in sorters)
        for before, after in _paired(*(_by_group(sorter, state) for sorter in sorters)):
            self._compare(found, before, after, (views[0], views[1]))
        return found

    def _compare(
        self, found: StateDifference, before: Entries, after: Entries, views: tuple[_View, _View]
    ) -> None:
        alike = views[0].schema == views[1].schema
        for key, old in before.items():
            if key not in after:
                found.removed += 1
                self._sample(found, "removed", found.removed, key, views[0].shown(old), None)
                continue
            new = after[key]
            if _same(old, new) if alike else _same(views[0].shown(old), views[1].shown(new)):
                found.same += 1
            else:
                found.changed += 1
                self._sample(found, "changed", found.changed, key, views[0].shown(old), views[1].shown(new))
        for key in after.keys() - before.keys():
            found.added += 1
            self._sample(found, "added", found.added, key, None, views[1].shown(after[key]))

    def _sample(
        self, found: StateDifference, change: str, number: int, key: Hashable, before: V, after: V
    ) -> None:
        if number <= self._samples:
            found.samples.append(Sample(change, repr(key), before, after))


class _Readable(PlainValues):
    """Values as they are described; which states cannot be read so is kept instead of raised.

    Attributes:
        unread: state to the reason.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unread: dict[str, str] = {}
        self._schemas: dict[str, Description] = {}

    def codec(self, section: Section) -> SectionCodec | None:
        """See :class:`state.stored.contract.ValueCodec`; stamps are left out."""
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
        """The state's type for people."""
        if state in TIMER_SECTIONS:
            return "timers"
        schema = self._schemas.get(state)
        return None if schema is None else state_words(schema)


class _View:
    """Values of one state for people."""

    def __init__(self, codec: SectionCodec | None) -> None:
        self.schema = None if codec is None else codec.target.schema
        self._column: ArrowColumn | None = None
        if (
            codec is not None
            and row_of(codec.target.schema) != BYTES
            and codec.target.schema["kind"] != "timers"
        ):
            stored = stored_type(codec.target.schema)
            self._column = None if codec_of(stored) is None else ArrowColumn("value", stored)

    def shown(self, plain: Any) -> Any:
        """A plain value; a record by the names of its fields."""
        if isinstance(plain, Beyond):
            return plain.plain
        if self._column is None or plain is None:
            return plain
        typed = self._column.arrays([plain])[0]
        return plain if typed.null_count else typed.to_pylist()[0]


def _same(before: V, after: V) -> bool:
    # What is written alike is the same, too: NaN equals nothing.
    return before == after or repr(before) == repr(after)


def _by_group(sorter: Sorter, state: str) -> Iterator[tuple[int, Entries]]:
    if state not in sorter.codecs:
        return
    timers = state in TIMER_SECTIONS
    for group, chunks in groupby(sorter.chunks(0, state), attrgetter("group")):
        entries: Entries = {}
        for chunk in chunks:
            pairs = zip(chunk.keys, chunk.values, strict=True)
            entries.update(((pair, None) for pair in pairs) if timers else pairs)
        yield group, entries


def _paired(
    before: Iterator[tuple[int, Entries]], after: Iterator[tuple[int, Entries]]
) -> Iterator[tuple[Entries, Entries]]:
    """Both sides of each key group, in their order."""
    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        group = min(side[0] for side in (old, new) if side is not None)
        mine = old if old is not None and old[0] == group else None
        theirs = new if new is not None and new[0] == group else None
        yield ({} if mine is None else mine[1]), ({} if theirs is None else theirs[1])
        old = next(before, None) if mine is not None else old
        new = next(after, None) if theirs is not None else new
