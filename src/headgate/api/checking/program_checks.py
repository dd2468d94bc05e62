"""Checks of a program before anything starts. Each refusal names the user's file and line. The executor
checks what a program does not show: enough slots, storage that workers reach.
"""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, Final, NamedTuple

from headgate.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headgate.api.checking.arguments import under_verb
from headgate.api.declared.declarations import Declaration, declarations
from headgate.api.declared.keyed_states import StateDescriptor, StateKind, declared_state
from headgate.api.declared.operator_state import BROADCAST, OperatorStateDescriptor, declared_operator_state
from headgate.api.functions import KeyedProcessFunction, ProcessFunction, RichFunction
from headgate.api.sink import Sink
from headgate.api.source import Source
from headgate.common.errors import ConfigError, PlanError, UsageError
from headgate.common.hints import Hint
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode
from headgate.graph.rewrites import check_unique_uids, place
from headgate.graph.type_text import StateFact, type_text

_WARNED: Final[dict[Any, Any]] = {}
"""Registry of :mod:`warnings` for pickled state, so that a job that is planned twice warns once."""


def check_program(nodes: Sequence[Node], config: Config) -> None:
    """Raise PlanError or ConfigError for the first fault that the nodes of a job and its settings show.

    Checked are: the state backend's package, readers of every stream, uids (each unique; with checkpoints,
    one for all that has state), declared states, their given serializers, and the parameters of methods.
    """
    check_backend(config)
    check_ends(nodes)
    check_unique_uids(nodes)
    states_of(nodes)
    check_methods(nodes)
    check_serializers(nodes)
    if config.get(o.CHECKPOINTING_INTERVAL) is not None:
        check_uids_given(nodes)


def check_backend(config: Config) -> None:
    wanted = config.get(o.STATE_BACKEND)
    if wanted is o.StateBackendType.ROCKSDB and importlib.util.find_spec("rocksdict") is None:
        raise ConfigError(
            f"{o.STATE_BACKEND.key} is {wanted.value} ({config.origin(o.STATE_BACKEND).text}), but the "
            "package rocksdict is not installed; install headgate[rocksdb] here and on all workers"
        )


def check_ends(nodes: Sequence[Node]) -> None:
    if not nodes:
        raise PlanError("the program is empty; begin with a source such as env.read_json(...)")
    consumed = {source.id for node in nodes for source in node.inputs}
    for node in nodes:
        if node.id not in consumed and not isinstance(node, SinkNode):
            raise PlanError(
                f"the stream that ends with {place(node)} leads nowhere; give it a sink such as "
                "write_json() or print(), look at it with preview(), or remove it"
            )


def check_uids_given(nodes: Iterable[Node]) -> None:
    for node in nodes:
        what = None if node.uid is not None else stateful_part(node)
        if what is not None:
            raise PlanError(
                f"operator {place(node)} has {what} but no uid, and checkpoints are on; its state could not "
                "be found again after a change of the program, so give it one: uid='...'"
            )


def stateful_part(node: Node) -> str | None:
    """Return in words what an operator keeps that is found again by its uid, whether it has one or not: a
    position (sources), output to commit (sinks), "state", "operator state" or "timers". None: nothing.
    """
    if isinstance(node, SourceNode):
        return "a position in its input"
    if isinstance(node, SinkNode):
        return "output that is committed with a checkpoint" if _commits(node) else None
    if isinstance(node, KeyedProcessNode) and declared_state(node.function):
        return "state"
    if declared_operator_state(getattr(node, "function", None)):
        return "operator state"
    if isinstance(node, KeyedProcessNode):
        return "timers" if _has_timers(node.function) else None
    return None


def committing_sinks(nodes: Iterable[Node]) -> frozenset[int]:
    return frozenset(node.id for node in nodes if isinstance(node, SinkNode) and _commits(node))


def states_of(nodes: Iterable[Node]) -> dict[int, list[StateFact]]:
    """Return operators' declared states by node id, types as text; PlanError if one is declared wrongly."""
    found: dict[int, list[StateFact]] = {}
    for node in nodes:
        own = [
            _fact(state, state.mode if state.mode == BROADCAST else f"{state.mode} list")
            for state in _declared_operator_state(node).values()
        ]
        if isinstance(node, KeyedProcessNode):
            found[node.id] = [_fact(state, state.kind) for state in _declared(node).values()] + own
        elif own:
            found[node.id] = own
    return found


def _fact(state: StateDescriptor | OperatorStateDescriptor, kind: str) -> StateFact:
    return StateFact(state.name, kind, tuple(map(type_text, state.types)), state.serializers)


def check_methods(nodes: Iterable[Node]) -> None:
    for node in nodes:
        for part in ("function", "source", "sink"):
            thing: Any = getattr(node, part, None)
            if isinstance(thing, RichFunction | Source | Sink):
                for name, expected in _contract(type(thing)):
                    what = f"operator {place(node)}: {name}() of {type(thing).__name__}"
                    _refuse_method(what, getattr(thing, name), expected)


def _contract(cls: type) -> Iterable[tuple[str, list[str]]]:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("headgate.api.")]
    for name, member in ((name, member) for base in ours for name, member in vars(base).items()):
        own = isinstance(member, FunctionType) and getattr(cls, name, member) is not member
        if own and not name.startswith("_"):
            parameters = list(inspect.signature(member).parameters.values())[1:]
            yield name, [p.name for p in parameters if p.default is p.empty]


def _refuse_method(what: str, method: Callable[..., object], expected: list[str]) -> None:
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # built in
        return
    try:
        signature.bind(*expected)
    except TypeError:
        names = ", ".join(signature.parameters)
        raise PlanError(
            f"{what} takes ({names}); expected ({', '.join(expected)}), which it will be called with"
        ) from None
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise PlanError(
            f"{what} is an `async def`, which nothing here awaits; write it with `def`, and mark what waits "
            "with hg.blocking"
        )


def check_serializers(nodes: Iterable[Node]) -> None:
    declared = [(node, d, given) for node in nodes for d, given in _given_serializers(node)]
    if not declared:
        return
    from headgate.serde.snapshots.snapshot_rules import SerializerRegistry  # it loads msgspec

    registry = SerializerRegistry()
    for node, descriptor, serializer in declared:
        site = getattr(descriptor, "site", "")
        try:
            registry.register(serializer, f"state {descriptor.name!r}{f' ({site})' if site else ''}")
        except UsageError as error:
            raise PlanError(f"operator {place(node)}: {error}") from None


def check_connectors(nodes: Iterable[Node]) -> None:
    """Call `validate` of all sources and sinks; their UsageError becomes a PlanError with call and line."""
    for node in nodes:
        connector: Any = getattr(node, "source", None) or getattr(node, "sink", None)
        if connector is None:
            continue
        try:
            connector.validate()
        except UsageError as error:
            text = under_verb(str(error), node.name, node.site)
            raise PlanError(text or f"{error} ({node.name} at {node.site})") from error


def _declared_operator_state(node: Node) -> dict[str, OperatorStateDescriptor]:
    function = getattr(node, "function", None)
    own = getattr(function, "__dict__", {})
    hidden = [name for name, value in own.items() if isinstance(value, Declaration)]
    if hidden:
        raise PlanError(
            f"operator {place(node)} declares state {hidden[0]!r} on the object; declare it in the body of "
            f"class {type(function).__name__}, so that it is known without running anything"
        )
    try:
        _refuse_misplaced(function)
        return declared_operator_state(function)
    except UsageError as error:
        raise PlanError(f"operator {place(node)}: {error}") from None


def _refuse_misplaced(function: object) -> None:
    for kind in (ProcessFunction, BroadcastProcessFunction):
        if isinstance(function, kind) and declared_state(function):
            name = next(iter(declared_state(function)))
            raise PlanError(
                f"{type(function).__name__} is a {kind.__name__} and declares keyed state {name!r}; make it "
                f"a Keyed{kind.__name__} behind key_by(), or declare operator state"
            )
    one_sided = isinstance(function, ProcessFunction | KeyedProcessFunction)
    maps = [d.name for d in declared_operator_state(function).values() if one_sided and d.mode == BROADCAST]
    if maps:
        raise PlanError(
            f"{type(function).__name__} declares broadcast state {maps[0]!r} without a broadcast stream, so "
            "its copies would part; make it a BroadcastProcessFunction or KeyedBroadcastProcessFunction "
            "behind connect(), or declare an operator list"
        )
    if not isinstance(function, RichFunction) and (names := list(declarations(type(function)))):
        raise PlanError(
            f"{type(function).__name__} declares state {names[0]!r}, but only functions given to process() "
            "have state; make it a ProcessFunction or KeyedProcessFunction"
        )


def _declared(node: KeyedProcessNode) -> dict[str, StateDescriptor]:
    try:
        return declared_state(node.function)
    except UsageError as error:
        raise PlanError(f"operator {place(node)}: {error}") from None


def _descriptors(node: Node) -> list[StateDescriptor | OperatorStateDescriptor]:
    function = getattr(node, "function", None)
    return [*declared_state(function).values(), *declared_operator_state(function).values()]


def _given_serializers(node: Node) -> Iterable[tuple[StateDescriptor | OperatorStateDescriptor, Any]]:
    return [
        (d, serializer) for d in _descriptors(node) for serializer in d.serializers if serializer is not None
    ]


def _commits(node: SinkNode) -> bool:
    return type(node.sink).create_committer is not Sink.create_committer


def _has_timers(function: object) -> bool:
    inherited = (KeyedProcessFunction.on_timer, KeyedBroadcastProcessFunction.on_timer)
    return type(function).on_timer not in inherited  # type: ignore[attr-defined]


class _Part(NamedTuple):
    """A type that a declared state stores (its values, or the keys of a map), and the declaration's line."""

    node: Node
    where: str
    site: str
    hint: Hint
    is_key: bool


def check_state_types(nodes: Iterable[Node], config: Config) -> None:
    """Raise PlanError for a state type that has no serializer, or one of pickle where this is forbidden or
    for the keys of a map; warn once, at the user's line, of other pickled state. Given serializers pass.
    """
    parts = [part for node in nodes for part in _parts(node)]
    if not parts:
        return
    from headgate.serde.codecs.pickled import (
        holds_pickle,  # these load msgspec, which a program need not
    )
    from headgate.serde.resolve import serializer_for

    pickled = []
    for part in parts:
        try:
            description = serializer_for(part.hint, part.where).describe()
        except UsageError as error:
            raise PlanError(f"operator {place(part.node)}: {error}") from None
        if holds_pickle(description):
            pickled.append(part)
    _judge_pickled(pickled, config)


def _judge_pickled(parts: list[_Part], config: Config) -> None:
    for part in parts:
        if part.is_key:
            raise PlanError(
                f"operator {place(part.node)}: the keys of {part.where} are marked hg.pickled, but equal "
                "keys need equal bytes; use plain values or a record as key"
            )
        if not config.get(o.GENERIC_TYPES):
            raise PlanError(
                f"operator {place(part.node)}: {part.where} is stored as pickle, which "
                f"{o.GENERIC_TYPES.key} = false ({config.origin(o.GENERIC_TYPES).text}) forbids; give it a "
                "type that has a serializer, such as a dataclass"
            )
    if parts:
        _warn(parts)


def _warn(parts: list[_Part]) -> None:
    names = ", ".join(f"{part.where} of operator {part.node.name}" for part in parts)
    file, _, line = parts[0].site.rpartition(":")
    warnings.warn_explicit(
        f"stored as pickle: {names}. Pickled state cannot change its type, runs code when a checkpoint is "
        f"read, and is bound to this version of Python; {o.GENERIC_TYPES.key}=false forbids it",
        UserWarning,
        file or parts[0].node.site or "headgate",
        int(line) if line.isdigit() else 0,
        registry=_WARNED,
    )


def _parts(node: Node) -> Iterable[_Part]:
    for descriptor in _descriptors(node):
        kind = descriptor.kind if isinstance(descriptor, StateDescriptor) else descriptor.mode
        keyed = kind in (StateKind.MAP, BROADCAST)
        given = descriptor.serializers or (None,) * len(descriptor.types)
        site: str = getattr(descriptor, "site", "")
        what = "state" if isinstance(descriptor, StateDescriptor) else "operator state"
        where = f"{what} {descriptor.name!r}{f' ({site})' if site else ''}"
        for at, (hint, serializer) in enumerate(zip(descriptor.types, given, strict=True)):
            if serializer is None:
                yield _Part(node, where, site, hint, is_key=keyed and at == 0)
