"""State without windows and with a time to live: it is bounded, and what is younger is as without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from subtask_samples import Checkpoints
from table_subtasks import Subtasks, nodes_of

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.graph.table_nodes import (
    AccumulateNode,
    CheckedKeysNode,
    ColumnsNode,
    DeduplicateNode,
    FirstRowsNode,
    JoinNode,
    RankNode,
    RecomputeNode,
    RunningAggregateNode,
    UpdatingJoinNode,
)
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})
TTL = 400
CASES: dict[str, tuple[Any, list[Any]]] = {
    "groups": (
        lambda a, b: a.group_by("k").agg(F.count("*").alias("n"), uid="g", ttl=TTL),
        [ColumnsNode, AccumulateNode, RunningAggregateNode],
    ),
    "values": (
        lambda a, b: a.group_by("k").agg(F.count_distinct("v").alias("n"), uid="g", ttl=TTL),
        [ColumnsNode, AccumulateNode, RunningAggregateNode],
    ),
    "rank": (
        lambda a, b: a.top_n(1, "k", F.desc("v"), uid="g", ttl=TTL),
        [ColumnsNode, FirstRowsNode, RankNode],
    ),
    "over": (
        lambda a, b: a.over(F.sum("v").alias("s"), by="k", order_by="v", uid="g", ttl=TTL),
        [ColumnsNode, CheckedKeysNode, RecomputeNode],
    ),
    "inner join": (lambda a, b: a.join(b, "k", uid="g", ttl=TTL), [ColumnsNode, JoinNode]),
    "left join": (lambda a, b: a.join(b, "k", "left", uid="g", ttl=TTL), [ColumnsNode, UpdatingJoinNode]),
    "distinct": (lambda a, b: a.distinct(uid="g", ttl=TTL), [ColumnsNode, DeduplicateNode]),
}


def job(case: str, checkpoints: Any = None) -> Subtasks:
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    build, kinds = CASES[case]
    a, b = (env.from_collection([]).to_table(SCHEMA.remove(1) if n else SCHEMA) for n in range(2))
    found = build(a, b)
    (found.to_changes if found.schema.updating else found.to_stream)()
    *before, node = nodes_of(env.program.nodes(), *kinds)
    return Subtasks(before, node, checkpoints)


def rows(keys: range, value: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "v": value} for k in keys], SCHEMA)


def kept(subtasks: Subtasks) -> int:
    return sum(table.num_rows for each in subtasks.operators for table in each._kept.view()())


@pytest.mark.parametrize("case", CASES)
def test_state_is_that_of_keys_of_which_rows_have_come(case: str) -> None:
    """Also after a restore, by another number of subtasks: the time of what was restored begins then."""
    subtasks, most = job(case), 0
    for step in range(120):
        subtasks.clock.now += 50
        subtasks.send(rows(range(step * 10, step * 10 + 10), step))
        subtasks.mark()
        if step == 60:
            subtasks.restore(3)
        most = max(most, kept(subtasks))
        assert all(each._ages.count <= 250 for each in subtasks.operators)
    rows_of_a_key = 2 if case == "values" else 1
    assert 80 <= most <= 250 * rows_of_a_key  # of 1,200


@pytest.mark.parametrize("case", ["groups", "values", "rank", "over", "left join", "inner join", "distinct"])
def test_keys_leave_rocksdb_when_they_are_forgotten(case: str, tmp_path: Path) -> None:
    """What a checkpoint brings back is what was kept, whenever it is taken."""
    subtasks = job(case, Checkpoints(tmp_path))
    for step in range(40):
        subtasks.clock.now += 50
        subtasks.send(rows(range(step * 10, step * 10 + 10), step))
        subtasks.mark()
        if step % 3 == 0:
            subtasks.checkpoint()
        if step % 10 == 9:
            before = kept(subtasks)
            subtasks.restore(1 + step % 3)
            assert kept(subtasks) == before <= 260
    for operator in subtasks.operators:
        operator.close()


@pytest.mark.parametrize("case", ["groups", "values", "rank", "over"])
def test_a_key_that_has_rows_in_time_is_never_forgotten_and_others_begin_anew(case: str) -> None:
    """What they answered before stays as it was."""
    subtasks = job(case)
    for step in range(20):
        subtasks.clock.now += 100
        subtasks.send(rows(range(1 if step % 10 else 2), step))
        subtasks.mark()
    found = [row for row in subtasks.received if row["k"] == 0]
    again = [row for row in subtasks.received if row["k"] == 1]
    column = {"groups": "n", "values": "n", "rank": "v", "over": "s"}[case]
    last = {"groups": 20, "values": 20, "rank": 19, "over": sum(range(20))}[case]
    assert max(row[column] for row in found) == last
    assert [(row["__change"], row[column]) for row in again] == [
        (0, {"groups": 1, "values": 1, "rank": 0, "over": 0}[case]),
        (0, {"groups": 1, "values": 1, "rank": 10, "over": 10}[case]),
    ]


def test_a_time_to_live_is_refused_where_windows_bound_the_state() -> None:
    """The message says what to leave away."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    table = env.from_collection([]).with_event_time("v").to_table(SCHEMA)
    with pytest.raises(hg.PlanError, match=r"agg\(\) .* got ttl, and windows"):
        table.group_by("k", F.window("v", "1s")).agg(F.count("*"), ttl="1h")
    with pytest.raises(hg.PlanError, match="leave ttl away"):
        table.drop_duplicates(["k"], within="1s", ttl="1h")
    with pytest.raises(hg.PlanError, match="ttl"):
        table.distinct(ttl="soon")
