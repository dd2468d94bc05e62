"""Keys of a repeated hour, and the end of the input, with records that wait."""

from __future__ import annotations

import copy
import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_samples import context, opened
from test_records_together import END

import headgate as hg
from headgate.graph.logical import WindowNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.windows_of_rows.groups_of_rows_ahead import RescaledRowWindows
from headgate.state.backends import RocksBackends


def values_of(assigner: Any, **changes: Any) -> RescaledRowWindows:
    """The operator of a program whose windows give the values of their records, in order."""
    env = hg.Environment(parallelism=1)
    stream = env.from_collection([{"k": 0}]).with_event_time(lambda record: 0).key_by("k")
    windows = stream.window(assigner)
    windows.process(lambda key, window, records, ctx: [[r["v"] for r in records]], uid="op").collect_later()
    node = next(node for node in env.program.nodes() if isinstance(node, WindowNode))
    return RescaledRowWindows(context(**changes), copy.copy(node.function), node.key, node.keys)


@pytest.mark.parametrize("way", ["one by one", "waiting", "stored by a snapshot"])
def test_moments_of_an_hour_that_is_repeated_are_one_key_in_order(way: str) -> None:
    """02:30 before and after clocks are set back are equal datetimes: one key, whose records are in order."""
    operator = values_of(hg.tumbling(50))
    out, _ = opened(operator)
    if way == "one by one":
        operator._usual, operator._ends, operator.recent = KeyedRun, None, None
    first = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC)
    moments = [first + dt.timedelta(hours=n % 2) for n in range(20)]
    keys = pa.array(moments, pa.timestamp("ms", "Europe/Berlin"))
    columns = pa.RecordBatch.from_arrays([keys, pa.array(range(20))], names=["k", "v"])
    operator.process(ArrowBatch(columns, np.arange(20), np.full(20, -(2**63))))
    if way == "stored by a snapshot":
        operator.snapshot(1)
    operator.watermark(END)
    assert out.records == [list(range(20))]


def test_windows_that_waited_are_no_new_timers_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the input puts records that wait into state; the timers of that are not the program's."""
    monkeypatch.setattr("headgate.runtime.worker.operators.keyed_operator.END_TIMERS_MAX", 100)
    operator = values_of(hg.tumbling(50), backends=RocksBackends(1 << 24, str(tmp_path), True))
    out, _ = opened(operator)
    for keys in (range(10), range(1_000, 1_200)):
        columns = pa.RecordBatch.from_pydict({"k": list(keys), "v": list(keys)})
        times, marks = np.zeros(len(keys), np.int64), np.full(len(keys), -(2**63))
        operator.process(ArrowBatch(columns, times, marks))
        if len(keys) == 10:
            operator.snapshot(1)
    operator.watermark(END)
    while operator.busy:
        operator.go_on()
    assert len(out.records) == 210
    operator.close()


def test_records_of_windows_that_have_few_do_not_wait() -> None:
    """Each window that ends costs something, however many records it has."""
    operator = values_of(hg.tumbling(50))
    opened(operator)
    columns = pa.RecordBatch.from_pydict({"k": [1] * 64, "v": list(range(64))})
    for step, waits in ((10, False), (1, True)):
        operator.process(ArrowBatch(columns, np.arange(64) * step, np.full(64, -(2**63))))
        assert operator.recent is not None
        assert (operator.recent.next_end is not None) is waits
