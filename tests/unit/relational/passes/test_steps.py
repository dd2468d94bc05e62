"""Filters and projections become few steps that read few columns, and give what they gave one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headgate.relational.evaluation import evaluate
from headgate.relational.expressions import Call, Literal, Reference
from headgate.relational.passes.fused_steps import Step, pruned, steps_of
from headgate.relational.relations import Filter, Project, Relation, Scan
from headgate.relational.resolving import resolve
from headgate.relational.schema import Field, Schema, schema_of

DATA = pa.record_batch({"a": [1, 2, 3, 4], "b": [10, 20, 30, 40], "c": ["x", "y", "z", "w"]})
SCAN = Scan(schema_of(DATA.schema), 0)


def project(child: Relation, **columns: Any) -> Project:
    """Columns by name."""
    found = tuple(resolve(each, child.schema) for each in columns.values())
    fields = tuple(Field(n, e.type, e.nullable) for n, e in zip(columns, found, strict=True))
    return Project(Schema(fields), child, found)


def where(child: Relation, condition: Any) -> Filter:
    """Some rows."""
    return Filter(child.schema, child, resolve(condition, child.schema))


def run(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    """What the steps give for the data, run as the operator does."""
    batch = DATA
    for step in steps:
        batch = batch.select(step.reads.names)
        for condition in step.conditions:
            batch = batch.filter(evaluate(condition, batch))
        arrays = [evaluate(each, batch) for each in step.columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=step.gives.to_arrow())
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def test_one_step_reads_only_what_is_used() -> None:
    """A filter between two projections."""
    named = project(SCAN, x=Reference("a"), y=Reference("b"))
    plan = project(where(named, Call(">", (Reference("x"), Literal(2)))), z=Reference("y"))
    _, steps = steps_of(plan)
    steps = pruned(steps)
    assert len(steps) == 1
    assert steps[0].reads.names == ["a", "b"]
    assert run(steps) == [{"z": 30}, {"z": 40}]


def test_what_is_used_twice_is_computed_once() -> None:
    """A computed column with two uses stays a step of its own."""
    double = project(SCAN, d=Call("*", (Reference("a"), Literal(2))))
    _, steps = steps_of(project(double, e=Call("+", (Reference("d"), Reference("d")))))
    assert len(steps) == 2
    assert run(pruned(steps)) == [{"e": 4 * n} for n in (1, 2, 3, 4)]


def test_a_filter_does_not_hide_the_error_of_a_column_before_it() -> None:
    """The column was computed for all rows, so it fails for all rows."""
    quotient = project(SCAN, q=Call("/", (Reference("b"), Call("-", (Reference("a"), Literal(1))))))
    _, steps = steps_of(where(quotient, Call(">", (Reference("q"), Literal(1)))))
    assert len(steps) == 2


def test_columns_that_nobody_uses_are_not_given_by_the_step_before() -> None:
    """Pruning goes up through all steps."""
    wide = project(SCAN, d=Call("*", (Reference("a"), Literal(2))), c=Reference("c"))
    _, steps = steps_of(project(wide, e=Call("+", (Reference("d"), Reference("d")))))
    first, last = pruned(steps)
    assert first.reads.names == ["a"]
    assert first.gives.names == last.reads.names == ["d"]
    assert np.array_equal([row["e"] for row in run((first, last))], [4, 8, 12, 16])
