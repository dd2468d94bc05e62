"""Hands out the splits of one source in a replay, and holds its readers at the positions of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headgate.api.source import NOTHING_AVAILABLE, PollStatus, Source, SourceReaderContext, Split
from headgate.records.batch import Batch
from headgate.restore.assignment import SPLITS
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.state.snapshots import CheckpointMetadata

RECORDS_MAX: Final = 32_768
"""Most records of one poll, and what stands for an unknown number of many."""

Positions = list[tuple[str, Any]]
"""Id and position of each split that a reader has not finished."""


class SourceEnds:
    """The state of one source in the snapshot at which a replay stops: its positions, and what is left."""

    def __init__(self, uid: str, metadata: CheckpointMetadata) -> None:
        states = metadata.operators.get(uid, [])
        self.positions: list[Positions] = [
            plain((name, position) for name, position, *_ in state.list_state.get(SPLITS, []))
            for state in states
        ]
        self.rest = metadata.enumerators.get(uid)  # of the enumerator
        self.finished = set(metadata.finished.get(uid, ()))
        self.owners = {name: subtask for subtask, splits in enumerate(self.positions) for name, _ in splits}


class SplitDealer:
    """Hands out one source's splits as the job did, as far as that is known; it replaces the enumerator's
    part of the job master.

    `rest` is the enumerator's state where the replay begins. Without `ends` whoever asks gets the next split.
    `guessed` are the splits of which no snapshot says which of several readers read them.
    """

    def __init__(self, source: Source, rest: Any, ends: SourceEnds | None, readers: int) -> None:
        self._enumerator, self._ends, self._readers = source.create_enumerator(rest), ends, readers
        self._staying: set[int] = set()
        self.guessed: list[str] = []

    @property
    def exhausted(self) -> bool:
        """Whether everything is handed out that was before the replay's end."""
        return self._ends is not None and bool(self._enumerator.snapshot() == self._ends.rest)

    def asked(self, subtask: int) -> dict[int, list[tuple[str, Any]] | None]:
        """Return what to assign when the reader of `subtask` asks: by subtask splits, [] for none now, or
        None for none any more.
        """
        given: dict[int, list[tuple[str, Any]] | None] = {}
        while not given.get(subtask):
            if self.exhausted:
                assert self._ends is not None
                return given | {subtask: None if subtask in self._ends.finished else []}
            splits = self._enumerator.next_splits(subtask)
            if not splits:
                return given | {subtask: None if splits is None else []}
            for split in splits:
                mine = given.setdefault(self._owner(split, subtask), [])
                assert mine is not None
                mine.append((split.id, split.position))
        return given

    def _owner(self, split: Split, asking: int) -> int:
        if self._ends is not None and split.id in self._ends.owners:
            owner = self._ends.owners[split.id]
            self.has(owner, [split.id])
            return owner
        if self._readers > 1:
            self.guessed.append(split.id)
        others = [subtask for subtask in range(self._readers) if subtask not in self._staying]
        return others[0] if asking in self._staying and others else asking

    def has(self, subtask: int, splits: Iterable[str]) -> None:
        """Note which splits a reader has. One that has a split in which the end lies reads no other after it:
        the splits that follow, and were read to their ends, were another reader's.
        """
        if self._ends is not None and any(self._ends.owners.get(split) == subtask for split in splits):
            self._staying.add(subtask)

    def close(self) -> None:
        self._enumerator.close()


class HeldReader:
    """Stands before the reader of one source subtask: at the positions of the end it gives nothing more.

    In a split in whose midst the end lies it asks for no more records than lie before it, as far as positions
    tell how many that are. If it was too many all the same, because some of them did not decode, the reader
    is made anew where it was, and asked for single records. `batches`: how many the reader has given.
    """

    def __init__(
        self, operator: SourceOperator, ends: SourceEnds | None, subtask: int, dealer: SplitDealer
    ) -> None:
        self._operator, self._dealer = operator, dealer
        self._poll, self._add = operator.poll, operator.add_splits
        self._ends = None if ends is None else ends.positions[subtask]
        self._finished = operator.finished or (ends is not None and subtask in ends.finished)
        self.over = operator.finished
        self._at: Positions | None = None
        self._singly = False
        self.batches = 0
        if not operator.finished:
            dealer.has(subtask, [name for name, _ in self._now()])
        vars(operator).update(poll=self.poll, add_splits=self.add_splits)

    @property
    def reached(self) -> bool:
        """Whether the reader stands where the replay ends; without an end, whether all its input is read."""
        if self._ends is None or self._finished:
            return self.over
        return self._now() == self._ends and (bool(self._ends) or self._dealer.exhausted)

    @property
    def where(self) -> str:
        """The position for messages."""
        return repr(self._now())

    def _now(self) -> Positions:
        if self._at is None:
            self._at = plain((split.id, split.position) for split in self._operator._left())
        return self._at

    def add_splits(self, splits: list[Split]) -> None:
        """Take the place of the operator's method."""
        self._at = None
        self._add(splits)

    def poll(self, max_records: int) -> Batch | PollStatus:
        """Take the place of the operator's method: poll the reader, unless it has reached the end."""
        if self.reached:
            return NOTHING_AVAILABLE
        before, most = self._now(), min(max_records, self._records_left())
        polled = self._polled(most)
        if most > 1 and self._went_past(before):
            self._go_back(before)
            polled = self._polled(1)
        self.over = polled is PollStatus.END_OF_INPUT
        self.batches += not isinstance(polled, PollStatus)
        return polled

    def _polled(self, most: int) -> Batch | PollStatus:
        polled, self._at = self._poll(most), None
        return polled

    def _end_of(self, splits: Positions) -> tuple[Any, Any] | None:
        # Where the first of some splits is, and where it is at the end; None: it is read to its end.
        found = [(now, end) for name, now in splits[:1] for other, end in self._ends or () if name == other]
        return found[0] if found else None

    def _records_left(self) -> int:
        if self._ends is None or (found := self._end_of(self._now())) is None:
            return RECORDS_MAX
        return 1 if self._singly else max(1, records_apart(*found) or 1)

    def _went_past(self, before: Positions) -> bool:
        if self._ends is None or self._end_of(before) is None:
            return False
        found = self._end_of([split for split in self._now() if split[0] == before[0][0]])
        return found is None or (records_apart(*found) or 0) < 0

    def _go_back(self, before: Positions) -> None:
        operator, self._singly, self._at = self._operator, True, None
        operator.reader.close()
        where = operator.context
        context = SourceReaderContext(where.uid, where.subtask, where.parallelism)
        operator.reader = operator._source.create_reader(context)
        operator.reader.bad_records = []
        operator.reader.add_splits([Split(name, position) for name, position in before])


def plain(splits: Iterable[tuple[str, Any]]) -> Positions:
    """Return splits as a snapshot has them after it was stored: with lists in place of tuples.

    Example:
        >>> plain([("a", (1, 2))])
        [('a', [1, 2])]
    """
    return [(name, msgspec.msgpack.decode(msgspec.msgpack.encode(position))) for name, position in splits]


def records_apart(now: Any, end: Any) -> int | None:
    """Return about how many records lie between two positions of a split, below 0 if `now` is the later one.

    Positions are the connectors' own: numbers count records, those of files have lines or rows. None: others.

    Example:
        >>> records_apart(3, 10), records_apart({"line": 7}, {"line": 5}), records_apart(None, {"line": 5})
        (7, -2, 5)
        >>> records_apart({"row_group": 0, "row": 9}, {"row_group": 1, "row": 2}) == RECORDS_MAX
        True
    """
    if isinstance(end, int):
        return end - now if isinstance(now, int) else None
    if not isinstance(end, dict):
        return None
    begun = {} if now is None else now
    if "row_group" in end:
        groups = end["row_group"] - begun.get("row_group", 0)
        return end["row"] - begun.get("row", 0) if groups == 0 else RECORDS_MAX if groups > 0 else -1
    return end["line"] - begun.get("line", 0) if "line" in end else None


def held(readers: Sequence[HeldReader]) -> bool:
    return all(reader.reached for reader in readers)
