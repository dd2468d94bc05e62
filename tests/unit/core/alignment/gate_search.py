"""A search through everything that may happen to a gate: the machinery of `test_gate_search`.

A world is a gate with its handler and a script per channel. Its moves are: the next element of a
channel arrives; arrived barriers are announced; the subtask polls, or polls for control events only;
time passes; the job master gives a checkpoint up. :func:`explore` makes every move in every state,
each state once, and checks the invariants after each move.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple

from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.core.alignment.checkpointed_gate import CheckpointedInputGate, Clocks, Kind
from headgate.core.alignment.handler_contract import (
    AbortSnapshot,
    BarrierHandler,
    CompleteCapture,
    Effect,
    TriggerSnapshot,
)

LATER_MS = 20


class Cancel(NamedTuple):
    """A cancel marker."""

    checkpoint: int


END = "end of partition"
Script = tuple[tuple[Any, ...], ...]
Build = Callable[[int, BarrierHandler], CheckpointedInputGate]


class Violated(Exception):
    """An invariant does not hold; the message begins with its name."""


def kind_of(element: Any) -> Kind:
    """Numbers are records, texts are other events, apart from the end."""
    if isinstance(element, int):
        return Kind.RECORDS
    if isinstance(element, Barrier):
        return Kind.BARRIER
    if isinstance(element, Cancel):
        return Kind.CANCEL
    return Kind.END_OF_PARTITION if element == END else Kind.OTHER


def gate_of(channels: int, handler: BarrierHandler) -> CheckpointedInputGate:
    """The gate under test, with records of 1000 bytes."""
    return CheckpointedInputGate(channels, handler, kind_of, lambda _: 1000)


def is_data(element: Any) -> bool:
    """Whether it may be in flight."""
    return kind_of(element) in (Kind.RECORDS, Kind.OTHER)


class Cut(NamedTuple):
    """What of a triggered checkpoint is known: data read at the trigger and captured, per channel."""

    checkpoint: int
    read: tuple[int, ...] = ()
    captured: tuple[tuple[Any, ...], ...] = ()


class World(NamedTuple):
    """The part of a state that lives beside the gate; `sent` and `read` are positions in the scripts."""

    sent: tuple[int, ...]
    read: tuple[int, ...]
    now: int = 0
    cuts: tuple[Cut, ...] = ()
    running: int | None = None
    aborted: tuple[int, ...] = ()
    given_up: int = 0


@dataclass(frozen=True)
class Case:
    """What is searched.

    Attributes:
        script: what each channel delivers.
        handler: makes a new handler.
        alignment: EXACTLY_ONCE handlers promise more than AT_LEAST_ONCE.
        time: whether time may pass, once.
        give_up: the job master may give up one of these, once.
        forced: channels of which nothing may be captured.
        awaited: channels whose barriers must have arrived before one overtakes.
        lazy: arrived barriers are announced some time later, not on arrival.
        build: makes the gate.
    """

    script: Script
    handler: Callable[[], BarrierHandler]
    exactly_once: bool = True
    time: bool = False
    give_up: tuple[int, ...] = ()
    forced: frozenset[int] = frozenset()
    awaited: frozenset[int] = frozenset()
    lazy: bool = False
    build: Build = gate_of

    def ahead(self, channel: int, checkpoint: int) -> list[Any]:
        """The data of a channel that belongs to a checkpoint."""
        data = []
        for element in self.script[channel]:
            if is_data(element):
                data.append(element)
            elif element == END or element.checkpoint >= checkpoint:
                break
        return data

    def data_read(self, world: World) -> tuple[int, ...]:
        """How many data elements were read, per channel."""
        return tuple(sum(map(is_data, script[:n])) for script, n in zip(self.script, world.read, strict=True))

    def has_come(self, world: World, channel: int, checkpoint: int) -> bool:
        """Whether a channel's barrier has arrived, or its end."""
        sent = self.script[channel][: world.sent[channel]]
        return any(e == END or (isinstance(e, Barrier) and e.checkpoint >= checkpoint) for e in sent)

    @property
    def checkpoints(self) -> set[int]:
        """All checkpoints that have a barrier in the scripts."""
        return {e.checkpoint for script in self.script for e in script if isinstance(e, Barrier)}

    @property
    def cancelled(self) -> set[int]:
        """All checkpoints that have a cancel marker in the scripts."""
        return {e.checkpoint for script in self.script for e in script if isinstance(e, Cancel)}


@dataclass
class Node:
    """A state, and one way to get there."""

    gate: CheckpointedInputGate
    world: World
    path: tuple[Any, ...] = field(default=())


def told(path: tuple[Any, ...]) -> str:
    """The moves of a path, which is linked from its end."""
    moves = []
    while path:
        path, move = path
        moves.append(move)
    return ", ".join(reversed(moves))


def check(name: str, holds: bool, *facts: Any) -> None:
    """One invariant."""
    if not holds:
        raise Violated(f"{name}: {' '.join(map(str, facts))}")


def absorb(case: Case, world: World, effects: Sequence[Effect], taken: list[tuple[int, Any]]) -> World:
    """The world after effects and captured elements; what was captured belongs to the last trigger."""
    completed = None
    for effect in effects:
        if isinstance(effect, TriggerSnapshot):
            world = triggered(case, world, effect.barrier)
        elif isinstance(effect, CompleteCapture):
            check("completes what runs", world.running == effect.checkpoint, effect, world)
            completed, world = effect.checkpoint, world._replace(running=None)
        else:
            assert isinstance(effect, AbortSnapshot)
            done = {cut.checkpoint for cut in world.cuts} - {world.running}
            check("aborted at most once", effect.checkpoint not in world.aborted, effect)
            check("never complete and aborted", effect.checkpoint not in done, effect)
            running = None if world.running == effect.checkpoint else world.running
            world = world._replace(aborted=(*world.aborted, effect.checkpoint), running=running)
    if taken:
        last = world.cuts[-1].checkpoint if world.cuts else None
        check("captured for something", last is not None and last in (world.running, completed), taken)
        cut = world.cuts[-1]
        captured = tuple(
            (*old, *(e for of, e in taken if of == channel)) for channel, old in enumerate(cut.captured)
        )
        world = world._replace(cuts=(*world.cuts[:-1], cut._replace(captured=captured)))
    for cut in world.cuts:
        if cut.checkpoint == completed:
            check_unaligned(case, cut)
    # What was judged is forgotten, so that states that differ only in the past are one.
    cuts = tuple(cut if cut.checkpoint == world.running else Cut(cut.checkpoint) for cut in world.cuts)
    return world._replace(cuts=cuts)


def triggered(case: Case, world: World, barrier: Barrier) -> World:
    """The world after a trigger; an aligned cut is judged at once."""
    checkpoint, read = barrier.checkpoint, case.data_read(world)
    check("triggered at most once", checkpoint not in {cut.checkpoint for cut in world.cuts}, barrier)
    check("not triggered after the abort", checkpoint not in world.aborted, barrier)
    check("not triggered after it was given up", checkpoint != world.given_up, barrier)
    check("ids increase", all(checkpoint > cut.checkpoint for cut in world.cuts), barrier)
    ahead = tuple(len(case.ahead(channel, checkpoint)) for channel in range(len(read)))
    if not case.exactly_once:
        check("at least all", all(map(int.__ge__, read, ahead)), checkpoint, read, ahead)
    elif not barrier.overtakes:
        check("aligned cut", read == ahead, checkpoint, read, ahead)
    else:
        check("unaligned cut", all(map(int.__le__, read, ahead)), checkpoint, read, ahead)
        missing = [c for c in case.awaited if not case.has_come(world, c, checkpoint)]
        check("awaited barriers have come", not missing, checkpoint, missing)
    cut = Cut(checkpoint, read, ((),) * len(read))
    return world._replace(cuts=(*world.cuts, cut), running=checkpoint if barrier.overtakes else world.running)


def check_unaligned(case: Case, cut: Cut) -> None:
    """What was read before the trigger and what was captured are exactly what lies ahead of the barriers."""
    for channel, (read, captured) in enumerate(zip(cut.read, cut.captured, strict=True)):
        ahead = case.ahead(channel, cut.checkpoint)
        check("unaligned cut", ahead[read:] == list(captured), cut, "channel", channel, "expects", ahead)
        check("forced channels are not captured", channel not in case.forced or not captured, cut)


def check_state(case: Case, node: Node) -> None:
    """What must hold between moves."""
    gate, world = node.gate, node.world
    channels = range(len(case.script))
    waiting = [gate.queued(c) for c in channels]
    expected = [sent - read for sent, read in zip(world.sent, world.read, strict=True)]
    check("exactly once, in order", waiting == expected, waiting, expected)
    readable = any(waiting[c] and c not in gate.handler.blocked for c in channels)
    check("available when readable", gate.available == (all(world.sent) and readable), world)
    check("capture follows the checkpoint", gate.capturing == world.running, gate.capturing, world)
    if not gate.handler.pending and case.exactly_once:
        check("nothing blocked without need", not gate.handler.blocked, gate.handler.blocked, world)
    everything = world.sent == tuple(map(len, case.script))
    if everything and not gate.available and not gate.urgent:
        check_end(case, node)


def check_end(case: Case, node: Node) -> None:
    """All input has arrived and nothing can be read any more."""
    gate, world = node.gate, node.world
    left = [gate.queued(c) for c in range(len(case.script))]
    check("nothing stays blocked", not any(left) and not gate.handler.blocked, left, gate.handler.blocked)
    check("captures end", gate.capturing is None, gate.capturing)
    if case.exactly_once:
        over = {cut.checkpoint for cut in world.cuts} | {*world.aborted, world.given_up} - {0}
        # The marker of one that was cancelled upstream may be overtaken by a newer barrier, and is stale
        # then. What is older than one that was given up is not: the job master still waits for it.
        open_ended = case.checkpoints - case.cancelled - over
        check("every checkpoint ends", not open_ended and not gate.handler.pending, open_ended)


def moves(case: Case, node: Node) -> Iterator[str]:
    """Everything that may happen next."""
    gate, world = node.gate, node.world
    for channel, script in enumerate(case.script):
        if world.sent[channel] < len(script):
            yield f"arrive {channel}"
    due = gate.next_timeout()
    if gate.urgent or (due is not None and world.now > due):
        yield "announce"
    if gate.available:
        yield "poll"
        yield "control"
    if case.time and not world.now:
        yield "time"
    if not world.given_up:
        yield from (f"give-up {checkpoint}" for checkpoint in case.give_up)


def bumped(counts: tuple[int, ...], channel: int) -> tuple[int, ...]:
    """One more for a channel."""
    return (*counts[:channel], counts[channel] + 1, *counts[channel + 1 :])


def step(case: Case, node: Node, move: str) -> Node | None:
    """The state after a move; None when it changed nothing."""
    gate, world = clone(node.gate, {}), node.world
    verb, _, number = move.partition(" ")
    clocks = Clocks(wall_ms=world.now, mono_ms=float(world.now))
    effects: list[Effect] = []
    if verb == "arrive":
        channel = int(number)
        gate.put(channel, case.script[channel][world.sent[channel]])
        world = world._replace(sent=bumped(world.sent, channel))
        if not case.lazy and gate.urgent:
            world = absorb(case, world, [], gate.take_captured())
            effects = gate.announce(clocks)
    elif verb == "announce":
        effects = gate.announce(clocks)
    elif verb == "time":
        world = world._replace(now=LATER_MS)
    elif verb == "give-up":
        gate.abort(int(number))
        running = world.running if gate.capturing is not None else None
        world = world._replace(given_up=int(number), running=running)
    else:
        polled = gate.poll(clocks, only_control=verb == "control")
        if polled is None:
            check("poll gives what is available", verb == "control", world)
            return None
        channel, element, effects = polled
        expected = case.script[channel][world.read[channel]]
        check("exactly once, in order", element == expected, "expected", expected, "got", element)
        check("only control", verb != "control" or not is_data(element), element)
        world = world._replace(read=bumped(world.read, channel))
    world = absorb(case, world, effects, gate.take_captured())
    after = Node(gate, world, (node.path, move))
    check_state(case, after)
    return after


def key(node: Node) -> Any:
    """A state as a value: the world, and what decides about the gate's future.

    Arrival numbers are left out: which barriers are not announced says the same. So are the figures
    for diagnosis.
    """
    gate = node.gate
    line = tuple(gate._queues._ready)
    unannounced = tuple((channel, barrier.checkpoint) for _, channel, barrier in gate._unannounced)
    return node.world, line, unannounced, gate._capturing, frozen(gate.handler)


@dataclass(frozen=True)
class Explored:
    """What a search met.

    Attributes:
        states: how many states.
        endings: checkpoints that were triggered and aborted, for every state in which all was over.
    """

    states: int
    endings: frozenset[tuple[tuple[int, ...], tuple[int, ...]]]


def explore(case: Case, states_max: int = 100_000) -> Explored:
    """Every move in every reachable state.

    Raises:
        Violated: with the moves that lead there; or there are more states than the caller can wait for.
    """
    channels = len(case.script)
    first = Node(case.build(channels, case.handler()), World((0,) * channels, (0,) * channels))
    seen, stack, endings = {key(first)}, [first], set()
    while stack:
        node, world = stack[-1], stack.pop().world
        check("small enough to search", len(seen) <= states_max, len(seen))
        if world.read == tuple(map(len, case.script)):
            endings.add((tuple(cut.checkpoint for cut in world.cuts), world.aborted))
        for move in moves(case, node):
            try:
                after = step(case, node, move)
            except Exception as error:
                raise Violated(f"{error}\nafter: {told((node.path, move))}") from error
            if after is not None and (name := key(after)) not in seen:
                seen.add(name)
                stack.append(after)
    return Explored(len(seen), frozenset(endings))


ATOMS = (int, float, str, bool, type(None), frozenset, tuple, FunctionType, type)
_NAMES: dict[type, tuple[str, ...]] = {}


def _names(thing: Any) -> tuple[str, ...]:
    """The attributes of an object, also those in slots."""
    found = _NAMES.get(type(thing))
    if found is None:
        slots = [name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ())]
        found = _NAMES[type(thing)] = tuple(slots)
    return found + tuple(getattr(thing, "__dict__", ()))


def _is_atom(thing: Any) -> bool:
    frozen_dataclass = is_dataclass(thing) and type(thing).__dataclass_params__.frozen  # type: ignore[attr-defined]
    return isinstance(thing, (*ATOMS, Enum)) or frozen_dataclass or hasattr(thing, "__func__")


_ATOMIC: dict[type, bool] = {}


def clone(thing: Any, memo: dict[int, Any]) -> Any:
    """A copy of a machine and what it holds, much quicker than `copy.deepcopy`; atoms are shared."""
    kind = type(thing)
    if kind is set or kind is OrderedDict:
        return thing.copy()
    if kind is list or kind is deque:
        flat = not thing or type(thing[0]) is int or isinstance(thing[0], tuple)
        return thing.copy() if flat else kind([clone(item, memo) for item in thing])
    if kind is dict:
        return {name: clone(value, memo) for name, value in thing.items()}
    atomic = _ATOMIC.get(kind)
    if atomic is None:
        atomic = _ATOMIC[kind] = _is_atom(thing)
    if atomic:
        return thing
    if id(thing) in memo:
        return memo[id(thing)]
    copied = memo[id(thing)] = kind.__new__(kind)
    for name in _names(thing):
        object.__setattr__(copied, name, clone(getattr(thing, name), memo))
    return copied


def frozen(thing: Any, above: tuple[int, ...] = ()) -> Any:
    """A machine as a value that can be compared and hashed."""
    kind = type(thing)
    if kind is int or kind is bool or thing is None or kind is float:
        return thing
    if kind is set:
        return frozenset(thing)
    if kind is list or kind is deque:
        return tuple([frozen(item, above) for item in thing])
    if kind is dict or kind is OrderedDict:
        return tuple([(name, frozen(value, above)) for name, value in thing.items()])
    atomic = _ATOMIC.get(kind)
    if atomic is None:
        atomic = _ATOMIC[kind] = _is_atom(thing)
    if atomic or id(thing) in above:
        return thing if atomic else "itself"
    above = (*above, id(thing))
    return kind.__name__, tuple([frozen(getattr(thing, name), above) for name in _names(thing)])


def barrier(
    checkpoint: int, alignment: Alignment, timeout_ms: int | None = None, trigger_ms: int = 0
) -> Barrier:
    """A barrier of a script."""
    return Barrier(checkpoint, trigger_ms, alignment, timeout_ms)
