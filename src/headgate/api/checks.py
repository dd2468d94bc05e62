"""What is refused before anything starts, so far as the program itself can show it.

Each refusal names the user's file and line. Whether the world fits (enough slots, storage that
workers reach) is the executor's to check.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

from headgate.api.functions import KeyedProcessFunction
from headgate.api.sink import Sink
from headgate.api.state import StateDeclaration, StateDescriptor, StateKind, declared_state
from headgate.common import options as o
from headgate.common.config import Config
from headgate.common.errors import ConfigError, PlanError, UsageError
from headgate.graph.explain import StateFact, type_text
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode
from headgate.graph.rewrites import check_unique_uids, place


def check_program(nodes: Sequence[Node], config: Config) -> None:
    """Everything that needs neither a disk nor a worker.

    Raises:
        PlanError: the first thing that cannot run as written.
    """
    check_backend(config)
    check_ends(nodes)
    check_unique_uids(nodes)
    states_of(nodes)
    if config.get(o.CHECKPOINTING_INTERVAL) is not None:
        check_uids_given(nodes)


def check_backend(config: Config) -> None:
    """Refuse a backend whose package is not installed.

    Raises:
        ConfigError: RocksDB without its package.
    """
    wanted = config.get(o.STATE_BACKEND)
    if wanted is o.StateBackendType.ROCKSDB and importlib.util.find_spec("rocksdict") is None:
        raise ConfigError(
            f"{o.STATE_BACKEND.key} is {wanted.value} ({config.origin(o.STATE_BACKEND).text}), but the "
            "package rocksdict is not installed; install headgate[rocksdb] here and on all workers"
        )


def check_ends(nodes: Sequence[Node]) -> None:
    """Refuse a program without a source, and a stream that nobody consumes.

    Raises:
        PlanError: naming the stream's last operator.
    """
    if not nodes:
        raise PlanError("the program is empty; begin with a source such as env.read_json(...)")
    consumed = {source.id for node in nodes for source in node.inputs}
    for node in nodes:
        if node.id not in consumed and not isinstance(node, SinkNode):
            raise PlanError(
                f"the stream that ends with {place(node)} leads nowhere; give it a sink such as "
                "write_json() or collect(), or remove it"
            )


def check_uids_given(nodes: Iterable[Node]) -> None:
    """Refuse a stateful operator without a uid.

    Raises:
        PlanError: naming the operator and what its state is.
    """
    for node in nodes:
        what = None if node.uid is not None else stateful_part(node)
        if what is not None:
            raise PlanError(
                f"operator {place(node)} has {what} but no uid, and checkpoints are on; its state could not "
                "be found again after a change of the program, so give it one: uid='...'"
            )


def stateful_part(node: Node) -> str | None:
    """What a checkpoint holds of the operator, in words; None when it holds nothing."""
    if isinstance(node, SourceNode):
        return "a position in its input"
    if isinstance(node, SinkNode):
        return "output that is committed with a checkpoint" if _commits(node) else None
    if isinstance(node, KeyedProcessNode):
        if declared_state(node.function):
            return "state"
        return "timers" if _has_timers(node.function) else None
    return None


def committing_sinks(nodes: Iterable[Node]) -> frozenset[int]:
    """The sinks whose output becomes visible with a checkpoint, by node id."""
    return frozenset(node.id for node in nodes if isinstance(node, SinkNode) and _commits(node))


def states_of(nodes: Iterable[Node]) -> dict[int, list[StateFact]]:
    """The declared states of every keyed operator, as text, by node id.

    Raises:
        PlanError: a declaration is wrong; names the operator's place.
    """
    return {
        node.id: [_fact(descriptor) for descriptor in _declared(node).values()]
        for node in nodes
        if isinstance(node, KeyedProcessNode)
    }


def check_connectors(nodes: Iterable[Node]) -> None:
    """Let every source and sink look at the world: files exist, directories can be written.

    Raises:
        UsageError: the connector's own sentence, with the place in the program.
    """
    for node in nodes:
        connector: Any = getattr(node, "source", None) or getattr(node, "sink", None)
        if connector is None:
            continue
        try:
            connector.validate()
        except UsageError as error:
            raise PlanError(f"{error} ({node.name} at {node.site})") from error


def _declared(node: KeyedProcessNode) -> dict[str, StateDescriptor]:
    hidden = [name for name, value in _attributes(node.function) if isinstance(value, StateDeclaration)]
    if hidden:
        raise PlanError(
            f"operator {place(node)} declares state {hidden[0]!r} on the object; declare it in the body of "
            f"class {type(node.function).__name__}, so that it is known without running anything"
        )
    try:
        declared = declared_state(node.function)
        for descriptor in declared.values():
            _check_folded(descriptor)
    except UsageError as error:
        raise PlanError(f"operator {place(node)}: {error}") from None
    return declared


def _check_folded(descriptor: StateDescriptor) -> None:
    # An accumulator's type stands far from the state's annotation, so it is judged here already. The
    # other kinds are judged when the state is opened: a plan can be shown for types of any sort.
    if descriptor.kind in (StateKind.REDUCING, StateKind.AGGREGATING):
        from headgate.serde.resolve import serializer_for  # it loads msgspec, which a program need not

        serializer_for(descriptor.types[0], f"state {descriptor.name!r}")


def _attributes(function: object) -> Iterable[tuple[str, Any]]:
    return getattr(function, "__dict__", {}).items()


def _commits(node: SinkNode) -> bool:
    return type(node.sink).create_committer is not Sink.create_committer


def _has_timers(function: object) -> bool:
    return type(function).on_timer is not KeyedProcessFunction.on_timer  # type: ignore[attr-defined]


def _fact(descriptor: StateDescriptor) -> StateFact:
    return StateFact(descriptor.name, descriptor.kind, tuple(type_text(t) for t in descriptor.types))
