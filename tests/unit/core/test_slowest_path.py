"""The slowest path of constructed checkpoints: one for each cause, and the sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    EdgeFacts,
    StuckLoop,
    SubtaskRecord,
    Topology,
    VertexFacts,
)
from headgate.core.checkpoint.slowest import Hop, amount, slowest_path, span

GRAPH = Topology(
    (
        VertexFacts(0, "In", ("in",), 2),
        VertexFacts(1, "Map", ("map",), 2),
        VertexFacts(2, "Count -> Out", ("count", "out"), 2),
    ),
    (EdgeFacts(0, 1, "Forward"), EdgeFacts(1, 2, "ByKeyGroup")),
)
QUICK = {
    (0, 0): {"ack_latency_ms": 3, "start_delay_ms": 1.0},
    (0, 1): {"ack_latency_ms": 3, "start_delay_ms": 1.0},
    (1, 0): {"ack_latency_ms": 5, "start_delay_ms": 2.0},
    (1, 1): {"ack_latency_ms": 5, "start_delay_ms": 2.0},
    (2, 0): {"ack_latency_ms": 8, "start_delay_ms": 3.0, "alignment_ms": 1.0},
    (2, 1): {"ack_latency_ms": 8, "start_delay_ms": 3.0, "alignment_ms": 1.0},
}


def checkpoint(changes: dict[tuple[int, int], Any], **record: Any) -> CheckpointRecord:
    """A checkpoint of the graph; `changes` to its subtasks, None for those that did not acknowledge."""
    told = {
        task: None if changes.get(task, {}) is None else {**QUICK[task], **changes.get(task, {})}
        for task in QUICK
    }
    subtasks = tuple(SubtaskRecord(*task, **facts) for task, facts in told.items() if facts is not None)
    missing = tuple(task for task, facts in told.items() if facts is None)
    last = max((seen.ack_latency_ms for seen in subtasks), default=0)
    facts = {"status": CheckpointStatus.COMPLETED, "duration_ms": last + 10, "stored_ms": last + 5, **record}
    return CheckpointRecord(
        7, 1, "periodic", trigger_ms=0, topology=GRAPH, subtasks=subtasks, missing=missing, **facts
    )


def expired(changes: dict[tuple[int, int], Any], **record: Any) -> CheckpointRecord:
    """As :func:`checkpoint`, but given up after a minute."""
    ended = {"status": CheckpointStatus.FAILED, "reason": "CHECKPOINT_EXPIRED", "duration_ms": 60_000}
    return checkpoint(changes, **{**ended, "stored_ms": None, **record})


def labels(record: CheckpointRecord) -> list[str]:
    """The subtasks on the path."""
    return [hop.label for hop in slowest_path(record).hops]


def total_ms(record: CheckpointRecord) -> float:
    """All parts of all hops, with storing and committing."""
    path = slowest_path(record)
    hops = [h.travel_ms + h.alignment_ms + h.sync_ms + h.async_ms + h.other_ms for h in path.hops]
    return sum(hops) + path.storing_ms + path.committing_ms


BACKPRESSURE = checkpoint(
    {
        (2, 0): {
            "ack_latency_ms": 4300,
            "start_delay_ms": 4250.0,
            "alignment_ms": 20.0,
            "slowest_channel": "map[1]",
        }
    }
)
ALIGNMENT = checkpoint(
    {(2, 1): {"ack_latency_ms": 3150, "alignment_ms": 3100.0, "slowest_channel": "map[0]", "async_ms": 10.0}}
)
SYNC = checkpoint(
    {
        (1, 1): {"sync_ms": 900.0, "ack_latency_ms": 903},
        (2, 0): {"start_delay_ms": 903.0, "ack_latency_ms": 910},
    }
)
ASYNC = checkpoint({(1, 0): {"ack_latency_ms": 8100, "async_ms": 8000.0, "bytes_written": 1_200_000_000}})
TRIGGER = checkpoint(
    {
        (0, 1): {"ack_latency_ms": 5002, "start_delay_ms": 5000.0},
        (1, 1): {"ack_latency_ms": 5003, "start_delay_ms": 5001.0},
        (2, 0): {
            "ack_latency_ms": 5010,
            "start_delay_ms": 3.0,
            "alignment_ms": 5000.0,
            "slowest_channel": "map[1]",
        },
    }
)


@pytest.mark.parametrize(
    ("record", "path", "begins"),
    [
        (
            BACKPRESSURE,
            ["'in'[1]", "'map'[1]", "'count -> out'[0]"],
            "the barrier took 4.2 s to pass the records queued before 'count -> out'[0] (backpressure",
        ),
        (
            ALIGNMENT,
            ["'in'[0]", "'map'[0]", "'count -> out'[1]"],
            "alignment: 'count -> out'[1] waited 3.1 s for the barrier of 'map'[0]: more records were queued",
        ),
        (
            SYNC,
            ["'in'[1]", "'map'[1]", "'count -> out'[0]"],
            "the snapshot paused the loop of 'map'[1] for 900 ms (sync)",
        ),
        (ASYNC, ["'in'[0]", "'map'[0]"], "writing 1.2 GB of state of 'map'[0] took 8.0 s (async)"),
        (
            TRIGGER,
            ["'in'[1]", "'map'[1]", "'count -> out'[0]"],
            "the trigger waited 5.0 s until the loop of source 'in'[1] took it: its output was blocked",
        ),
    ],
    ids=["barrier", "alignment", "sync", "async", "trigger"],
)
def test_the_dominant_cause_is_named(record: CheckpointRecord, path: list[str], begins: str) -> None:
    """The path leads over the slowest sender to its source, and the greatest part is the cause."""
    assert labels(record) == path
    assert slowest_path(record).why.startswith(begins)


@pytest.mark.parametrize("record", [BACKPRESSURE, ALIGNMENT, SYNC, ASYNC, TRIGGER])
def test_the_parts_are_the_whole(record: CheckpointRecord) -> None:
    """No time on the path is counted twice or lost: travel, alignment, pause, writing and the end add up."""
    assert total_ms(record) == pytest.approx(record.duration_ms)


def test_a_late_sender_is_not_blamed_on_who_waits_for_it() -> None:
    """Alignment that only waits for a barrier which was late itself is none of the receiver's time."""
    hops = slowest_path(TRIGGER).hops
    assert (hops[0].travel_ms, hops[2].alignment_ms) == (5000.0, 2.0)


def test_without_a_named_channel_the_last_sender_is_taken() -> None:
    """Of all senders that one which passed the barrier on last; a forward exchange has only one sender."""
    late = checkpoint({(1, 0): {"start_delay_ms": 50.0}, (2, 1): {"ack_latency_ms": 500}})
    assert labels(late) == ["'in'[0]", "'map'[0]", "'count -> out'[1]"]
    foreign = checkpoint(
        {(1, 1): {"sync_ms": 60.0}, (2, 1): {"ack_latency_ms": 500, "slowest_channel": "gone[9]"}}
    )
    assert labels(foreign) == ["'in'[1]", "'map'[1]", "'count -> out'[1]"]


def test_a_channel_may_be_named_after_any_operator_of_the_chain() -> None:
    """A side output leaves in the middle of a chain and bears that operator's uid."""
    graph = Topology(
        (VertexFacts(0, "In -> Map", ("in", "map"), 2), VertexFacts(1, "Out", ("out",), 1)),
        (EdgeFacts(0, 1, "Rebalance"),),
    )
    subtasks = (
        SubtaskRecord(0, 0, 1, start_delay_ms=9.0),
        SubtaskRecord(0, 1, 1),
        SubtaskRecord(1, 0, 300, slowest_channel="in[1]"),
    )
    record = CheckpointRecord(1, 1, "periodic", CheckpointStatus.COMPLETED, 0, graph, 300, 300, subtasks)
    assert labels(record) == ["'in -> map'[1]", "'out'[0]"]


def test_storing_and_committing_count() -> None:
    """What passes after the last acknowledgement is nobody's hop and may still be the cause."""
    stored = slowest_path(checkpoint({}, stored_ms=2008, duration_ms=2100))
    assert (stored.storing_ms, stored.committing_ms) == (2000, 92)
    assert stored.why.startswith("writing metadata and log took 2.0 s")
    committed = slowest_path(checkpoint({}, stored_ms=10, duration_ms=7010))
    assert committed.why.startswith("committing the sinks took 7.0 s")


def test_time_between_snapshot_and_acknowledgement_is_told() -> None:
    """Neither alignment nor the snapshot itself: snapshots of a worker are written one after the other."""
    record = checkpoint({(2, 0): {"ack_latency_ms": 2004, "async_ms": 100.0}})
    assert slowest_path(record).hops[-1].other_ms == 1900.0
    why = slowest_path(record).why
    assert why.startswith(
        "1.9 s passed between the first sign of the barrier at 'count -> out'[0] and its ack"
    )
    assert "stood in its input behind records (backpressure)" in why


def test_a_pause_counts_only_where_the_barrier_waited_for_it() -> None:
    """It leaves before the pause, so a receiver on another loop may have it long before that is over."""
    slow = {"start_delay_ms": 5.0, "alignment_ms": 0.0, "async_ms": 700.0, "ack_latency_ms": 705}
    record = checkpoint({(1, 1): {"sync_ms": 600.0}, (2, 0): {**slow, "slowest_channel": "map[1]"}})
    assert [hop.sync_ms for hop in slowest_path(record).hops] == [0.0, 3.0, 0.0]
    assert total_ms(record) == pytest.approx(record.duration_ms)
    assert "(async)" in slowest_path(record).why


def test_a_quick_checkpoint_needs_no_advice() -> None:
    """Below a tenth of a second only the longest part is named."""
    why = slowest_path(checkpoint({(2, 0): {"ack_latency_ms": 40, "async_ms": 33.0}})).why
    assert why == (
        "it was quick: 50 ms in all, of which the longest part was "
        "the writing of 'count -> out'[0] (async), 33 ms"
    )


def test_an_unaligned_barrier_that_is_late_waits_for_a_step() -> None:
    """It overtakes records, so backpressure is not the reason and unaligned checkpoints are no advice."""
    record = checkpoint({(2, 0): {"ack_latency_ms": 2010, "start_delay_ms": 2000.0, "unaligned": True}})
    why = slowest_path(record).why
    assert why.startswith(
        "the barrier took 2.0 s to reach 'count -> out'[0] although it may overtake records"
    )
    assert "below a broadcast" in why


def test_an_unaligned_hop_passes_the_barrier_on_before_the_others_come() -> None:
    """Its alignment is not on the way of those downstream, which have only to wait for its first barrier."""
    record = checkpoint(
        {
            (1, 0): {
                "start_delay_ms": 10.0,
                "alignment_ms": 4000.0,
                "unaligned": True,
                "ack_latency_ms": 4011,
            },
            (2, 0): {
                "start_delay_ms": 12.0,
                "alignment_ms": 0.0,
                "async_ms": 5000.0,
                "ack_latency_ms": 5012,
                "slowest_channel": "map[0]",
            },
        }
    )
    hops = slowest_path(record).hops
    assert (hops[1].alignment_ms, hops[2].travel_ms, hops[2].async_ms) == (0.0, 2.0, 5000.0)


def test_records_in_flight_are_named_where_they_are_most_of_the_bytes() -> None:
    """An unaligned snapshot that is slow to write because of what it took along is told apart from state."""
    facts = {"ack_latency_ms": 3004, "async_ms": 3000.0, "bytes_written": 900, "bytes_persisted": 800}
    why = slowest_path(checkpoint({(2, 0): facts})).why
    assert why.startswith("writing 900 B, mostly records in flight, of 'count -> out'[0] took 3.0 s (async)")


def test_who_is_missing_behind_an_acknowledged_sender() -> None:
    """The path ends there; the barrier is queued, or the call or the writing does not end."""
    record = expired({(2, 1): None})
    assert slowest_path(record).hops[-1] == Hop(2, 1, "'count -> out'[1]", missing=True)
    why = slowest_path(record).why
    assert why.startswith("'count -> out'[1] never acknowledged within 1 min 0 s, although 'map'[")
    assert "passed the barrier on after 2.0 ms: the barrier is still queued" in why


def test_the_first_of_several_missing_is_to_blame() -> None:
    """Those downstream wait for it; the path goes through it to its source."""
    record = expired({(1, 1): None, (2, 0): None, (2, 1): None})
    assert labels(record) == ["'in'[1]", "'map'[1]", "'count -> out'[0]"]
    assert slowest_path(record).why.startswith(
        "'map'[1] never acknowledged within 1 min 0 s, although 'in'[1]"
    )


def test_a_missing_source_is_told_as_such() -> None:
    """Nothing comes before it."""
    assert slowest_path(expired(dict.fromkeys(QUICK))).why.startswith(
        "'in'[0] never acknowledged within 1 min 0 s: its output is blocked (backpressure from downstream)"
    )


def test_a_stuck_loop_is_named() -> None:
    """Where the figures say that a step of the worker does not end, that is the cause."""
    stuck = (StuckLoop(1, 65_000), StuckLoop(1, 31_000))
    why = slowest_path(expired({(2, 1): None}, stuck=stuck)).why
    assert why.startswith(
        "'count -> out'[1] never acknowledged: its worker is blocked in user code (step of 1 min 5 s)"
    )
    assert "blocked in user code" not in slowest_path(expired({(2, 0): None}, stuck=stuck)).why


def test_a_missing_one_whose_barrier_went_on_is_writing() -> None:
    """Its receivers could not have acknowledged otherwise; so storage is slow, not the barrier."""
    record = expired({(1, 0): None})
    assert labels(record) == ["'in'[0]", "'map'[0]"]
    assert "its snapshot is still being written (async)" in slowest_path(record).why


def test_one_under_way_is_spoken_of_in_the_present() -> None:
    """It may still complete."""
    record = expired({(2, 0): None}, status=CheckpointStatus.IN_PROGRESS, reason=None, duration_ms=4_000)
    assert slowest_path(record).why.startswith("'count -> out'[0] has not acknowledged for 4.0 s, although")


def test_other_failures_are_told_by_their_reason() -> None:
    """Times explain nothing where a task declined or storage refused."""
    record = expired({(2, 0): None}, reason="CHECKPOINT_DECLINED", detail="task (2, 0): the disk is full")
    assert slowest_path(record).why == "a task declined the checkpoint: task (2, 0): the disk is full"
    assert slowest_path(expired({}, reason="OF_A_NEWER_VERSION")).why == "OF_A_NEWER_VERSION"


def test_a_graph_without_tasks_and_a_circle_have_a_path() -> None:
    """Whatever a file says, the answer ends."""
    nothing = CheckpointRecord(1, 1, "periodic", CheckpointStatus.COMPLETED, 0, Topology((), ()))
    assert (slowest_path(nothing).hops, slowest_path(nothing).why) == ((), "no task took part in it")
    circle = Topology(GRAPH.vertices, (EdgeFacts(0, 1, "Rebalance"), EdgeFacts(1, 0, "Rebalance")))
    subtasks = (SubtaskRecord(0, 0, 5), SubtaskRecord(1, 0, 300))
    record = CheckpointRecord(1, 1, "periodic", CheckpointStatus.COMPLETED, 0, circle, 300, 300, subtasks)
    assert labels(record) == ["'in'[0]", "'map'[0]"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (0.04, "0 ms"), (9.96, "10.0 ms"), (59_990, "60.0 s"), (61_000, "1 min 1 s")],
)
def test_times_are_written_for_people(ms: float, text: str) -> None:
    """Two or three digits and a unit."""
    assert span(ms) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1000, "1.0 kB"), (10**15, "1000.0 TB")])
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    """Decimal units, the greatest for whatever is beyond it."""
    assert amount(size) == text
