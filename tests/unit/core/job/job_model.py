"""A model of everything around a job's machine: it says what may happen next, and checks every effect.

Two workers, two tasks, one restart, at most one rescale, stop, cancel, fence and lost peer. Time passes only
as "the earliest deadline fires". Late and repeated messages are part of the alphabet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from headgate.core.execution import JobEnd
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.machine import JobMachine
from headgate.core.job.state import Asked, Failure, JobLimits, OutcomeKind, Plan, Storage
from headgate.core.job.table import ROWS, Phase, Row
from headgate.core.restart_strategies import FixedDelay, restart_strategy

BROKEN, WRONG = Failure("broken"), Failure("wrong use", restart_may_help=False)
PEER, FENCED = Failure("a peer is lost"), Failure("another driver leads")
ONE, TWO, TWO_AGAIN = Plan("one", 1, 1), Plan("two", 2, 2), Plan("two again", 2, 2)
LIMITS = JobLimits(redeploy_ms=5_000, rescale_ms=3_000, heartbeat_ms=8_000)
STRANGE = 900
TICKET, STOP = 1, 2
ANSWERS = {"slots": v.SlotsCounted, "saved": v.Saved, "fits": v.Fits}
REPLIES = {e.MakePlan: "plan", e.CountSlots: "slots", e.TakeCheckpoint: "saved", e.CheckFit: "fits"}

Move = tuple[str, ...]


T = TypeVar("T")
SLOTS: dict[type, list[str]] = {}
"""Class -> its attributes in slots."""


@dataclass(frozen=True)
class Case:
    """What is asked of the job while it lives.

    Attributes:
        plan: that a rescale asks for.
        from_last: whether it may go on from the last checkpoint.
        restarts: that the strategy allows.
        asks: how often each of rescale, stop, cancel, fence and lost peer comes at most.
        symmetric: whether workers and tasks that nothing tells apart take their turns in order.
        limits: how long things may take.
        delay_ms: that a restart waits.
    """

    plan: Plan = ONE
    from_last: bool = True
    restarts: int = 1
    asks: int = 1
    symmetric: bool = True
    limits: JobLimits = LIMITS
    delay_ms: int = 1_000


@dataclass(frozen=True)
class World:
    """What the shell and the outside know; the part of a node beside the machine."""

    gang: int = 0
    slots: int = 0
    gangs: int = 0
    gang_is: str = "gone"
    links: frozenset[int] = frozenset()
    lost: bool = False
    plan: Plan = TWO
    attempts: int = 0
    active: int = 0
    begun: bool = False
    deployed: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    checkpoints: bool = False
    final: bool = False
    point: str | None = None
    work: str = ""
    storage: Storage = Storage.QUIET
    reply: str = ""
    adopted: bool = False
    before: Plan = TWO
    answered: int = 0
    stop: int = 0
    rescales: int = 0
    cancels: int = 0
    fences: int = 0
    peers: int = 0
    interrupted: int = 0
    given_up: bool = False
    leaving: bool = False
    over: bool = False


@dataclass
class Path:
    """The moves that led to a node, the last one first."""

    move: Move
    before: Path | None

    def __str__(self) -> str:
        path, moves = self.before, [self.move]
        while path is not None:
            moves.append(path.move)
            path = path.before
        return ", ".join("/".join(move) for move in reversed(moves))


@dataclass
class Node:
    core: JobMachine
    world: World
    now: int = 0
    path: Path | None = None

    def key(self) -> tuple[object, ...]:
        return self.core.describe(self.now), self.world


def first(case: Case) -> Node:
    """A job that was created a moment ago."""
    strategy = restart_strategy(FixedDelay(case.restarts, case.delay_ms), lambda low, _: low)
    return Node(JobMachine("job", TWO, case.limits, strategy), World())


def twin(thing: T) -> T:
    """An object of its own with the same attributes, several times as quick as `copy.copy`."""
    kind = type(thing)
    made: T = object.__new__(kind)
    slots = SLOTS.get(kind)
    if slots is None:
        slots = SLOTS[kind] = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    for name in slots:
        object.__setattr__(made, name, getattr(thing, name))
    if hasattr(thing, "__dict__"):
        made.__dict__.update(thing.__dict__)
    return made


def replace(world: World, **changes: object) -> World:
    """The outside with changes; `dataclasses.replace` would look at every field."""
    made = twin(world)
    made.__dict__.update(changes)
    return made


def clone(core: JobMachine) -> JobMachine:
    """A machine of its own in the same state; `copy.deepcopy` would take most of a search's time."""
    made = twin(core)
    job = made._job = twin(core._job)
    job.life = twin(job.life)
    job.life._history = job.life._history.copy()
    job.strategy, job.same, job.monitor = map(twin, (job.strategy, job.same, job.monitor))
    job.monitor._watched = {slot: twin(watch) for slot, watch in job.monitor._watched.items()}
    job.stops, job.taken = set(job.stops), []
    job.rescale, job.outcome = job.rescale and twin(job.rescale), job.outcome and twin(job.outcome)
    attempt = job.attempt = job.attempt and twin(job.attempt)
    if attempt is not None:
        attempt.deployed, attempt.idle = set(attempt.deployed), set(attempt.idle)
        attempt.data_ended = set(attempt.data_ended)
    gang = job.gang = job.gang and twin(job.gang)
    if gang is not None:
        gang.registered, gang.lost = dict(gang.registered), set(gang.lost)
    return made


# -- what may happen ---------------------------------------------------------------------------------


def moves(node: Node, case: Case) -> Iterator[Move]:
    """Everything that may happen next."""
    world = node.world
    if world.attempts == 0 and not world.work and not world.leaving and node.core.phase is Phase.CREATED:
        yield ("submit",)
    yield from _of_workers(world, case)
    yield from _of_attempts(world, case)
    yield from _of_storage(world)
    yield from _asked(world, case)
    if node.core.next_wakeup() is not None:
        yield ("tick",)


def _of_workers(world: World, case: Case) -> Iterator[Move]:
    for slot in range(world.slots):
        link = 10 * world.gang + slot
        if link in world.links:
            yield "link", str(world.gang), str(slot)
            yield "beat", str(world.gang), str(slot)
        if not case.symmetric or slot == 0 or link - 1 in world.links or world.lost:
            yield "register", str(world.gang), str(slot)
    for gang in range(max(1, world.gangs - 1), world.gangs + 1):
        yield "exit", str(gang)
    if world.gangs > 1:
        yield "register", str(world.gangs - 1), "0"


def _of_attempts(world: World, case: Case) -> Iterator[Move]:
    for attempt in range(max(1, world.attempts - 1), world.attempts + 1):
        for slot in range(world.plan.slots):
            yield from _of_a_slot(world, case, str(attempt), slot)
        yield "stray", str(attempt), "0"
        yield "failed", str(attempt)
        yield "wrong", str(attempt)
        if world.final or world.stop:
            yield "done", str(attempt)


def _of_a_slot(world: World, case: Case, attempt: str, slot: int) -> Iterator[Move]:
    in_turn = not case.symmetric or slot == 0 or world.lost
    if in_turn or slot - 1 in world.deployed:
        yield "deployed", attempt, str(slot)
    if in_turn or slot - 1 in world.ended:
        yield "ended", attempt, str(slot)
    if in_turn or slot - 1 in world.idle:
        yield "idle", attempt, str(slot)


def _of_storage(world: World) -> Iterator[Move]:
    if world.work == "find":
        yield from (("found", "own"), ("found", "none"))
    if world.work == "commit":
        yield ("committed",)
    if world.work:
        yield from (("point failed",), ("point wrong",))
    if world.checkpoints and world.storage is not Storage.STORING:
        yield ("storage", "STORING")
    if world.storage is not Storage.QUIET:
        yield ("storage", "QUIET")
    if world.storage is Storage.QUIET and world.begun:
        yield ("storage", "BUSY")


def _asked(world: World, case: Case) -> Iterator[Move]:
    if world.rescales < case.asks and not world.reply and world.answered == world.rescales:
        yield ("rescale",)
    if world.reply:
        yield from ((world.reply,), (world.reply, "not"))
    elif world.answered:
        yield from (("late", kind) for kind in ("plan", *ANSWERS))
    if world.reply == "plan":
        yield ("plan", "same")
    if world.stop == 0 and world.checkpoints:
        yield ("stop",)
    elif world.stop == 1:
        yield ("stopped",)
    if world.cancels < case.asks:
        yield ("cancel",)
    if world.fences < case.asks:
        yield ("fence",)
    if world.peers < case.asks:
        for attempt in range(max(1, world.attempts - 1), world.attempts + 1):
            yield "peer", str(attempt)


# -- one event ---------------------------------------------------------------------------------------


def step(node: Node, case: Case, move: Move, own: JobMachine | None = None) -> Node:
    """The node after one event, with every effect and every invariant checked. `own` is a copy of the node's
    machine that may be changed; None: one is made.
    """
    core, world, now = own or clone(node.core), node.world, node.now
    if move == ("tick",):
        due = core.next_wakeup()
        assert due is not None
        now = max(now, due)
        effects = core.tick(now)
        later = core.next_wakeup()
        assert later is None or later > now, "a deadline fires once"
    else:
        world, event = happened(node, case, move)
        effects = core.handle(event, now)
    allowed = {name for row in core.rows for name in ROWS[row].effects}
    assert {type(effect).__name__ for effect in effects} <= allowed, "the table allows every effect"
    if Row.TAKEN_FOR_EXITED in core.rows:
        assert world.gang_is == "cancelled", "only a cancelled gang is taken for gone"
        world = without_gang(world)
    world = absorb(world, effects)
    if world.leaving:  # what else is asked for changes nothing any more
        world = replace(world, stop=2, peers=1, rescales=1, answered=1)
    core.validate()
    agree(core, world)
    before, gang = node.core._job.gang, core._job.gang
    if before is not None and gang is not None and before.asked is gang.asked is not Asked.NOTHING:
        assert before.due_ms == gang.due_ms, "no wait begins anew"
    return Node(core, world, now, Path(move, node.path))


def happened(node: Node, case: Case, move: Move) -> tuple[World, v.Event]:
    """The outside after a move, and the event that the machine gets."""
    world, kind, rest = node.world, move[0], move[1:]
    if kind in ("register", "link", "beat", "exit"):
        return _worker(world, kind, *map(int, rest), link=STRANGE)
    if kind in ("deployed", "ended", "idle", "stray", "failed", "wrong", "done", "peer"):
        return _attempt(world, kind, *map(int, rest))
    if kind in ("found", "committed", "point failed", "point wrong", "storage"):
        return _background(world, kind, *rest)
    if kind in ("plan", "slots", "saved", "fits"):
        failure = WRONG if rest == ("not",) else None
        world = replace(world, reply="")
        if kind == "plan":
            plan = None if rest or world.plan == case.plan else case.plan
            return world, v.PlanMade(world.rescales, plan, failure)
        return world, ANSWERS[kind](world.rescales, failure)
    if kind == "late":
        late = ANSWERS.get(rest[0])
        return world, late(world.answered) if late else v.PlanMade(world.answered, case.plan)
    return _wanted(world, case, kind)


def _worker(world: World, kind: str, gang: int, slot: int = 0, link: int = 0) -> tuple[World, v.Event]:
    own = 10 * gang + slot
    if kind == "register":
        fresh = gang == world.gang and world.gang_is == "alive" and own not in world.links and not world.lost
        return world, v.Registered(gang, slot, own if fresh else link)
    if kind == "link":
        return world, v.LinkLost(gang, slot)
    if kind == "beat":
        return world, v.Beat(gang, slot, 0)
    return without_gang(world) if gang == world.gang else world, v.GangExited(gang, "gone")


def without_gang(world: World) -> World:
    none: frozenset[int] = frozenset()
    return replace(world, gang=0, slots=0, gang_is="gone", links=none, idle=none, lost=False)


def _attempt(world: World, kind: str, attempt: int, slot: int = 0) -> tuple[World, v.Event]:
    mine = attempt == world.active and world.begun
    if kind == "deployed":
        if mine and 10 * world.gang + slot in world.links:
            world = replace(world, deployed=world.deployed | {slot})
        return world, v.Deployed(attempt, slot)
    if kind == "ended":
        if mine:
            world = replace(world, ended=world.ended | {slot})
        return world, v.DataEnded(attempt, (0, slot))
    if kind in ("idle", "stray"):
        if attempt == world.attempts and kind == "idle" and not world.active and world.gang_is == "alive":
            world = replace(world, idle=world.idle | {slot})
        return world, v.Idle(attempt, slot, ("users",) if kind == "stray" else ())
    if kind == "done":
        done = attempt == world.active and world.checkpoints
        return replace(world, leaving=world.leaving or done), v.JobDone(attempt)
    if kind == "peer":
        return replace(world, peers=world.peers + mine), v.PeerLost(attempt, PEER)
    return world, v.AttemptFailed(attempt, BROKEN if kind == "failed" else WRONG)


def _background(world: World, kind: str, what: str = "") -> tuple[World, v.Event]:
    if kind == "storage":
        return replace(world, storage=Storage[what]), v.StorageChanged(Storage[what])
    world = replace(world, work="")
    if kind == "found":
        return world, v.PointFound(what if what == "own" else None)
    if kind == "committed":
        return world, v.PointCommitted()
    return world, v.PointFailed(BROKEN if kind == "point failed" else WRONG)


def _wanted(world: World, case: Case, kind: str) -> tuple[World, v.Event]:
    if kind == "submit":
        return world, v.Submit("start")
    if kind == "cancel":
        return replace(world, cancels=world.cancels + 1, leaving=True), v.Cancel()
    if kind == "fence":
        return replace(world, fences=world.fences + 1, leaving=True), v.Fenced(FENCED)
    if kind == "stop":
        return replace(world, stop=1), v.StopAsked(STOP)
    if kind == "stopped":
        return replace(world, stop=2), v.StopEnded(STOP)
    assert kind == "rescale"
    number = world.rescales + 1
    return replace(world, rescales=number), v.RescaleAsked(number, case.plan.slots, case.from_last)


# -- the effects -------------------------------------------------------------------------------------


def absorb(world: World, effects: Iterable[e.Effect]) -> World:
    """Perform effects on the model of the shell, checking each."""
    for effect in effects:
        assert not world.over or isinstance(effect, (e.CloseLink, e.Answer, e.Report)), (
            "nothing after the end"
        )
        world = _CHECKS[type(effect)](world, effect)
    return world


def _submit_gang(world: World, effect: e.SubmitGang) -> World:
    assert world.gang_is == "gone", "one gang at a time"
    assert (effect.gang, effect.slots) == (world.gangs + 1, world.plan.slots)
    assert not world.work, "the point is committed first"
    assert not world.active, "the last attempt is over"
    assert not world.leaving, "who leaves starts nothing"
    number = world.attempts + 1
    world = replace(
        world, gang=effect.gang, gangs=effect.gang, slots=effect.slots, gang_is="alive", lost=False
    )
    return replace(world, active=number, attempts=number, begun=False)


def _cancel_gang(world: World, effect: e.CancelGang) -> World:
    assert effect.gang == world.gang, "only a living gang is cancelled"
    assert world.gang_is in ("alive", "leaving"), "a gang is cancelled once"
    assert not world.active, "its attempt ends first"
    return replace(world, gang_is="cancelled", links=frozenset(), idle=frozenset())


def _admit(world: World, effect: e.AdmitWorker) -> World:
    assert (effect.gang, world.gang_is) == (world.gang, "alive")
    assert effect.link == 10 * effect.gang + effect.slot, "not a stranger"
    assert effect.link not in world.links
    return replace(world, links=world.links | {effect.link})


def _close(world: World, effect: e.CloseLink) -> World:
    assert effect.link >= STRANGE or effect.link in world.links or effect.link // 10 != world.gang
    return replace(world, links=world.links - {effect.link}, lost=world.lost or effect.link in world.links)


def _answer_beat(world: World, effect: e.AnswerBeat) -> World:
    assert 10 * effect.gang + effect.slot in world.links, "who was given up gets no answer"
    return world


def _begin(world: World, effect: e.BeginAttempt) -> World:
    assert world.gang_is == "alive"
    assert len(world.links) == world.slots == effect.plan.slots, "every slot has its worker"
    assert (effect.gang, effect.plan, effect.point) == (world.gang, world.plan, world.point)
    assert not world.work, "the point is committed first"
    if not world.active:
        assert world.idle >= set(range(world.slots)), "living workers have dropped the last attempt"
        world = replace(world, active=world.attempts + 1, attempts=world.attempts + 1)
    assert effect.attempt == world.active
    none: frozenset[int] = frozenset()
    return replace(world, begun=True, deployed=none, idle=none, ended=none, final=False)


def _stop(world: World, effect: e.Stop) -> World:
    assert (effect.gang, effect.attempt, world.gang_is) == (world.gang, world.attempts, "alive")
    assert not world.active, "it has ended"
    return replace(world, idle=frozenset())


def _let_leave(world: World, effect: e.LetLeave) -> World:
    assert (effect.gang, world.gang_is, world.active) == (world.gang, "alive", 0)
    assert len(world.links) == world.slots, "who is not whole is cancelled"
    return replace(world, gang_is="leaving", idle=frozenset())


def _end_attempt(world: World, effect: e.EndAttempt) -> World:
    assert effect.attempt == world.active, "an attempt ends once"
    assert not world.checkpoints, "its checkpoints are suspended first"
    none: frozenset[int] = frozenset()
    return replace(world, active=0, begun=False, deployed=none, ended=none, final=False)


def _start_checkpoints(world: World, effect: e.StartCheckpoints) -> World:
    assert (effect.attempt, world.checkpoints, world.begun) == (world.active, False, True)
    assert world.deployed == set(range(world.slots)), "all subtasks run"
    return replace(world, checkpoints=True)


def _request_final(world: World, _effect: e.RequestFinal) -> World:
    assert world.checkpoints
    assert not world.final, "asked for once"
    assert len(world.ended) == world.plan.tasks
    return replace(world, final=True)


def _find(world: World, _effect: e.FindPoint) -> World:
    assert not world.work, "one thing at a time"
    assert world.storage is Storage.QUIET, "what is being stored may be the point"
    assert not world.active, "the last attempt is over"
    assert not world.leaving, "who leaves starts nothing"
    rested = world.gang_is == "gone" or world.idle >= set(range(world.slots))
    assert rested, "no worker of the last attempt may still write"
    return replace(world, work="find")


def _commit(world: World, effect: e.CommitPoint) -> World:
    assert not world.work, "never two at once"
    assert not world.active
    assert effect.point in ("start", "own")
    return replace(world, work="commit", point=effect.point)


def _end_checkpoints(world: World, effect: e.EndCheckpoints) -> World:
    assert world.gang_is == "gone", "its workers are gone"
    assert world.storage is not Storage.STORING, "it is known what became of the last store"
    assert world.rescales == world.answered, "everybody is answered"
    assert (effect.how is JobEnd.SUSPENDED) == (world.interrupted > 0)
    return replace(world, over=True)


def _reply(world: World, effect: e.MakePlan | e.CountSlots | e.TakeCheckpoint | e.CheckFit) -> World:
    assert (effect.ticket, world.reply) == (world.rescales, "")
    assert world.answered < world.rescales
    assert not isinstance(effect, e.TakeCheckpoint) or world.checkpoints
    return replace(world, reply=REPLIES[type(effect)])


def _adopt(world: World, effect: e.AdoptPlan) -> World:
    assert not world.active, "nothing runs while the plan changes"
    assert world.answered < world.rescales
    assert not world.adopted or effect.plan == world.before, "there, or back"
    assert world.adopted or world.stop != 1, "no attempt ends under a stop"
    return replace(world, plan=effect.plan, before=world.plan, adopted=not world.adopted)


def _answer(world: World, effect: e.Answer) -> World:
    assert (effect.ticket, world.answered) == (world.rescales, world.rescales - 1), "answered once"
    assert effect.refusal is not None or world.checkpoints or not world.adopted, "done means that it runs"
    adopted = world.adopted and effect.refusal is not None and not world.leaving
    assert not adopted, "refused means that the old plan is back"
    return replace(world, answered=world.answered + 1, adopted=False, before=TWO, reply="")


def _interrupt(world: World, _effect: e.InterruptCommits) -> World:
    assert world.interrupted < world.fences
    return replace(world, interrupted=world.interrupted + 1)


def _report(world: World, effect: e.Report) -> World:
    fact = effect.fact
    if isinstance(fact, e.Failing) and fact.restart_in_ms is None:
        assert not world.given_up, "a job fails once"
        return replace(world, given_up=True, leaving=True)
    assert not isinstance(fact, e.Ended) or world.over
    return world


def _suspend(world: World, _effect: e.SuspendCheckpoints) -> World:
    assert world.active, "an attempt ends"
    return replace(world, checkpoints=False)


_CHECKS = {
    e.SubmitGang: _submit_gang,
    e.CancelGang: _cancel_gang,
    e.AdmitWorker: _admit,
    e.CloseLink: _close,
    e.AnswerBeat: _answer_beat,
    e.BeginAttempt: _begin,
    e.Stop: _stop,
    e.LetLeave: _let_leave,
    e.EndAttempt: _end_attempt,
    e.StartCheckpoints: _start_checkpoints,
    e.SuspendCheckpoints: _suspend,
    e.RequestFinal: _request_final,
    e.FindPoint: _find,
    e.CommitPoint: _commit,
    e.InterruptCommits: _interrupt,
    e.EndCheckpoints: _end_checkpoints,
    e.MakePlan: _reply,
    e.CountSlots: _reply,
    e.TakeCheckpoint: _reply,
    e.CheckFit: _reply,
    e.AdoptPlan: _adopt,
    e.Answer: _answer,
    e.Report: _report,
}


def agree(core: JobMachine, world: World) -> None:
    """The machine and the outside know the same."""
    job = core._job
    assert (core.phase is Phase.OVER) == world.over
    assert (0 if job.gang is None else job.gang.number) == world.gang
    assert (job.work is not None) == bool(world.work)
    assert job.plan == world.plan
    assert core.attempt == world.attempts
    outcome = core.outcome
    if outcome is not None and outcome.kind is OutcomeKind.FAILED:
        assert world.given_up


# -- whole lives -------------------------------------------------------------------------------------


def follow(case: Case, path: Iterable[str]) -> Node:
    """The node after some moves, each written as its words joined by "/"."""
    node = first(case)
    for text in path:
        node = step(node, case, tuple(text.split("/")))
    return node
