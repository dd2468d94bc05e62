"""Sets of rows of tables that grow and of corrected ones, through marks, snapshots and changes of the
parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_subtasks import Subtasks, nodes_of

import headgate as hg
from headgate.graph.table_nodes import AccumulateNode, RunningAggregateNode
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"k": pa.string(), "x": pa.float64()})
ROW = st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.sampled_from([0.0, 1.0, float("nan")]))
CHANGE = st.tuples(st.sampled_from([0, 1]), st.booleans(), ROW)
STEPS = st.lists(
    st.tuples(st.just("rows"), st.lists(CHANGE, min_size=1, max_size=8))
    | st.just(("mark",))
    | st.tuples(st.just("restore"), st.integers(1, 3)),
    max_size=15,
)
Bags = tuple[Counter[str], Counter[str]]
ANSWERS: dict[str, Callable[[Bags], Counter[str]]] = {
    "intersect": lambda bags: Counter(dict.fromkeys(bags[0].keys() & bags[1].keys(), 1)),
    "intersect_all": lambda bags: bags[0] & bags[1],
    "subtract": lambda bags: Counter(dict.fromkeys(bags[0].keys() - bags[1].keys(), 1)),
    "except_all": lambda bags: bags[0] - bags[1],
}


def job(operation: str) -> Subtasks:
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    left, right = (env.from_collection([]).to_table(SCHEMA) for _ in range(2))
    getattr(left, operation)(right, uid="s").to_changes()
    before, node = nodes_of(env.program.nodes(), AccumulateNode, RunningAggregateNode)
    return Subtasks([before], node)


def batch(job: Subtasks, changes: list[tuple[int, int, tuple[Any, Any]]]) -> pa.RecordBatch:
    """Keys as the columns before the exchange give them, and the weights of both sides."""
    found = []
    for side, weight, (k, x) in changes:
        odd = (k is None) | (x is None) << 1 | (x is not None and x != x) << 2
        row = {"key/0": k or "", "key/1": 0.0 if not x or x != x else x, "key/odd0": odd}
        found.append(row | {"__left": weight * (side == 0), "__right": weight * (side == 1)})
    schema = job._node.aggregation.child.schema.to_arrow()
    return pa.RecordBatch.from_pylist(found, schema)


def shown(row: dict[str, Any]) -> str:
    return repr((row["key/0"], row["key/1"], row["key/odd0"]))


@pytest.mark.parametrize("operation", ANSWERS)
@given(STEPS)
def test_at_each_mark_the_answer_is_that_of_all_changes_before_it(operation: str, steps: list[Any]) -> None:
    """A row leaves only if it is there: other steps add it."""
    subtasks = job(operation)
    bags: Bags = Counter(), Counter()
    for step in [*steps, ("mark",)]:
        match step:
            case ("rows", changes):
                told = []
                for side, adds, row in changes:
                    key = shown(batch(subtasks, [(side, 1, row)]).to_pylist()[0])
                    weight = 1 if adds or not bags[side][key] else -1
                    bags[side][key] += weight
                    told.append((side, weight, row))
                for bag in bags:
                    for key in [key for key, count in bag.items() if not count]:
                        del bag[key]
                subtasks.send(batch(subtasks, told))
            case ("mark",):
                assert Counter(map(shown, subtasks.mark())) == +ANSWERS[operation](bags)
            case ("restore", parallelism):
                subtasks.restore(parallelism)
