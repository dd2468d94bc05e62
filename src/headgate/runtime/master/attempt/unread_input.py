"""How much the sources of an attempt still have to read: what is not handed out, and what readers have left.

A reader reports what is left of its splits with each heartbeat. What it was given since then is known from
the assignment: the enumerator had so much less after it than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate.api.source import InputLeft
from headgate.graph.physical import Vertex
from headgate.metrics.metric import Place
from headgate.metrics.metric_table import NUMBERS
from headgate.metrics.of_parts import PENDING_BYTES, PENDING_RECORDS, SPLITS
from headgate.runtime.protocol.messages import Counters

_GIVEN = NUMBERS.index(SPLITS.at())
_NOTHING = InputLeft(records=0, bytes=0)


class UnreadInput:
    """Computes how much input of one source is not read yet. `restored`: whether readers may have got splits
    of a checkpoint, which nobody here has handed out.
    """

    def __init__(self, left: InputLeft | None, *, restored: bool) -> None:
        self.unassigned = left
        self._restored = restored
        self._given: dict[int, int] = {}  # subtask -> splits that it was given
        # subtask -> for each assignment that no report has: splits up to it, and how much was in that
        self._handed: dict[int, list[tuple[int, InputLeft]]] = {}

    def assigned(self, subtask: int, splits: int, left: InputLeft | None) -> None:
        """Note that `subtask` was given so many `splits`, after which `left` is not handed out."""
        given = self._given[subtask] = self._given.get(subtask, 0) + splits
        handed = self._handed.setdefault(subtask, [])
        if left is None:  # one entry of unknown size, or they would add up: nobody looks at them
            handed.clear()
        handed.append((given, _less(self.unassigned, left)))
        self.unassigned = left

    def left(self, vertex: Vertex, counters: Iterable[Counters]) -> InputLeft | None:
        """Return how much is not read, by the newest `counters`; None: neither records nor bytes known."""
        if self.unassigned is None:
            return None
        newest = {each.subtask: each for each in counters if each.vertex == vertex.id}
        parts = [self.unassigned]
        for subtask in range(vertex.parallelism):
            parts += self._of_reader(subtask, newest.get(subtask))
        left = _sum(parts)
        return None if left == InputLeft() else left

    def _of_reader(self, subtask: int, told: Counters | None) -> list[InputLeft]:
        handed = self._handed.get(subtask, [])
        if told is None:
            return [InputLeft()] if self._restored else [left for _, left in handed]
        given = told.values[_GIVEN]
        while handed and handed[0][0] <= given:  # the report has it
            del handed[0]
        return [*reported(told), *(left for _, left in handed)]


def reported(told: Counters) -> list[InputLeft]:
    """Return what a reader has told of each of its splits."""
    found = []
    for part in told.parts:
        if part.place == Place.SPLIT.value:
            known = dict(part.known())
            found.append(InputLeft(known.get(PENDING_RECORDS), known.get(PENDING_BYTES)))
    return found


def _less(before: InputLeft | None, after: InputLeft | None) -> InputLeft:
    if before is None or after is None:
        return InputLeft()
    return InputLeft(_difference(before.records, after.records), _difference(before.bytes, after.bytes))


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, before - after)


def _sum(parts: Sequence[InputLeft]) -> InputLeft:
    return InputLeft(_total(each.records for each in parts), _total(each.bytes for each in parts))


def _total(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


Unread = Mapping[str, InputLeft | None]
"""How much of each source is not read, by uid; None: not known."""
