"""Known mistakes to plant into operators of corrected tables, gates and sinks: random plans find them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.marked_handler import MarkedHandler
from headgate.core.marks import Mark, MarkGate
from headgate.relational.changes import CHANGE, Change
from headgate.relational.joins.equal_joins import ODD_KEYS
from headgate.runtime.worker.operators.columns import keys_checked
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.updating import join_operator, recomputed_rows, recomputing
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.join_operator import JoinOperator
from headgate.runtime.worker.operators.columns.updating.joined_rows import RIGHT, JoinedRows, Side
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SINCE
from headgate.runtime.worker.operators.columns.updating.kept_join import KeptJoin
from headgate.runtime.worker.operators.columns.updating.recomputed_rows import RecomputedRows
from headgate.runtime.worker.operators.columns.updating.running_aggregate import RunningAggregateOperator
from headgate.runtime.worker.operators.columns.updating.running_groups import RunningGroups
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT
from headgate.runtime.worker.operators.counting_source import CountingSource
from headgate.runtime.worker.operators.marked_sink import MarkedSinkOperator
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.stateless import SinkOperator
from headgate.runtime.worker.task.gate_task import GateTask
from headgate.runtime.worker.task.marked_tasks import MarkedGateTask
from sim.planted import Bug

_changes_of, _net_rows = join_operator.changes_of, join_operator.net_rows
_put, _put_rows = JoinedRows.put, RecomputedRows._put
_received = JoinOperator._received
_between, _ranked = RunningAggregateOperator._between, recomputing._Ranked.__call__
_mark = MarkGate.mark
_restores = {each: each.restore for each in (KeptJoin, RecomputedRows, RunningGroups)}


def _without_a_deletion(rows: pa.Table) -> pa.Table:
    changes = _changes_of(rows)
    # Deletions are first.
    gone = changes.num_rows and changes.column(CHANGE)[0].as_py() == Change.DELETE
    return changes.slice(1) if gone else changes


def _forget_deletes_of_the_right(self: JoinedRows, side: int, came: Side) -> None:
    if side == RIGHT and WEIGHT in came.rows.column_names:
        comes = came.weights > 0
        came = Side(came.rows.filter(pa.array(comes)), came.numbers[comes])
    _put(self, side, came)


def _never_empty_again(self: JoinedRows, side: int, keys: Any, came: Side) -> Any:
    return (self._room(side)[keys] == 0) & ~np.isin(keys, came.numbers)


def _out_at_the_first_channel(self: MarkGate) -> int | None:
    if not self.waiting:
        return None
    self.drop()
    return self._epoch


def _a_later_mark_stands_for_an_earlier(
    self: MarkGate, channel: int, epoch: int, rows: Any, *, aligning: bool
) -> int | None:
    if epoch > self._epoch and self.waiting and not aligning:
        self._rows.update(rows)
        self.waiting |= {channel}
        return self._decided()
    return _mark(self, channel, epoch, rows, aligning=aligning)


def _end_without_last(self: MarkGate, channel: int, _last: int) -> int | None:
    self._open.discard(channel)
    self.waiting -= {channel}
    return self._decided()


def _tell_nothing(_self: MarkGate) -> int | None:
    """What a gate drops would settle below what the gate had wrongly let out."""
    return None


def _marks_among_barriers(self: MarkedHandler, channel: int, mark: Mark) -> int | None:
    return self.marks.mark(channel, mark.epoch, mark.rows, aligning=False)


def _null_is_a_key(self: JoinOperator, batch: pa.RecordBatch) -> pa.Table:
    rows = _received(self, batch)
    if ODD_KEYS not in rows.column_names:
        return rows
    place = rows.column_names.index(ODD_KEYS)
    zeros = pc.multiply(rows.column(ODD_KEYS), pa.scalar(0, rows.column(ODD_KEYS).type))
    return rows.set_column(place, rows.schema.field(place), zeros)


def _take_nothing_back(self: RecomputedRows, came: pa.Table, numbers: Any) -> None:
    adds = np.isin(came.column(CHANGE).to_numpy(), [each for each in Change if each.adds])
    _put_rows(self, came.filter(pa.array(adds)), numbers[adds])


def _keep_empty_groups(self: RunningAggregateOperator, changed: Any) -> pa.RecordBatch:
    plan, self._plan = self._plan, replace(self._plan, present=None)
    try:
        return _between(self, changed)
    finally:
        self._plan = plan


def _never_refilled(self: Any, rows: pa.Table) -> pa.Table:
    """Of each key only so many rows are looked at as may be first."""
    numbers = recomputing.key_codes(rows.select(self._plan.key_names))
    found, _ = recomputing.first_rows(rows, numbers, (), self._plan.n)
    return _ranked(self, rows.take(pa.array(np.sort(found))))


def _mark_first(self: AnsweringOperator, mark: Mark) -> None:
    self.next.mark(mark)
    self._send_changes()


def _once_at_most(rows: pa.Table) -> pa.Table:
    net = _net_rows(rows)
    place = net.column_names.index(WEIGHT)
    return net.set_column(place, WEIGHT, pc.sign(net.column(WEIGHT)))


def _restore_settled_only(kind: type) -> Any:
    def restore(self: Any, table: pa.Table) -> None:
        _restores[kind](self, table.filter(pc.not_equal(table.column(PANE), SINCE)))

    return restore


def _ends_as_without_marks(self: MarkedGateTask) -> None:
    GateTask._end_if_through(self)


def _count_nothing_ended(self: CountingSource, checkpoint: int) -> Any:
    return SourceOperator.snapshot(self, checkpoint)


def _as_they_are(values: Any) -> Any:
    return values


def _marks_unless_forced(self: Barrier) -> bool:
    return self.alignment is not Alignment.FORCED_ALIGNED


PLAN_BUGS: Final[dict[str, Bug]] = {
    "a join loses a retraction": Bug(((join_operator, "changes_of", _without_a_deletion),)),
    "groups that are computed anew lose a retraction": Bug(
        ((recomputing, "changes_of", _without_a_deletion),)
    ),
    "a join forgets what goes of its right side": Bug(((JoinedRows, "put", _forget_deletes_of_the_right),)),
    "a join's side never becomes empty again": Bug(((JoinedRows, "_becomes_empty", _never_empty_again),)),
    "null is equal to null in a join": Bug(((JoinOperator, "_received", _null_is_a_key),)),
    "0.0 and -0.0 are two keys": Bug(((keys_checked, "alike", _as_they_are),)),
    "what is taken back stays in the least and greatest": Bug(
        ((RecomputedRows, "_put", _take_nothing_back),)
    ),
    "a group stays when its last row goes": Bug(
        ((RunningAggregateOperator, "_between", _keep_empty_groups),), first=60
    ),
    "the first rows are not refilled": Bug(((recomputing._Ranked, "__call__", _never_refilled),)),
    "a join's equal rows count once": Bug(((join_operator, "net_rows", _once_at_most),)),
    "equal rows of a group count once": Bug(((recomputed_rows, "net_rows", _once_at_most),)),
    "a gate passes the first channel's mark on": Bug(((MarkGate, "_decided", _out_at_the_first_channel),)),
    "a later mark stands for an earlier one": Bug(
        ((MarkGate, "mark", _a_later_mark_stands_for_an_earlier), (MarkGate, "untold", _tell_nothing)),
        first=95,
    ),
    "an ended channel counts for epochs before its end": Bug(
        ((MarkGate, "end", _end_without_last), (MarkGate, "untold", _tell_nothing)), first=30
    ),
    "marks wait while barriers are aligned": Bug(
        ((MarkedHandler, "mark", _marks_among_barriers),), first=15, mode="aligned"
    ),
    "a mark goes ahead of its changes": Bug(((AnsweringOperator, "mark", _mark_first),)),
    "a barrier that overtakes is a mark": Bug(
        ((Barrier, "marks", property(_marks_unless_forced)),), mode="unaligned"
    ),
    "a restore loses what came since the last mark": Bug(
        tuple((kind, "restore", _restore_settled_only(kind)) for kind in _restores),
        first=20,
        mode="unaligned",
    ),
    "a sink writes before a mark follows": Bug(
        ((MarkedSinkOperator, "process", SinkOperator.process),), first=5, mode="unaligned"
    ),
    "a sink's snapshot lacks what came since the last mark": Bug(
        ((MarkedSinkOperator, "snapshot", SinkOperator.snapshot),), first=565, mode="unaligned"
    ),
    "counts of dropped marks are lost at the end": Bug(
        ((MarkedGateTask, "_end_if_through", _ends_as_without_marks),), first=50
    ),
    "counts of rows are not restored": Bug(((CountingSource, "snapshot", _count_nothing_ended),), first=20),
}
"""What -> how. Two of them were found by the first random plans."""


@contextmanager
def planted_in_plans(bug: str) -> Iterator[None]:
    """The product with one of `PLAN_BUGS` in it."""
    with ExitStack() as patched:
        for owner, name, wrong in PLAN_BUGS[bug].patches:
            patched.enter_context(patch.object(owner, name, wrong))
        yield
