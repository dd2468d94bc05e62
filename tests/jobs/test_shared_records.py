"""Records that functions change in place: nobody else sees it, whatever shares a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.testing import MiniCluster


class Total(hg.KeyedProcessFunction):
    """Emits each record's value as it sees it."""

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        yield record["n"]


def spoil(record: Any) -> Any:
    """Change the input, as functions should not."""
    record["n"] += 1000
    return record


@pytest.mark.parametrize("parallelism", [1, 2])
def test_another_consumer_does_not_see_a_change_in_place(parallelism: int) -> None:
    """Of two consumers of a stream, one changes its records; the other sees them as they were."""
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster())
    stream = env.from_collection([{"k": i % 3, "n": i} for i in range(60)]).map(dict)
    spoilt = stream.map(spoil).collect_later()
    clean = stream.key_by("k").process(Total(), uid="total").collect_later()
    env.execute("shared")
    assert sorted(clean.records) == list(range(60))
    assert sorted(record["n"] for record in spoilt.records) == [1000 + i for i in range(60)]


def view(column: list[Any]) -> list[Any]:
    """Rows that are views of a batch with that column."""
    return list(ArrowBatch(pa.RecordBatch.from_pydict({"n": column})).rows())


@pytest.mark.parametrize(
    "record",
    [
        *({"n": [1]}, [1, 2], ({"n": 1},), {"n": {"m": 1}}, {1, 2}, bytearray(b"x")),
        *(hg.Row.of(a=1, b=[1]), *view([[1]]), *view([{"n": 1}])),
    ],
)
def test_what_can_be_changed_is_copied(record: Any) -> None:
    """An equal record of the same type that shares nothing."""
    copied = detached(RowBatch([record])).records[0]
    assert copied == record
    assert type(copied) is type(record)
    assert copied is not record


@pytest.mark.parametrize("record", [1, "a", None, ("a", 1, None), b"x", hg.Row.of(a=1), *view(["x"])])
def test_what_cannot_be_changed_is_handed_over(record: Any) -> None:
    """No copy where none is needed."""
    batch = RowBatch([record])
    assert detached(batch) is batch
