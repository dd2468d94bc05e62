"""Groups without windows some of whose aggregates follow from sets of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator
from headgate.relational.aggregating.grouping import Grouping, accumulator_column
from headgate.relational.aggregating.groups import picked
from headgate.relational.aggregating.lists import of_lengths, owners
from headgate.relational.passes.distinct_values import DistinctValues
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import taken
from headgate.runtime.worker.operators.columns.updating.different.sent_values import (
    SentValues,
    out_of_lists,
    sent_fields,
)
from headgate.runtime.worker.operators.columns.updating.different.value_lists import (
    of_one_row_each,
    rows_with,
    stored_fields,
)
from headgate.runtime.worker.operators.columns.updating.different.value_set import Stored, Turn, ValueSet
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SETTLED, newest
from headgate.runtime.worker.operators.columns.updating.running_groups import Changed, RunningGroups

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class GroupsWithSets(RunningGroups):
    """The accumulators of each key of one subtask, in memory, and the sets of the groups' values.

    A set has all rows that came. What changes of it at a batch makes accumulators, which wait for the mark as
    others do.
    """

    def __init__(self, grouping: Grouping, keys: pa.Schema, sets: Sequence[DistinctValues]) -> None:
        super().__init__(grouping, keys)
        self._of_keys, self._plans = keys, sets
        self._sets = [ValueSet(each) for each in sets]
        self._stored = pa.schema([*keys, *self._of_values, *stored_fields(sets)])

    @property
    def count(self) -> int:
        # Rows that are stored: for each group one of accumulators, and one of each set.
        return super().count * (1 + len(self._sets))

    def begin_log(self) -> None:
        super().begin_log()
        for each in self._sets:
            each.begin_log()

    # -- rows that come

    def _accumulators(self, numbers: Int64s, rows: pa.Table) -> pa.Table:
        for plan, kept in zip(self._plans, self._sets, strict=True):
            columns = [rows.column(field.name).combine_chunks() for field in sent_fields(plan)]
            sent = out_of_lists(plan, columns)
            turns = kept.add(numbers[sent.rows], sent.values, sent.told)
            rows = _with_turns(rows, plan, sent, turns)
        return super()._accumulators(numbers, rows)

    def at_mark(self) -> Changed | None:
        for each in self._sets:
            each.free()
        return super().at_mark()

    # -- snapshots

    def restore(self, table: pa.Table) -> None:
        of_groups = np.ones(table.num_rows, np.bool_)
        for plan, kept in zip(self._plans, self._sets, strict=True):
            mine = rows_with(plan, table)
            of_groups &= ~mine
            rows = table.filter(pa.array(mine)).combine_chunks()
            if rows.num_rows:
                lists = [rows.column(field.name).combine_chunks() for field in stored_fields([plan])]
                flat, values = [each.flatten() for each in lists], len(plan.values)
                groups = self._settled.numbers(rows)[owners(lists[0])]
                kept.put(Stored(groups, flat[:values], flat[values:]))
                kept.free()  # a log has values that are gone
        super().restore(table.select([PANE, *self._columns]).filter(pa.array(of_groups)))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        self._since()  # a set has all rows of which accumulators are stored
        groups, sets = super().settled(), self._view_of_sets()

        def tables() -> Iterator[pa.Table]:
            yield from map(self._widened, groups())
            yield from sets()

        return tables

    def _view_of_sets(self) -> Callable[[], Iterator[pa.Table]]:
        views, keys = [each.view() for each in self._sets], self._settled.view_of_keys()

        def tables() -> Iterator[pa.Table]:
            for plan, view in zip(self._plans, views, strict=True):
                for part in view():
                    yield self._of_set(plan, part, lambda groups: taken(keys, groups, self._of_keys))

        return tables

    def _of_set(self, plan: DistinctValues, part: Stored, keys_of: Callable[[Int64s], pa.Table]) -> pa.Table:
        # A row for each group, with lists of its values.
        starts = np.flatnonzero(np.diff(part.groups, prepend=-1))
        keys, offsets = keys_of(part.groups[starts]), np.append(starts, len(part.groups))
        fields = stored_fields([plan])
        lists = [
            of_lengths(each, offsets, field.type)
            for each, field in zip((*part.values, *part.told), fields, strict=True)
        ]
        whole = pa.table([*keys.columns, *lists], [*keys.column_names, *(field.name for field in fields)])
        return self._widened(with_pane(whole, SETTLED))

    def _widened(self, table: pa.Table) -> pa.Table:
        pane = table.schema.names[0]
        columns = [
            table.column(field.name)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in self._stored
        ]
        return pa.table([table.column(pane), *columns], [pane, *self._stored.names])

    def since(self) -> list[pa.Table]:
        return list(map(self._widened, super().since()))

    def take_log(self) -> list[pa.Table]:
        self._since()
        found = list(map(self._widened, super().take_log()))
        for plan, kept in zip(self._plans, self._sets, strict=True):
            found += [self._of_set(plan, part, self._settled.keys) for part in kept.take_log()]
        # Together they are one chunk for each key group.
        return [pa.concat_tables(found)] if found else []

    def compacted(self, log: pa.Table) -> pa.Table:
        of_groups, parts = np.ones(log.num_rows, np.bool_), []
        for plan in self._plans:
            mine = rows_with(plan, log)
            of_groups &= ~mine
            if mine.any():
                parts.append(of_one_row_each(plan, log.filter(pa.array(mine)), self._keys))
        return pa.concat_tables([newest(log.filter(pa.array(of_groups)), self._keys), *parts])


def _with_turns(rows: pa.Table, plan: DistinctValues, sent: SentValues, turns: Sequence[Turn]) -> pa.Table:
    # Adds the accumulators of the set's aggregates: what changed of each group by these rows.
    for told, turn in zip(plan.told, turns, strict=True):
        owners = sent.rows[turn.rows]
        counts = np.bincount(owners, turn.by, rows.num_rows).astype(np.int64)
        if plan.sums:
            sums = _sums(sent.values[0].take(pa.array(turn.rows)), turn.by, owners, rows.num_rows)
            rows = rows.append_column(accumulator_column(told.name, "sum"), sums)
        rows = rows.append_column(accumulator_column(told.name, "count"), pa.array(counts))
    return rows


def _sums(values: pa.Array, by: Int64s, owners: Int64s, groups: int) -> pa.Array:
    kind = values.type
    if (by < 0).any():
        values = pc.if_else(pa.array(by < 0), pc.negate_checked(values), values)
    summing = Grouping(("group",), (("sum", Accumulator("sum", kind, "sum", "sum")),))
    found = summing.of_rows(pa.table({"group": owners, "sum": values}))
    places = np.full(groups, -1)
    places[found.column("group").to_numpy()] = np.arange(len(found))
    return picked(found.column("sum").combine_chunks(), places)
