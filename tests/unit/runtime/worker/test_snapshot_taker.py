"""What a subtask does about a barrier, in which order, and until when it takes records along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from operator_samples import rows
from snapshot_samples import INPUT, Bench, Stateful, over
from task_samples import OUT, Rig

from headgate.common.errors import UserFunctionError
from headgate.common.ids import EdgeId
from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.graph.partitioners import Forward
from headgate.runtime.protocol.elements import CancelMarker, Watermark
from headgate.runtime.worker.exchange.output import EdgeEnds, OutputChannel, OutputEdge
from headgate.runtime.worker.snapshot.snapshot_taker import LAG_BYTES, LAG_POLL_MS, BarrierMetrics


def timed(checkpoint: int) -> Barrier:
    """A barrier that overtakes when it is older than 50 ms."""
    return Barrier(checkpoint, 1_000, timeout_ms=50)


def stuck(root: Path, **more: Any) -> Bench:
    """A bench with one record, "out", that has no credit to leave."""
    bench = Bench(root, credit=1, **more)
    bench.emit("gone")
    bench.emit("out")
    bench.lane.elements.clear()
    return bench


def free(bench: Bench) -> None:
    """The receiver takes in a frame."""
    bench.edge.channels[0].grant(1)


def test_the_barrier_leaves_before_the_operators_are_asked(tmp_path: Path) -> None:
    """Those downstream need not wait for the copies of tables; nothing is emitted in between."""
    order: list[str] = []
    operator = Stateful()
    bench = Bench(tmp_path, operator)
    bench.lane.deliver = lambda element: order.append("barrier")  # type: ignore[method-assign, assignment]
    original = operator.snapshot
    operator.snapshot = lambda checkpoint: (order.append("state"), original(checkpoint))[1]  # type: ignore[method-assign]
    bench.draw(over(1))
    assert order == ["barrier", "state"]


def test_a_checkpoint_is_drawn_once_and_never_after_a_newer_one(tmp_path: Path) -> None:
    """Repeated and late barriers change nothing."""
    bench = Bench(tmp_path)
    for checkpoint in (2, 2, 1, 3, 2):
        bench.draw(over(checkpoint))
    bench.run()
    assert bench.operators[0].drawn == [2, 3]
    assert bench.lane.elements == [over(2), over(3)]
    assert list(bench.acknowledged) == [2, 3]


def test_what_was_drawn_is_let_go_when_a_later_operator_refuses(tmp_path: Path) -> None:
    """Nobody else would: it may be files on the local disk, which outlive the attempt."""
    first, second = Stateful("first"), Stateful("second")

    def refuse(checkpoint: int) -> None:
        raise ValueError("not now")

    second.snapshot = refuse  # type: ignore[method-assign, assignment]
    bench = Bench(tmp_path, first, second)
    with pytest.raises(UserFunctionError, match="not now"):
        bench.draw(over(1))
    assert first.drawn == first.released == [1]


def test_what_is_taken_along_ends_when_inputs_and_outputs_are_through(tmp_path: Path) -> None:
    """A barrier with a timeout that became unaligned on the way in may still be stuck on the way out."""
    bench = stuck(tmp_path)
    bench.draw(timed(1))
    assert bench.snapshots.capture is None, "aligned: nothing of the inputs is taken along"
    bench.run()
    assert bench.acknowledged == {}, "but the barrier is not out"
    free(bench)
    assert bench.snapshots.poll_held_barrier(1_000)
    assert not bench.snapshots.poll_held_barrier(1_000)
    bench.run()
    assert bench.acknowledged[1].in_flight == []
    assert not bench.acknowledged[1].unaligned
    assert bench.snapshots.next_timeout() is None


def test_an_aborted_barrier_that_is_stuck_is_looked_after_no_more(tmp_path: Path) -> None:
    """Its time passes without effect, and the next checkpoint is drawn as ever."""
    bench = stuck(tmp_path)
    bench.draw(timed(1))
    bench.snapshots.aborted(1)
    assert bench.snapshots.next_timeout() is None
    assert not bench.snapshots.poll_held_barrier(9_999)
    bench.draw(over(2))
    bench.run()
    assert bench.in_flight(2, output=True) == ["out"]
    assert (list(bench.acknowledged), bench.declined, bench.failed) == ([2], [], [])


def test_a_stuck_barrier_gives_way_to_a_newer_one(tmp_path: Path) -> None:
    """The older checkpoint is declined once; the newer one takes along what both overtook."""
    bench = stuck(tmp_path)
    bench.draw(timed(1))
    bench.draw(over(2))
    bench.run()
    assert bench.declined == [(1, SUBSUMED)]
    assert bench.in_flight(2, output=True) == ["out"]
    free(bench)
    kinds = [e if isinstance(e, (Barrier, CancelMarker)) else type(e).__name__ for e in bench.lane.elements]
    assert kinds == [over(2), "RowBatch", "Watermark", timed(1), CancelMarker(1)]


def test_declining_tells_both_sides(tmp_path: Path) -> None:
    """Downstream by a marker, the job master by a message; nothing is left to be written."""
    bench = Bench(tmp_path)
    bench.draw(over(1), rows([1]), open_inputs=True)
    bench.snapshots.decline(1, "because")
    bench.run()
    assert bench.declined == [(1, "because")]
    assert bench.lane.elements == [over(1), CancelMarker(1)]
    assert (bench.files, bench.acknowledged, bench.failed) == ([], {}, [])


def test_the_end_of_inputs_of_another_checkpoint_is_not_this_ones(tmp_path: Path) -> None:
    """It may come late, of one that gave way."""
    bench = Bench(tmp_path)
    bench.draw(over(1), open_inputs=True)
    bench.draw(over(2), open_inputs=True)
    bench.snapshots.inputs_complete(1)
    capture = bench.snapshots.capture
    assert capture is not None
    capture.add(INPUT, rows(["late"]))
    bench.snapshots.inputs_complete(2)
    bench.run()
    assert bench.in_flight(2) == ["late"]


def test_exchanges_between_the_same_ends_are_told_apart(tmp_path: Path) -> None:
    """A stream that is united with itself: what waits in one must not follow what waits in the other."""
    bench = stuck(tmp_path)
    ends = EdgeEnds(EdgeId(2), OUT.sender, OUT.tag, OUT.receiver, lineage=1)
    other = OutputEdge(Forward(), [OutputChannel(bench.lane, 1)], 128, ends=ends)
    bench.outputs.edges.append(other)
    for record in ("gone", "other"):
        other.channels[0].add(rows([record]))
        other.channels[0].flush()
    bench.draw(over(1))
    bench.run()
    outputs = [stream for stream in bench.acknowledged[1].in_flight if stream.from_output]
    assert [(stream.lineage, sum(p.records for p in stream.parts)) for stream in outputs] == [(0, 1), (1, 1)]


def test_an_operator_that_cannot_be_drawn_is_blamed(tmp_path: Path) -> None:
    """The attempt fails with its name; what was taken along goes with the attempt."""
    operator = Stateful()
    bench = Bench(tmp_path, operator)

    def refuse(checkpoint: int) -> Any:
        raise ValueError("not now")

    operator.snapshot = refuse  # type: ignore[method-assign]
    with pytest.raises(UserFunctionError, match="not now"):
        bench.draw(over(1), rows([1]))
    bench.finishing.close()
    bench.run()
    assert (bench.acknowledged, bench.failed, bench.files) == ({}, [], [])


def test_metrics_are_those_of_the_end_not_of_the_beginning(tmp_path: Path) -> None:
    """They change until the last barrier has come."""
    bench = Bench(tmp_path)
    metrics = BarrierMetrics(3.0, 0.0, True)
    bench.snapshots.take(over(1), metrics, (0, 0), False, lambda capture: capture.begin(INPUT, None, False))
    metrics.alignment_ms, metrics.bytes_processed, metrics.slowest_channel = 7.0, 99, "before[0]"
    bench.snapshots.inputs_complete(1)
    bench.run()
    snapshot = bench.acknowledged[1]
    assert (snapshot.start_delay_ms, snapshot.alignment_ms, snapshot.bytes_processed) == (3.0, 7.0, 99)
    assert snapshot.slowest_channel == "before[0]"


# -- storage that is slower than the streams -------------------------------------------------------


def lagging(bench: Bench, batch: Any) -> int:
    """Add the batch until the subtask pauses; gives how often that was."""
    times = 0
    while bench.outputs.available:
        bench.snapshots.capture.add(INPUT, batch)  # type: ignore[union-attr]
        times += 1
    return times


def test_a_subtask_pauses_while_the_storage_is_behind(tmp_path: Path) -> None:
    """It looks again in a while, and goes on when what waits is stored."""
    bench = Bench(tmp_path)
    bench.draw(over(1), open_inputs=True)
    batch = rows(["x" * 1_000_000])
    assert lagging(bench, batch) * batch.nbytes() == pytest.approx(LAG_BYTES, rel=0.2)
    assert bench.snapshots.next_timeout() == bench.clock.now + LAG_POLL_MS
    bench.run()
    assert bench.outputs.available
    assert bench.snapshots.next_timeout() is None


def test_what_was_in_flight_at_the_barrier_is_no_reason_to_pause(tmp_path: Path) -> None:
    """It is in memory anyway, and to wait for it would stop the stream at every checkpoint."""
    bench = Bench(tmp_path)
    big = rows(["x" * (LAG_BYTES + 1)])
    bench.draw(over(1), big, open_inputs=True)
    assert bench.outputs.available
    assert lagging(bench, big) == 1


@pytest.mark.parametrize("end", ["complete", "abort", "full disk"])
def test_a_pause_ends_with_its_reason(tmp_path: Path, end: str) -> None:
    """Whatever becomes of the checkpoint, the subtask goes on."""
    bench = Bench(tmp_path)
    bench.draw(over(1), open_inputs=True)
    lagging(bench, rows(["x" * 5_000_000]))
    if end == "complete":
        bench.snapshots.inputs_complete(1)
    elif end == "abort":
        bench.snapshots.aborted(1)
    else:
        bench.disk.full = True
        bench.run()
    assert bench.outputs.available


def test_a_paused_subtask_reads_nothing_but_lets_barriers_through() -> None:
    """So its senders run out of credit, and the checkpoint that it waits for can still complete."""
    rig = Rig(2, unaligned=True)
    rig.deliver((0, Watermark(WATERMARK_MIN)), (1, Watermark(WATERMARK_MIN)))
    rig.deliver((0, Barrier(1, 1_000, Alignment.UNALIGNED)))
    capture = rig.taken.captures[1]
    capture.bytes_waiting = LAG_BYTES + 1
    rig.deliver((1, rows(["taken along"])))
    assert rig.records == []
    assert rig.task.next_wakeup() == rig.clock.now + LAG_POLL_MS
    rig.deliver((1, Barrier(1, 1_000, Alignment.UNALIGNED)))
    assert capture.sealed
    assert rig.records == ["taken along"]
