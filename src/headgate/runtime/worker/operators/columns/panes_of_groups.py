"""The panes of a subtask whose key groups may have got further in event time than the subtask itself.

After an unaligned checkpoint and a change of the parallelism a subtask takes over groups of several former
subtasks, which stood at different watermarks. The subtask begins at the lowest. Windows that a group has sent
out before must not go out again: its panes stay apart until the subtask has got as far, and rows that come
meanwhile are as late for the group as they were.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.groups_ahead import GroupsAhead
from headgate.runtime.worker.operators.columns.kept_windows import WindowsView
from headgate.runtime.worker.operators.columns.panes import Panes


class PanesOfGroups:
    """Accumulators by pane, those of key groups that are ahead of the subtask apart from the others.
    `mark` is the subtask's watermark at the start; :meth:`reached` gets it when it has risen. `groups` says
    which key groups are ahead, and how far.
    """

    def __init__(self, grouping: Grouping, mark: int, max_parallelism: int) -> None:
        self._grouping, self._mark = grouping, mark
        self.groups = GroupsAhead(grouping.keys, max_parallelism)
        self._main = Panes(grouping)
        self._ahead: dict[int, Panes] = {}

    def of_group(self, group: int, mark: int) -> Panes:
        """Return the panes that take the restored accumulators of a key group which had reached `mark`.
        If that watermark is above the subtask's, the group counts as ahead, and its panes stay apart.
        """
        if mark <= self._mark:
            return self._main
        self.groups.add(group, mark)
        return self._ahead.setdefault(mark, Panes(self._grouping))

    def reached(self, mark: int) -> None:
        """Note that the subtask's watermark is `mark`: groups that it has caught up with join the others."""
        self._mark = mark
        for each in [each for each in self._ahead if each <= mark]:
            for table in self._ahead.pop(each).at_snapshot().tables():
                self._main.add(table)
        self.groups.reached(mark)

    def add(self, table: pa.Table) -> None:
        """Add accumulators with the column `PANE` to the panes of their key groups."""
        if not self.groups:
            self._main.add(table)
            return
        marks = self.groups.marks_of(table, np.full(table.num_rows, self._mark))
        self._main.add(table.filter(pa.array(marks == self._mark)))
        for mark, panes in self._ahead.items():
            panes.add(table.filter(pa.array(marks == mark)))

    def starts(self) -> list[int]:
        return sorted({start for panes in (self._main, *self._ahead.values()) for start in panes.starts()})

    def tables_between(self, start: int, stop: int) -> list[pa.Table]:
        """Return the tables of all panes from `start` to before `stop` (ms), also of groups that are ahead.
        A key may be in several tables.
        """
        every = (self._main, *self._ahead.values())
        return [table for panes in every for table in panes.tables_between(start, stop)]

    def merged(self, start: int, end: int) -> pa.Table | None:
        """Return the accumulators of the window from `start` to `end`, a row for each key, in one piece.
        Key groups that emitted this window before the restore are left out. None: no other has rows in it.
        """
        eligible = [self._main, *(panes for mark, panes in self._ahead.items() if mark < end - 1)]
        found = [table for panes in eligible if (table := panes.merged(start, end)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        return self._grouping.merged(pa.concat_tables(found)).combine_chunks()

    def drop_before(self, time: int) -> None:
        for panes in (self._main, *self._ahead.values()):
            panes.drop_before(time)

    def at_snapshot(self) -> list[WindowsView]:
        return [panes.at_snapshot() for panes in (self._main, *self._ahead.values())]
