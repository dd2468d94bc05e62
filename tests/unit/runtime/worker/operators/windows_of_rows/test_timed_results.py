"""The operator of joins of streams: its results' event times, and the metric of late records."""

from __future__ import annotations

import copy

from operator_samples import context, opened, rows

import headgate as hg
from headgate.graph.logical import FlatMapNode
from headgate.graph.stream_joins import StreamJoinNode
from headgate.metrics.metric_table import LATE_RECORDS
from headgate.runtime.worker.operators.windows_of_rows.timed_results import TimedResultsOperator


def test_results_have_their_time_and_late_records_are_counted() -> None:
    """A pair has the later time of its records, a record without partner the time when that is certain."""
    env = hg.Environment(parallelism=1)
    stream = env.from_collection([("k", 0)]).with_event_time(lambda record: 0)
    joined = stream.join(stream, "left").where(lambda record: record[0]).within("1s")
    joined.apply(lambda left, right: (left[1], right and right[1]), uid="op").collect_later()
    nodes = env.program.nodes()
    left, right = (node.function for node in nodes if isinstance(node, FlatMapNode))
    node = next(node for node in nodes if isinstance(node, StreamJoinNode))
    operator = TimedResultsOperator(context(), copy.copy(node.function), node.key, node.keys)
    out, _ = opened(operator)
    records = [*right(("k", 1)), *left(("k", 2)), *left(("k", 3)), *left(("k", 4))]
    operator.process(rows(records, [900, 500, 100, 1_500], [100] * 4))
    operator.watermark(10_000)
    results = [each[:2] for each in out.log if each[0] != "watermark"]
    assert results == [((2, 1), 900), ((4, None), 2_500)]
    assert operator.measured()[LATE_RECORDS.at()] == 1
