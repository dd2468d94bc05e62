"""Key groups that have got further in event time than their subtask.

After an unaligned checkpoint and a change of the parallelism a subtask takes over groups of several former
subtasks, which stood at different watermarks, and begins at the lowest. What was late for a group stays late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MIN
from headgate.runtime.worker.operators.columns.panes import groups_of_rows

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class GroupsAhead:
    """The groups that are ahead, each with its watermark; `keys` are the columns that decide the group."""

    def __init__(self, keys: Sequence[str], max_parallelism: int) -> None:
        self._keys, self._max_parallelism = keys, max_parallelism
        self._groups: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: int, mark: int) -> None:
        """Note that a group stood at `mark`."""
        self._groups[group] = mark

    def listed(self) -> list[tuple[int, int]]:
        """Return the groups, ascending, each with its watermark."""
        return sorted(self._groups.items())

    def reached(self, mark: int) -> None:
        """Note that the subtask's watermark is `mark`: groups that stood there are no longer ahead."""
        self._groups = {group: at for group, at in self._groups.items() if at > mark}

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        """Return `marks`, the watermark of each row, raised to that of the row's group where it is ahead."""
        if not self._groups:
            return marks
        of_groups: Int64s = np.full(self._max_parallelism, WATERMARK_MIN, dtype=np.int64)
        of_groups[list(self._groups)] = list(self._groups.values())
        groups = groups_of_rows(rows, self._keys, self._max_parallelism)
        return np.asarray(np.maximum(marks, of_groups[groups]), dtype=np.int64)
