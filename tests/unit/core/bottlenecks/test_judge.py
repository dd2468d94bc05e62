"""Every kind of cause is found in planted evidence, with its figures; nothing in that of a healthy job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_evidence import CLEAN, COUNT, READ, WRITE, Planted, vertices

from headgate.core.bottleneck.areas import FRAMEWORK, ROCKSDB, SERIALIZATION
from headgate.core.bottleneck.evidence import AlignmentSeen, Evidence
from headgate.core.bottleneck.findings import Finding, Kind
from headgate.core.bottleneck.judge import judge

HELD = AlignmentSeen(1, 1, 0.7, 4, "read[0]")


def found(planted: Planted) -> Finding:
    """What is judged to be the cause; there is one."""
    finding = judge(planted.seen())
    assert finding is not None
    return finding


def test_nothing_holds_a_healthy_job_up() -> None:
    """Nor one that has no subtasks yet, nor one whose workers are busy and have time left."""
    assert judge(Planted().seen()) is None
    assert judge(Evidence((), (), ())) is None
    assert judge(Planted().all_busy(1, busy=0.5, waiting=0.1).seen()) is None


def test_waits_below_the_limit_are_no_cause() -> None:
    """Buffers are full for a moment in any job."""
    assert judge(Planted(backpressured={0: 0.19}).seen()) is None


def test_a_slow_function_is_named_with_its_line() -> None:
    """With the share of its time, how long others wait for it, and that it computes."""
    planted = Planted(cpu={0: 0.95, 1: 0.95}).all_busy(1)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7);parse (job.py:3)": 90, FRAMEWORK: 5})
    finding = found(planted)
    assert (finding.kind, finding.vertex, finding.uid) == (Kind.FUNCTION, 1, "count")
    assert finding.line == "parse (job.py:3)"
    assert finding.figures["share"] == pytest.approx(90 / 95)
    assert finding.text.startswith(
        "'count' is the bottleneck: parse (job.py:3) of 'count' takes 95% of the time of workers 0, 1, and "
        "those that send to it wait 70% of theirs; make it cheaper"
    )


def test_a_function_that_waits_gets_another_advice() -> None:
    """It uses little of a processor, so more calls at the same time would help."""
    planted = Planted(cpu={0: 0.1, 1: 0.1}).all_busy(1)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7)": 95})
    assert "with 10% of a processor it rather waits than computes: call it asyn" in found(planted).text


def test_a_function_in_the_chain_of_a_source_is_no_slow_source() -> None:
    """The stacks tell which operator of a chain it is, and the rates cannot."""
    finding = found(Planted().all_busy(0).all_sampled({f"{CLEAN.label};clean (job.py:4)": 90}))
    assert (finding.kind, finding.vertex, finding.uid) == (Kind.FUNCTION, 0, "clean")
    assert "wait" not in finding.text.partition(";")[0]


def test_a_slow_source_and_a_slow_sink_are_named() -> None:
    """Whatever is called in them: code of the program, of a library, or encoding for a file."""
    source = found(Planted().all_busy(0).all_sampled({f"{READ.label};Reader.poll (job.py:9)": 90}))
    assert (source.kind, source.uid, source.line) == (Kind.SOURCE, "read", "Reader.poll (job.py:9)")
    assert source.text.startswith("'read -> clean' is the bottleneck: reading the source 'read', in Reader.")
    sink = found(Planted().all_busy(2).all_sampled({f"{WRITE.label};{SERIALIZATION}": 60, FRAMEWORK: 30}))
    assert (sink.kind, sink.uid, sink.vertex) == (Kind.SINK, "write", 2)


def test_state_on_disk_is_named_where_most_of_it_is_used() -> None:
    """Of two operators with state the one that uses it more; the rest of the function is small."""
    stacks = {
        f"{COUNT.label};Count.process (job.py:7);{ROCKSDB}": 50,
        f"{CLEAN.label};Clean.process (job.py:2);{ROCKSDB}": 20,
        f"{COUNT.label};Count.process (job.py:7)": 25,
    }
    finding = found(Planted().all_busy(1).all_sampled(stacks))
    assert (finding.kind, finding.uid, finding.vertex) == (Kind.STATE, "count", 1)
    assert finding.line is None
    assert finding.figures["share"] == pytest.approx(70 / 95)


def test_serialization_is_added_up_over_operators_and_the_way_between_them() -> None:
    """Each part of it is smaller than the function; together they are more."""
    stacks = {
        SERIALIZATION: 30,
        f"{COUNT.label};{SERIALIZATION}": 25,
        f"{CLEAN.label};clean (job.py:4)": 40,
    }
    finding = found(Planted().all_busy(1).all_sampled(stacks))
    assert (finding.kind, finding.uid) == (Kind.SERIALIZATION, "count")
    assert finding.figures["share"] == pytest.approx(55 / 95)


def test_native_code_hides_from_samples() -> None:
    """It keeps the interpreter's lock, so samples are taken before and after it; its subtask is busy."""
    planted = Planted().all_busy(1, busy=0.95, waiting=1.0)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7);{ROCKSDB}": 60}, idle=40)
    finding = found(planted)
    assert (finding.kind, finding.uid, finding.figures["load"]) == (Kind.STATE, "count", 1.0)


def test_work_of_the_framework_is_called_so() -> None:
    """It is none of the causes that somebody could remove, but the loop is full all the same."""
    assert found(Planted().all_busy(1).all_sampled({FRAMEWORK: 95})).kind is Kind.BUSY


def test_garbage_collection_comes_before_what_it_interrupts() -> None:
    """Stacks show the functions in which it began."""
    planted = Planted(garbage={1: 0.45}).all_busy(1)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7)": 95})
    finding = found(planted)
    assert (finding.kind, finding.worker) == (Kind.GARBAGE, 1)
    assert finding.text.startswith(
        "Python's garbage collector holds worker 1 (process 101 on host) up for 45%"
    )
    assert judge(Planted(garbage={1: 0.45}).seen()) is None, "a worker with time left is not held up"


def test_skew_is_more_records_in_one_worker() -> None:
    """With how many times as many, and how busy the others are."""
    planted = Planted(workers=3, in_per_s={(1, 2): 8_000.0}, busy={(1, 2): 0.8}, backpressured={0: 0.6})
    finding = found(planted)
    assert (finding.kind, finding.vertex, finding.uid, finding.worker) == (Kind.SKEW, 1, "count", 2)
    assert finding.figures["times"] == pytest.approx(8.0)
    assert (
        "its subtask 2 got 240,000 records in the last half minute, 8.0 times as many as the others"
        in finding.text
    )
    assert "100% busy while theirs are 30%" in finding.text


def test_skew_is_found_where_the_others_get_nothing() -> None:
    """One key has all records."""
    in_per_s = {(1, 0): 0.0, (1, 1): 900.0}
    finding = found(Planted(in_per_s=in_per_s, busy={(1, 1): 0.9, (1, 0): 0.0}))
    assert (finding.kind, finding.worker) == (Kind.SKEW, 1)


def test_a_slow_worker_takes_longer_for_every_record() -> None:
    """In all its vertices, and not because it gets more."""
    busy = {(0, 1): 0.3, (1, 1): 0.4, (2, 1): 0.3}
    finding = found(Planted(busy=busy, cpu={1: 0.2}, backpressured={0: 0.5}))
    assert (finding.kind, finding.worker, finding.vertex) == (Kind.WORKER, 1, None)
    assert finding.figures["slower"] == pytest.approx(3.0)
    assert "3.0 times in 'read -> clean', 4.0 times in 'count', 3.0 times in 'write'" in finding.text
    assert "100% busy, with 20% of a processor while theirs are 30%" in finding.text


def test_one_function_that_is_slow_in_one_worker_is_no_slow_worker() -> None:
    """The others there are as fast as anywhere: it is the records."""
    planted = Planted(busy={(1, 1): 0.8}, in_per_s={(1, 1): 1_200.0})
    planted.stacks = {1: {f"{COUNT.label};Count.process (job.py:7)": 95}}
    assert found(planted).kind is Kind.FUNCTION


def test_one_worker_alone_is_not_compared() -> None:
    """There is no other."""
    planted = Planted(workers=1, in_per_s={(1, 0): 9_000.0}).all_busy(1)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7)": 95})
    finding = found(planted)
    assert finding.kind is Kind.FUNCTION
    assert "of the time of worker 0 (process 100 on host)" in finding.text


def test_without_samples_the_busiest_vertex_is_named() -> None:
    """With what is known of it, and no reason."""
    finding = found(Planted().all_busy(1, busy=0.75))
    assert (finding.kind, finding.vertex, finding.uid) == (Kind.BUSY, 1, "count")
    assert finding.text.startswith(
        "'count' is the bottleneck: it works 75% of the time, and workers 0, 1 are 95% busy"
    )


def test_an_unknown_share_is_no_zero_in_the_text() -> None:
    """Where the system does not tell processor time, the sentence does not speak of it."""
    planted = Planted(cpu={0: None, 1: None}, garbage={0: None, 1: None}).all_busy(1)
    finding = found(planted.all_sampled({f"{COUNT.label};Count.process (job.py:7)": 95}))
    assert "cpu" not in finding.figures
    slow = Planted(busy={(0, 1): 0.4, (1, 1): 0.5, (2, 1): 0.4}, cpu={1: None})
    assert "of a processor" not in found(slow).text


def test_alignment_is_named_with_the_sender_that_came_last() -> None:
    """Nobody works all the time, the source waits, and barriers take most of that."""
    finding = found(Planted(backpressured={0: 0.7}, alignment=HELD))
    assert (finding.kind, finding.vertex, finding.uid, finding.worker) == (Kind.ALIGNMENT, 1, "count", 1)
    assert finding.figures == {"alignment": 0.7, "checkpoints": 4.0, "waiting": 0.7}
    assert "mostly that of 'read[0]'" in finding.text


def test_alignment_while_a_worker_is_full_is_its_consequence() -> None:
    """Barriers wait behind the records of a slow function."""
    planted = Planted(alignment=HELD).all_busy(1)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7)": 95})
    assert found(planted).kind is Kind.FUNCTION


@pytest.mark.parametrize("share", [0.0, 0.19, 0.34])
def test_little_alignment_is_no_cause(share: float) -> None:
    """Less than a fifth of the time, or than half of the waiting: then it is the credit."""
    little = AlignmentSeen(1, 1, share, 4)
    finding = found(Planted(backpressured={0: 0.7}, alignment=little, credit=1))
    assert (finding.kind, finding.vertex) == (Kind.CREDIT, 1)
    assert "at most 1 frame may be on the way" in finding.text
    assert finding.figures == {"waiting": 0.7, "load": pytest.approx(0.3), "credit": 1.0}


def test_waits_that_the_work_of_receivers_explains_are_not_the_credit() -> None:
    """A receiver that works for 70 % of the time may hold senders up, now and then."""
    assert judge(Planted().all_busy(1, busy=0.5, waiting=0.25).seen()) is None


def test_loops_that_wait_for_each_other_are_held_up_by_what_they_do() -> None:
    """Each works in long steps, for which the other waits: none is full, and the senders wait for all."""
    planted = Planted().all_busy(1, busy=0.5, waiting=0.95)
    planted.all_sampled({f"{COUNT.label};Count.process (job.py:7);{ROCKSDB}": 60}, idle=40)
    finding = found(planted)
    assert (finding.kind, finding.uid) == (Kind.STATE, "count")
    assert finding.figures["load"] == pytest.approx(0.7)


def test_a_full_thread_beside_the_loop_is_a_slow_function() -> None:
    """Its time is not the loop's, which is idle."""
    planted = Planted(vertices=vertices(own_thread=True)).all_busy(1, busy=0.99)
    finding = found(planted.all_sampled({FRAMEWORK: 5}, idle=95))
    assert (finding.kind, finding.uid) == (Kind.FUNCTION, "count")
    assert "threads of its own" in finding.text


def test_as_many_calls_as_may_be_are_a_slow_function() -> None:
    """They take no time of the loop at all."""
    planted = Planted(vertices=vertices(many_calls=True), backpressured={0: 0.8})
    assert found(planted).kind is Kind.FUNCTION
    planted.alignment = HELD
    assert found(planted).kind is Kind.ALIGNMENT


@pytest.mark.parametrize("busy", [0.5, 0.79])
def test_threads_that_work_while_senders_wait_are_not_the_credit(busy: float) -> None:
    """They and the loop wait for each other in turn; more credit would only lengthen the queue."""
    planted = Planted(vertices=vertices(own_thread=True)).all_busy(1, busy=busy, waiting=0.6)
    finding = found(planted.all_sampled({FRAMEWORK: 5}, idle=95))
    assert (finding.kind, finding.uid) == (Kind.FUNCTION, "count")
    assert finding.figures == {"busy": busy, "waiting": 0.6}
    assert f"works {busy:.0%} of the time" in finding.text
    planted.alignment = HELD
    assert found(planted).kind is Kind.ALIGNMENT


def test_threads_with_time_left_are_not_named() -> None:
    """Half of the time, and senders that seldom wait; and when they do little, it may be the credit."""
    planted = Planted(vertices=vertices(own_thread=True)).all_busy(1, busy=0.6, waiting=0.3)
    assert judge(planted.all_sampled({FRAMEWORK: 5}, idle=95).seen()) is None
    finding = found(planted.all_busy(1, busy=0.3, waiting=0.9))
    assert (finding.kind, finding.figures["load"]) == (Kind.CREDIT, pytest.approx(0.3))


def test_a_receiver_of_which_nothing_is_known_is_not_idle() -> None:
    """It is just after a restart, or its worker is silent: nothing is said of its credit."""
    seen = Planted(backpressured={0: 0.7}).seen()
    unheard = replace(seen, subtasks=tuple(each for each in seen.subtasks if each.vertex != 1))
    assert judge(unheard) is None
    held = judge(replace(unheard, alignment=HELD))
    assert held is not None
    assert held.kind is Kind.ALIGNMENT
