"""One seed, one random plan on a gang of workers in a random order, with checkpoints, kills and rescales."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from headgate.api.jobs.executor_contract import JobSpec
from headgate.api.sink import Lineage
from headgate.common.ids import AttemptId, CheckpointId
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.checkpoint.effects import Finalize, RequestKind
from headgate.graph.logical import SourceNode
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.master.attempt.deployment import Deployment
from headgate.runtime.master.checkpoints.checkpoint_contents import CheckpointContents
from headgate.runtime.protocol import messages as m
from headgate.state.snapshots import SubtaskSnapshot
from headgate.testing.simulation.invariants import Violation
from headgate.testing.simulation.simulated_jobs import job_of
from headgate.testing.simulation.virtual_disk import URI, SimFiles
from sim.plans.drawing import draw_plan
from sim.plans.gang import JOB, Lanes, Slot, VirtualClock
from sim.plans.logs import limits_of_log, logs_early
from sim.plans.plan import Plan
from sim.plans.program import build
from sim.plans.queries import Answers
from sim.plans.stories import PARTS, STORIES, Entry, StorySink
from sim.plans.watching import PlanOutcome, Watch
from sim.topology_runs import MODES

TURNS_MAX: Final = 60_000
SAVEPOINTS: Final = 0.2
"""Of the checkpoints of a job that may be killed, the share that are savepoints with which it stops."""
CALM_AFTER: Final = 20_000
"""Turns after which nothing is killed any more."""
ABORTED_MS: Final = 100
"""Age (virtual ms) up to which a checkpoint may be aborted."""
STUCK_MS: Final = 2_000
"""Age (virtual ms) at which a checkpoint should long be complete."""
RESTORES_MAX: Final = 4


def run_plan(seed: int, mode: str | None = None, plan: Plan | None = None) -> PlanOutcome:
    """Run the plan of a seed, and compare what its sinks get with DuckDB.

    Args:
        seed: decides the plan, the order of events and the kills.
        mode: one of `MODES`; None: as the seed draws.
        plan: instead of the one that the seed draws.
    """
    rng = random.Random(f"{seed} order")
    drawn = rng.choice(("aligned", "aligned", "unaligned", "unaligned", "timeout", "at-least-once"))
    outcome = PlanOutcome(seed, plan or draw_plan(seed), mode or drawn)
    answers = Answers(outcome.plan)
    try:
        with limits_of_log(seed):
            PlanRun(outcome, answers, rng).carry_out()
    except Violation as found:
        outcome.violation = str(found)
    finally:
        answers.close()
    return outcome


class PlanRun:
    """A run: deals out turns to workers and lanes, takes checkpoints, kills all workers, restores them."""

    def __init__(self, outcome: PlanOutcome, answers: Answers, rng: random.Random) -> None:
        self.outcome, self.plan, self._rng = outcome, outcome.plan, rng
        self._clock, self._files = VirtualClock(), SimFiles()
        self._width = None if rng.random() < 0.15 else 1
        self._settings = {
            "execution.mark-interval": rng.choice(("5ms", "10ms", "10ms", "25ms")),
            "execution.checkpointing.mode": "EXACTLY_ONCE",
            "taskmanager.network.credit-initial": rng.choice((1, 2, 4)),
            "execution.buffer-timeout": rng.choice(("0ms", "2ms", "5ms")),
            "execution.checkpointing.data-inline-threshold": rng.choice(("0b", "20kb")),
            "pipeline.max-parallelism": 8,
            **MODES[outcome.mode],
        }
        if logs_early(outcome.seed):
            self._settings["execution.checkpointing.data-inline-threshold"] = "0b"
        self._may_kill = outcome.mode != "at-least-once" and rng.random() < 0.6
        self._stops = random.Random(f"{outcome.seed} savepoints")
        self._tempo = rng.choice((0.05, 0.15, 0.3))
        self._attempt = self._checkpoint = self._triggered = 0
        self._point: RestorePoint | None = None
        self._jobs: dict[int, tuple[JobSpec, bytes]] = {}  # by parallelism
        self._committed: dict[str, list[list[Entry]]] = {uid: [] for uid in self.plan.sinks}
        self._seen: set[int] = set()
        self._watches = {uid: Watch(outcome, uid, answers, alone=self._width == 1) for uid in self.plan.sinks}
        PARTS.clear()

    def carry_out(self) -> None:
        """Run to the end; Violation: something was wrong."""
        self._deploy()
        turns = 0
        while not self._over:
            turns += 1
            if turns > TURNS_MAX:
                raise Violation("no progress")
            self._turn(turns < CALM_AFTER)
        for watch in self._watches.values():
            watch.ended(self._committed[watch.uid])

    def _deploy(self) -> None:
        self._job, program = self._job_at(self._rng.choice((1, 2, 2, 3)))
        plan, self._alignment = self._job.plan, job_settings(self._job.config).alignment
        self._attempt += 1
        self._contents = CheckpointContents(JOB, "plans", 1, plan)
        for uid in self.plan.sinks:
            STORIES[uid] = {}
        self._lanes = Lanes()
        self._slots = [
            Slot(number, self._clock, self._lanes, self._files, self._received)
            for number in range(plan.slots)
        ]
        self._asked, self._given = set[tuple[int, int]](), set[tuple[int, int]]()  # by readers, to readers
        self._running = self._ended = 0
        self._pending: dict[tuple[int, int], SubtaskSnapshot] | None = None
        self._over = self._last = self._stopped = False
        peers = dict.fromkeys(range(plan.slots), "memory")
        deployment = Deployment(self._attempt, 1, program, peers, URI, None)
        for slot, message in deployment.messages(plan, self._point).items():
            self._slots[slot].handle(message)
        self._subtasks = sum(vertex.parallelism for vertex in plan.vertices)
        self._known = self._point is not None
        for watch in self._watches.values():
            watch.begins(self._committed[watch.uid])

    def _job_at(self, parallelism: int) -> tuple[JobSpec, bytes]:
        """The job and its program as it is shipped; building both takes a third of a run."""
        if parallelism not in self._jobs:
            job, _ = job_of(
                lambda env: build(self.plan, env, StorySink, self._width),
                "plans",
                parallelism,
                self._settings,
            )
            worker = job_settings(job.config).worker
            shipped = Program(JOB, job.plan, worker, job.record_types).to_bytes()
            self._jobs[parallelism] = job, shipped
        return self._jobs[parallelism]

    def _turn(self, wild: bool) -> None:
        rng = self._rng
        if self._stopped:  # with a savepoint
            self.outcome.restores += 1
            self._deploy()
        if rng.random() < 0.025 and wild and not self._last:
            self._fault()
        lanes = self._lanes.waiting()
        slots = [slot for slot in self._slots if slot.may_work]
        if (lanes or slots) and rng.random() >= self._tempo:
            at = rng.randrange(len(lanes) + len(slots))
            if at < len(lanes):
                sender, receiver = lanes[at]
                self._slots[receiver].data.arrived.append((sender, self._lanes.queues[lanes[at]].popleft()))
            else:
                slots[at - len(lanes)].step()
                for watch in self._watches.values():
                    watch.look()
            return
        if not lanes and not slots and self._ended == self._subtasks and self._pending is None:
            self._last = True
            self._trigger()
            return
        self._clock.now += rng.choice((1, 1, 2, 5))

    def _fault(self) -> None:
        rng, age = self._rng, self._clock.now - self._triggered
        if self._pending is None:
            if rng.random() < 0.6 and self._answered and self._running == len(self._slots):
                self._trigger()
        elif age < ABORTED_MS and self._barrier.savepoint is None and rng.random() < 0.1:
            self._pending = None
            self._tell_all(m.CheckpointAborted(self._attempt, self._checkpoint))
        elif age > STUCK_MS:
            raise Violation(f"checkpoint {self._checkpoint} is not complete after {age} ms")
        stuck = self._pending is not None and age > ABORTED_MS
        if self._may_kill and not stuck and rng.random() < 0.4 and self.outcome.restores < RESTORES_MAX:
            self.outcome.restores += 1
            self._deploy()

    @property
    def _answered(self) -> bool:
        """Whether all readers know their splits, so that the enumerators hold none."""
        sources = {
            (vertex.id, subtask)
            for vertex in self._job.plan.vertices
            if isinstance(vertex.chain[0], SourceNode)
            for subtask in range(vertex.parallelism)
        }
        return self._known or sources <= self._given

    def _trigger(self) -> None:
        self._checkpoint += 1
        self._pending = {}
        self._triggered = now = self._clock.now
        latest = CheckpointId(0 if self._point is None else self._point.checkpoint.checkpoint)
        savepoint = self._savepoint()
        self._barrier = barrier = self._alignment.barrier(self._checkpoint, now, savepoint, latest)
        how = barrier.alignment.value, barrier.timeout_ms, barrier.savepoint, barrier.completed
        self._tell_all(m.Trigger(self._attempt, self._checkpoint, now, *how))

    def _tell_all(self, message: m.ToWorker) -> None:
        """Send a message to all workers, which get it when they have their next turn."""
        for slot in self._slots:
            slot.posted.append(self._telling(slot, message))

    def _savepoint(self) -> SavepointOrder | None:
        """Of some jobs: they stop with a savepoint, and go on from it."""
        if self._last or not self._may_kill or self._stops.random() > SAVEPOINTS:
            return None
        form = self._stops.choice(("canonical", "native"))
        return SavepointOrder(f"{URI}/savepoint-{self._checkpoint}", form, stop=True)

    def _received(self, message: Any) -> None:
        if getattr(message, "attempt", None) != self._attempt:
            return
        match message:
            case m.Deployed():
                self._running += 1
            case m.TaskFailed():
                raise Violation(f"a subtask failed: {message.kind}: {message.arguments}")
            case m.RequestSplits():
                self._give(message.vertex, message.subtask)
            case m.DataEnded():
                self._ended += 1
            case m.Acknowledge() if self._pending is not None and message.checkpoint == self._checkpoint:
                self._pending[message.snapshot.vertex, message.snapshot.subtask] = message.snapshot
                if len(self._pending) == self._subtasks:
                    self._complete(self._pending)
            case m.Decline() if self._pending is not None and message.checkpoint == self._checkpoint:
                self._pending = None
                self._tell_all(m.CheckpointAborted(self._attempt, self._checkpoint))

    def _telling(self, slot: Slot, message: m.ToWorker) -> Callable[[], None]:
        return lambda: slot.handle(message)

    def _give(self, vertex: int, subtask: int) -> None:
        """The first answer has all splits of a reader, the second says that there are no more."""
        splits: list[tuple[str, Any]] | None = None
        if not self._known and (vertex, subtask) not in self._asked:
            self._asked.add((vertex, subtask))
            chosen = self._job.plan.vertices[vertex]
            uid = str(chosen.chain[0].uid)
            size, rows = self.plan.splits[uid], len(self.plan.rows[uid])
            count = -(-rows // size)
            splits = [(str(at), at * size) for at in range(subtask, count, chosen.parallelism)]
        slot = self._slots[subtask]
        answers = [m.AssignSplits(self._attempt, vertex, subtask, splits)] if splits else []
        answers.append(m.AssignSplits(self._attempt, vertex, subtask, None))
        for answer in answers:
            slot.posted.append(self._telling(slot, answer))
        slot.posted.append(lambda: self._given.add((vertex, subtask)))

    def _complete(self, snapshots: dict[tuple[int, int], SubtaskSnapshot]) -> None:
        in_order = tuple(snapshots[key] for key in sorted(snapshots))
        order = self._barrier.savepoint
        kind = RequestKind.PERIODIC if order is None else RequestKind.STOP
        effect = Finalize(CheckpointId(self._checkpoint), AttemptId(self._attempt), kind, in_order)
        enumerators = dict.fromkeys(self.plan.inputs, 1 << 20)
        metadata = self._contents.metadata(effect, self._clock.now, enumerators, order, Lineage(str(JOB)))
        self._pending, self._point = None, RestorePoint(metadata, URI if order is None else order.root)
        self.outcome.checkpoints += 1
        for uid in self.plan.sinks:
            parts = [
                part for state in metadata.operators.get(f"out-{uid}", []) for part in state.committables
            ]
            fresh = [part for part in parts if part not in self._seen]
            self._seen.update(fresh)
            self._committed[uid].extend(PARTS[part] for part in fresh)
            self._watches[uid].committed(self._committed[uid], whole=self._barrier.marks)
        self._tell_all(m.CheckpointComplete(self._attempt, self._checkpoint))
        self._over, self._stopped = self._last, order is not None
