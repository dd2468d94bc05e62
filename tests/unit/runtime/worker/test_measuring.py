"""What a subtask says in a heartbeat: the series that the job master wants, in its order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from operator_samples import rows
from task_samples import TASK, Rig

from headgate.common.errors import ProtocolError
from headgate.common.time import WATERMARK_MIN
from headgate.metrics import metric_table as table
from headgate.metrics.metric_table import HISTOGRAMS, NUMBERS
from headgate.runtime.protocol.message_codec import decode_from_worker, encode_message
from headgate.runtime.protocol.messages import Counters, Heartbeat
from headgate.runtime.worker.task.measuring import Measuring, Wanted


def measured(rig: Rig, wanted: Wanted) -> Counters:
    """What a rig's subtask would say to another job master."""
    task = rig.task
    return Measuring(TASK, task.operators, task.outputs, task.budget.times, wanted).counters(
        task.records_in, task.watermark
    )


def by_series(counters: Counters) -> dict[str, int]:
    """The numbers by name."""
    return dict(zip(NUMBERS, counters.values, strict=True))


def test_the_job_master_chooses_the_series_and_their_order() -> None:
    """The worker has no order of its own."""
    rig = Rig(1, cost_ms=2)
    rig.deliver((0, rows([1, 2])))
    some = [table.BUSY.at(), table.TIMERS_PENDING.at("event"), table.RECORDS_IN.at()]
    told = measured(rig, Wanted(some, []))
    assert (told.values, told.histograms) == ([4, 0, 2], [])
    told = measured(rig, Wanted(NUMBERS[::-1], HISTOGRAMS))
    assert told.values == rig.task.counters().values[::-1]


@pytest.mark.parametrize("wanted", [(["headgate_hope_total"], []), ([], ["headgate_busy_seconds_total"])])
def test_a_series_that_the_worker_does_not_know_is_refused(wanted: tuple[list[str], list[str]]) -> None:
    """Driver and workers of two versions would take one number for another."""
    with pytest.raises(ProtocolError, match=r"headgate_\w+_total: run the same Headgate version"):
        Wanted(*wanted)


def test_batches_count_when_they_are_sent() -> None:
    """Not while they are gathered, and not while they wait for credit."""
    rig = Rig(1, credit=1)
    name = table.BATCHES_OUT.at()
    rig.deliver((0, rows([1])))
    assert by_series(rig.task.counters())[name] == 0
    rig.clock.now += 100
    rig.task.run_timers()
    assert by_series(rig.task.counters())[name] == 1
    rig.deliver((0, rows([2])))
    rig.clock.now += 100
    rig.task.run_timers()
    assert by_series(rig.task.counters())[name] == 1
    rig.edge.channels[0].grant(1)
    assert by_series(rig.task.counters())[name] == 2


def test_event_time_that_is_not_known_is_no_number_of_people() -> None:
    """It has one on the way, and none for who reads it."""
    rig = Rig(2)
    told = rig.task.counters()
    assert by_series(told)[table.WATERMARK.at("input")] == WATERMARK_MIN
    assert told.watermark is None


@pytest.fixture
def heartbeat() -> Heartbeat:
    """One of a subtask that has worked."""
    rig = Rig(1, cost_ms=2)
    rig.deliver((0, rows([1, 2, 3])))
    return Heartbeat(7, 1_000, 5, [rig.task.counters()], [], 1 << 20)


def test_a_heartbeat_travels(heartbeat: Heartbeat) -> None:
    """Numbers, histograms and all."""
    told = decode_from_worker(encode_message(heartbeat))
    assert told == heartbeat
    assert isinstance(told, Heartbeat)
    counters = told.counters[0]
    assert (counters.records_in, counters.records_out, counters.skipped) == (3, 3, 0)
    assert (counters.busy_ms, counters.backpressured_ms, counters.longest_step_ms) == (6, 0, 6.0)
    assert counters.steps.count == 1


def test_names_do_not_travel_with_each_heartbeat(heartbeat: Heartbeat) -> None:
    """They are in the deployment."""
    plain: dict[str, Any] = msgspec.msgpack.decode(encode_message(heartbeat))
    vertex, subtask, values, histograms, own, parts = plain["counters"][0]
    assert (vertex, subtask, len(values), len(histograms)) == (0, 0, len(NUMBERS), len(HISTOGRAMS))
    assert own == []
    assert parts == [["channel", ["after", "0"], [0, 0, 0, 100]]]
    assert b"records" not in encode_message(heartbeat)
