"""Windows of rows after an unaligned checkpoint and a change of the parallelism: what was late stays late."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from operator_samples import Recorder, context, finished, opened, rows

import headgate as hg
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.graph.logical import WindowNode
from headgate.metrics.metric_table import LATE_RECORDS
from headgate.runtime.worker.operators.windows_of_rows.groups_of_rows_ahead import RescaledRowWindows
from headgate.state.snapshots import OperatorSubtaskState

GROUPS = 128
BEHIND, AHEAD = 100, 5_000
"""Watermarks of the two former subtasks."""


def key_of(subtask: int) -> str:
    """A key that belongs to one of two subtasks."""
    first, last = key_group_range(GROUPS, 2, subtask)
    return next(key for key in map(str, range(100)) if first <= key_group(key, GROUPS) <= last)


def windows(assigner: Any, parallelism: int = 1, subtask: int = 0, **changes: Any) -> RescaledRowWindows:
    """The operator of a program that counts in windows."""
    env = hg.Environment(parallelism=1)
    stream = env.from_collection([("k", 0)]).with_event_time(lambda record: 0)
    stream.key_by(lambda record: record[0]).window(assigner).aggregate(n=hg.count(), uid="op").collect_later()
    node = next(node for node in env.program.nodes() if isinstance(node, WindowNode))
    where = context(parallelism=parallelism, subtask=subtask, **changes)
    return RescaledRowWindows(where, copy.copy(node.function), node.key, node.keys)


def stopped(assigner: Any, subtask: int, watermark: int) -> OperatorSubtaskState:
    """The state of a former subtask whose key had a record at 500."""
    operator = windows(assigner, 2, subtask)
    out, _ = opened(operator)
    operator.process(rows([(key_of(subtask), 1)], [500], [0]))
    operator.watermark(watermark)
    assert len(out.records) == (watermark >= AHEAD)
    return finished(operator.snapshot(1))


def counted(out: Recorder) -> list[tuple[str, int]]:
    """The keys and counts that came out."""
    return [(row["key"], row["n"]) for row in out.records]


@pytest.mark.parametrize("assigner", [hg.tumbling("1s"), hg.session("1s")], ids=["tumbling", "sessions"])
def test_a_window_that_was_sent_out_does_not_come_again(assigner: Any) -> None:
    """Its record that was in flight is late, as for the former subtask, also after a second rescale."""
    states = [stopped(assigner, 0, BEHIND), stopped(assigner, 1, AHEAD)]
    operator = windows(assigner, restored=states)
    opened(operator)
    again = windows(assigner, restored=[finished(operator.snapshot(2))])
    out, _ = opened(again)
    again.process(rows([(key_of(1), 2), (key_of(0), 2), (key_of(1), 3)], [600, 700, 6_000], [BEHIND] * 3))
    again.watermark(10_000)
    assert sorted(counted(out)) == sorted([(key_of(0), 2), (key_of(1), 1)])
    assert again.measured()[LATE_RECORDS.at()] == 1
