"""Groups that were further in event time than their new subtask send no window out twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.accumulators import Accumulator
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.runtime.worker.operators.columns.panes_of_groups import PanesOfGroups

GROUPING = Grouping(("k",), (("n", Accumulator("count", pa.int64(), "count_all", "sum")),))
GROUPS = 128
SLOW, FAST = (int(group) for group in groups_of_rows(pa.table({"k": ["slow", "fast"]}), ("k",), GROUPS))


def accumulators(pane: int, **counts: int) -> pa.Table:
    """Counts by key in one pane."""
    return pa.table({PANE: [pane] * len(counts), "k": list(counts), "n": list(counts.values())})


def counted(panes: PanesOfGroups, start: int, end: int) -> dict[str, int]:
    """The counts of a window."""
    found = panes.merged(start, end)
    return {} if found is None else {row["k"]: row["n"] for row in found.to_pylist()}


def test_a_window_that_a_group_has_sent_out_lacks_its_keys() -> None:
    """Windows of 20 every 10: one group stood at 35, the subtask begins at 15."""
    panes = PanesOfGroups(GROUPING, 15, GROUPS)
    panes.of_group(SLOW, 15).add(accumulators(10, slow=3))
    panes.of_group(FAST, 35).add(accumulators(10, fast=5))
    panes.of_group(FAST, 35).add(accumulators(20, fast=1))
    assert panes.groups.listed() == [(FAST, 35)]
    assert panes.starts() == [10, 20]
    assert counted(panes, 0, 20) == {"slow": 3}
    assert counted(panes, 10, 30) == {"slow": 3}
    assert counted(panes, 20, 40) == {"fast": 1}


def test_when_the_subtask_has_got_as_far_nothing_is_apart() -> None:
    """Later rows of the same keys are added to what the group had."""
    panes = PanesOfGroups(GROUPING, 15, GROUPS)
    panes.of_group(FAST, 35).add(accumulators(30, fast=5))
    panes.add(accumulators(30, fast=2))
    views = panes.at_snapshot()
    assert sum(row["n"] for view in views for table in view.tables() for row in table.to_pylist()) == 7
    panes.reached(34)
    assert panes.groups.listed() == [(FAST, 35)]
    panes.reached(35)
    assert panes.groups.listed() == []
    assert counted(panes, 30, 40) == {"fast": 7}
    panes.drop_before(40)
    assert counted(panes, 30, 40) == {}


def test_rows_are_as_late_for_a_group_as_they_were() -> None:
    """A row in a window that its group has sent out counts in the windows that are still to come only."""
    panes = PanesOfGroups(GROUPING, 15, GROUPS)
    panes.of_group(FAST, 35).add(accumulators(30, fast=5))
    rows = accumulators(20, slow=1, fast=2)
    assert panes.groups.marks_of(rows, np.array([15, 20])).tolist() == [15, 35]
    panes.add(rows)
    assert counted(panes, 10, 30) == {"slow": 1}
    assert counted(panes, 20, 40) == {"slow": 1, "fast": 7}
    panes.reached(35)
    assert panes.groups.marks_of(rows, np.array([15, 20])).tolist() == [15, 20]
