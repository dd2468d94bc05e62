"""What is judged is what was heard: the plan's graph, rates of workers, alignment of checkpoints."""

from __future__ import annotations

import sys

import pytest
from operator_samples import context

import headgate as hg
from headgate.connectors.collection import collection_source
from headgate.core.bottleneck.activities import activity_of
from headgate.core.bottleneck.evidence import AlignmentSeen, Role
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus, SubtaskRecord, Topology
from headgate.graph.physical import PhysicalPlan
from headgate.metrics import metric_table as table
from headgate.runtime.driver.endpoint.page.job_evidence import ALIGNMENT_MS, alignment_of, evidence_of
from headgate.runtime.driver.endpoint.page.recent_rates import SAMPLES, RecentRates
from headgate.runtime.driver.endpoint.page.worker_rates import WorkerRates
from headgate.runtime.protocol.messages import Counters, Heartbeat
from headgate.runtime.worker.operators.operator_contract import Operator, frames_outward
from headgate.runtime.worker.stack_samples import stack_text

BUSY = table.NUMBERS.index(table.BUSY.at())
IDLE = table.NUMBERS.index(table.IDLE.at())
NOW = 1_000_000


def plan() -> PhysicalPlan:
    """Two subtasks each of a source, and of a chain of function and sink."""
    env = hg.Environment(parallelism=2)
    env.from_collection(["a"], uid="in").rebalance().map(str, uid="work").collect_later(uid="out")
    return env.plan()


def beat(sent_ms: int, cpu_ms: int = 0, gc_us: int = 0) -> Heartbeat:
    """A heartbeat with what a process has used so far."""
    return Heartbeat(1, sent_ms, 1, [], cpu_ms=cpu_ms, gc_us=gc_us)


def record(checkpoint: int, trigger_ms: int, *subtasks: SubtaskRecord, attempt: int = 1) -> CheckpointRecord:
    """A completed checkpoint."""
    status, graph = CheckpointStatus.COMPLETED, Topology((), ())
    return CheckpointRecord(checkpoint, attempt, "periodic", status, trigger_ms, graph, subtasks=subtasks)


def test_shares_of_a_worker_are_those_between_its_heartbeats() -> None:
    """By the worker's own clock; the same heartbeat again is no news."""
    rates, second = WorkerRates(), beat(3_000, 2_500, 600_000)
    assert rates.of_worker(0) is None
    rates.heard({0: beat(1_000, 1_000, 100_000)})
    assert rates.of_worker(0) is None, "one heartbeat says nothing of a rate"
    for _ in range(SAMPLES + 1):
        rates.heard({0: second})
    assert rates.of_worker(0) == (0.75, 0.25)
    rates.clear()
    assert rates.of_worker(0) is None


def test_frequent_heartbeats_do_not_shorten_the_time_of_a_rate() -> None:
    """The newest takes the place of the one before; old ones are forgotten."""
    rates = WorkerRates()
    for number in range(200):
        rates.heard({0: beat(100 * number, 1 + 100 * min(number, 100))})
    assert rates.of_worker(0) == (0.0, 0.0)
    assert len(rates._heard[0]) == SAMPLES


def test_a_system_that_does_not_tell_is_not_known() -> None:
    """Zero for all the time is no measurement."""
    rates = WorkerRates()
    rates.heard({0: beat(1_000)})
    rates.heard({0: beat(3_000)})
    assert rates.of_worker(0) is None


def test_evidence_has_the_graph_and_only_subtasks_that_were_heard() -> None:
    """With the labels that stacks use, and of each worker what is known."""
    rates, workers, running = RecentRates(), WorkerRates(), plan()
    values = [0] * len(table.NUMBERS)
    values[BUSY], values[IDLE] = 300, 700
    rates.heard([Counters(0, 1, values, []), Counters(1, 1, values, [])], 0)
    workers.heard({1: beat(1_000, 1, 0)})
    workers.heard({1: beat(2_000, 501, 250_000)})
    old = AlignmentSeen(7, 0, 0.5, 1)
    seen = evidence_of(
        running, rates, workers, 0, credit_initial=2, process_of=str, alignment=old, stacks={1: {"a": 2}}
    )
    assert [each.name for each in seen.vertices] == ["in", "work -> out"]
    assert [each.senders for each in seen.vertices] == [(), (0,)]
    roles = [operator.role for each in seen.vertices for operator in each.operators]
    assert roles == [Role.SOURCE, Role.FUNCTION, Role.SINK]
    assert seen.vertices[1].operators[0].label == "operator 'map' (uid 'work')"
    assert [(each.vertex, each.worker, each.busy) for each in seen.subtasks] == [(0, 1, 0.3), (1, 1, 0.3)]
    (worker,) = seen.workers
    assert (worker.cpu, worker.garbage, worker.stacks, worker.process) == (0.5, 0.25, {"a": 2}, "1")
    assert seen.load(worker) == 1.0, "samples without an idle one"
    assert (seen.credit_initial, seen.alignment) == (2, None), "the vertex is not in this plan"


class Sampled(Operator):
    """Says how its stack is written down."""

    def stack(self) -> str:
        return stack_text(list(frames_outward(sys._getframe())))


@pytest.mark.parametrize("name", ["in; out", f"json files {'/a/long/path' * 20}", "ä" * 300])
def test_operators_are_known_by_the_names_that_stacks_have(name: str) -> None:
    """Also by long ones, as of sources by default, and with what separates the calls of a stack."""
    env = hg.Environment(parallelism=1)
    for uid in ("in", "in2"):
        env.from_source(collection_source(["a"]), name=name, uid=uid).print()
    seen = evidence_of(env.plan(), RecentRates(), WorkerRates(), 0, credit_initial=4)
    labels = [vertex.operators[0].label for vertex in seen.vertices]
    stacks = [Sampled(context(uid, name=name)).stack() for uid in ("in", "in2")]
    assert [activity_of(stack).label for stack in stacks] == labels
    assert len(set(labels)) == 2


def test_the_load_of_a_worker_without_samples_is_what_its_subtasks_do() -> None:
    """Those that work in threads of their own do not take the loop's time."""
    rates = RecentRates()
    values = [0] * len(table.NUMBERS)
    values[BUSY], values[IDLE] = 300, 700
    rates.heard([Counters(0, 0, values, []), Counters(1, 0, values, [])], 0)
    seen = evidence_of(plan(), rates, WorkerRates(), 0, credit_initial=4)
    assert seen.load(seen.workers[0]) == pytest.approx(0.6)
    assert seen.workers[0].cpu is None


def test_alignment_is_that_of_the_worst_subtask_over_the_newest_checkpoints() -> None:
    """Its share of the time since the first of them, and the sender whose barrier came last most often."""
    worst = [SubtaskRecord(1, 0, 5, alignment_ms=900.0, slowest_channel=name) for name in ("a[0]", "b[1]")]
    little = SubtaskRecord(1, 1, 5, alignment_ms=100.0, slowest_channel="c[0]")
    records = [
        record(1, NOW - ALIGNMENT_MS - 1, SubtaskRecord(1, 1, 5, alignment_ms=9_000.0)),
        record(2, NOW - 4_000, worst[0], little),
        record(3, NOW - 3_000, worst[1]),
        record(4, NOW - 2_000, worst[1]),
    ]
    assert alignment_of(records, NOW) == AlignmentSeen(1, 0, 0.675, 3, "b[1]")


def test_checkpoints_of_an_earlier_attempt_do_not_count() -> None:
    """And none at all is no alignment."""
    before = record(1, NOW - 2_000, SubtaskRecord(1, 0, 5, alignment_ms=900.0))
    after = record(2, NOW - 1_000, attempt=2)
    assert alignment_of([], NOW) is None
    assert alignment_of([before, after], NOW) is None
    assert alignment_of([record(3, NOW, SubtaskRecord(1, 0, 5, alignment_ms=50.0))], NOW) is not None
