"""Tells where in its input a record was read, for functions chained behind a source.

A reader does not say where a record is, but before each poll it says where it stands. So a place is a split,
its position before the poll, and how many records the reader returned from there on before this one. It is
only told where nothing between the reader and the function can have left out, added or moved records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headgate.api.source import PollStatus, Split
from headgate.graph.logical import FilterNode, MapNode, Node
from headgate.records.batch import Batch
from headgate.restore.split_watermarks import picture
from headgate.runtime.worker.operators.guarded.guarded_functions import GuardedOperator, GuardedProcess
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.timestamps import TimestampsOperator


class ReadAt(NamedTuple):
    """Where a record was read: `skip` records after a position (as JSON) of a split, by the source `uid`."""

    uid: str
    split: str
    position: str
    skip: int


class ReadPositions:
    """Knows where the batch was read at which a source's chain works. Stands before the source operator's
    methods `poll` and `process`.
    """

    def __init__(self, source: SourceOperator) -> None:
        self._source, self._poll, self._process = source, source.poll, source.process
        self._polled = self._left = 0  # records of the last poll, and of them those that the chain has to get
        self._split: Split | None = None
        self._at_work = 0  # records of the batch in the chain; 0: none of the last poll's
        vars(source).update(poll=self.poll, process=self.process)

    def poll(self, max_records: int) -> Batch | PollStatus:
        """Take the place of the source's method."""
        before = picture(self._source._left())
        polled = self._poll(max_records)
        if isinstance(polled, PollStatus):
            return polled
        self._polled = self._left = len(polled)
        self._split = _read(before, self._source._left(), self._source.reader.one_split_a_poll)
        return polled

    def process(self, batch: Batch) -> None:
        """Take the place of the source's method; the batch is the next part of what was polled."""
        self._at_work = len(batch)
        try:
            self._process(batch)
        finally:
            self._at_work, self._left = 0, self._left - len(batch)

    def of(self, index: int, size: int) -> ReadAt | None:
        """Return where record `index` of a batch of `size` was read; None: that is not known exactly."""
        if self._split is None or size != self._at_work:
            return None
        position = msgspec.json.encode(self._split.position).decode()
        return ReadAt(self._source.context.uid, self._split.id, position, self._polled - self._left + index)


def _read(before: Sequence[Split], after: Sequence[Split], one: bool) -> Split | None:
    # The split, as it was before a poll, of which all records of the poll are; None: there may be several.
    now = {split.id: split.position for split in after}
    moved = [split for split in before if split.id in now and now[split.id] != split.position]
    ended = [split for split in before if split.id not in now]
    found = moved or ended if one else moved + ended
    return found[0] if len(found) == 1 else None


def note_positions(operators: Sequence[Operator], nodes: Sequence[Sequence[Node]]) -> None:
    """Have the guarded functions of a chain know where their records were read, as far as that can be told.
    `nodes` are those that each operator runs.
    """
    head = operators[0]
    if not isinstance(head, SourceOperator):
        return
    positions: ReadPositions | None = None
    for operator, mine in zip(operators[1:], nodes[1:], strict=True):
        if isinstance(operator, GuardedOperator | GuardedProcess):
            positions = positions or ReadPositions(head)
            operator.read_at = positions.of
        # If as many come out of these as went in, each is where it was.
        keeps = all(isinstance(node, MapNode | FilterNode) for node in mine)
        if not keeps and type(operator) is not TimestampsOperator:
            return
