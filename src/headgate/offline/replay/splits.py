"""Hands out the splits of one source in a replay, and holds its readers at the positions of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.api.source import NOTHING_AVAILABLE, PollStatus, Source, Split
from headgate.records.batch import Batch
from headgate.restore.assignment import SPLITS
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.state.snapshots import CheckpointMetadata

Positions = list[tuple[str, Any]]
"""Id and position of each split that a reader has not finished."""


class SourceEnds:
    """The state of one source in the snapshot at which a replay stops: its positions, and what is left."""

    def __init__(self, uid: str, metadata: CheckpointMetadata) -> None:
        states = metadata.operators.get(uid, [])
        self.positions: list[Positions] = [
            [(name, position) for name, position, *_ in state.list_state.get(SPLITS, [])] for state in states
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
            return self._ends.owners[split.id]
        if self._readers > 1:
            self.guessed.append(split.id)
        return asking

    def close(self) -> None:
        self._enumerator.close()


class HeldReader:
    """Stands before the reader of one source subtask: at the positions of the end it gives nothing more.

    It asks for one record at a time from a split in whose midst the end lies, so that none is too many.
    """

    def __init__(
        self, operator: SourceOperator, ends: SourceEnds | None, subtask: int, dealer: SplitDealer
    ) -> None:
        self._operator, self._dealer = operator, dealer
        self._poll: Callable[[int], Batch | PollStatus] = operator.poll
        self._ends = None if ends is None else ends.positions[subtask]
        self._finished = operator.finished or (ends is not None and subtask in ends.finished)
        self.over = operator.finished
        vars(operator)["poll"] = self.poll

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
        return [(split.id, split.position) for split in self._operator._left()]

    def poll(self, max_records: int) -> Batch | PollStatus:
        """Poll the reader, unless it has reached the end."""
        if self.reached:
            return NOTHING_AVAILABLE
        polled = self._poll(self._records(max_records))
        self.over = polled is PollStatus.END_OF_INPUT
        return polled

    def _records(self, most: int) -> int:
        if self._ends is None:
            return most
        begun = self._now()[:1]
        if not begun or begun[0][0] not in {name for name, _ in self._ends}:
            return most
        return 1


def held(readers: Sequence[HeldReader]) -> bool:
    return all(reader.reached for reader in readers)
