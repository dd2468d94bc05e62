"""Types of a job's streams and states: where each is declared, and which serializer follows.

The rules are those by which the runtime chooses: a state has the serializer of its annotation; records
have one where the type of their stream is a class with fields, or holds such classes or Enums. Others travel
by the self-describing codec, and by pickle between workers when they are not plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.ids import EdgeId
from headgate.common.keys.key_types import hint_words
from headgate.common.plain_data import Description, Json, text_in
from headgate.graph.guarantees import always_aligned
from headgate.graph.logical import (
    FilterNode,
    FlatMapNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ProcessNode,
    SelectNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
)
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.graph.plan import edge_record_types
from headgate.graph.type_text import COLUMNS, StateFact, States, TypeText, type_text
from headgate.serde.codecs.pickled import holds_pickle
from headgate.serde.descriptions import parts_of
from headgate.serde.resolve import composite_serializer, record_serializer, serializer_for
from headgate.serde.serializer import TypeSerializer
from headgate.serde.snapshots.snapshot_rules import part_serializers

Row: TypeAlias = dict[str, Json]  # what is known of one stream, state or kind of keys

SELF_DESCRIBING: Final = "self-describing"
ARROW: Final = "Arrow"
YES, NO, PLAIN_ONLY = "yes", "no", "plain values only"
NEVER: Final = "never there"  # of records that no barrier overtakes
UNDECLARED: Final = "not declared"
PICKLED: Final = (
    "pickled, so it cannot change its type, runs code when it is read, and is bound to this version of Python"
)

_PLAIN_KINDS: Final = frozenset(
    (
        *("none", "bool", "int", "float", "str", "bytes", "decimal", "uuid", "literal", "union"),
        *("datetime", "date", "time", "timedelta"),
        *("list", "set", "frozenset", "tuple", "tuple_of", "dict", "typeddict"),
    )
)
"""Kinds whose values the self-describing codec holds, if what is inside is plain, too."""


def type_rows(
    nodes: Iterable[Node], plan: PhysicalPlan, states: States, shape_of: Callable[[Edge], str]
) -> dict[str, list[Row]]:
    """Return what ``headgate types`` shows, ready for JSON, as lists of dicts under "streams" (each output of
    an operator, for each receiver), "states" (each declared state) and "keys" (each keyed operator).

    `nodes` are the program of `plan`; `states` are by node id; `shape_of` returns the shape of an edge's
    batches: "rows", "columns" or "rows or columns". A type that has no serializer is told, not refused.
    """
    types = edge_record_types(nodes, plan)
    streams = [row for vertex in plan.vertices for row in _stream_rows(vertex, plan, types, shape_of)]
    operators = [node for vertex in plan.vertices for node in vertex.chain]
    found = [_state_row(node, fact) for node in operators for fact in states.get(node.id, ())]
    keys = [_key_row(node) for node in operators if isinstance(node, KeyedProcessNode)]
    return {"streams": streams, "states": found, "keys": keys}


def storable(hint: Hint | None) -> str:
    """Return whether records of a type can be stored in flight, in an unaligned checkpoint, without pickle.

    Returns:
        ``YES``, ``NO``, or ``PLAIN_ONLY`` where the type leaves it open.

    Example:
        >>> storable(dict[str, int]), storable(dict[str, object]), storable(None)
        ('yes', 'no', 'plain values only')
    """
    if hint is None:
        return PLAIN_ONLY
    try:
        description = serializer_for(hint).describe()
    except (UsageError, NameError, TypeError):
        return NO
    if record_serializer(hint) is not None and description["kind"] != "typeddict":
        return YES
    return _plain(description)


def _stream_rows(
    vertex: Vertex, plan: PhysicalPlan, types: Mapping[EdgeId, Hint], shape_of: Callable[[Edge], str]
) -> Iterable[Row]:
    edges = plan.outputs(vertex.id)
    for place, node in enumerate(vertex.chain):
        leaving = [edge for edge in edges if edge.operator == place]
        if not isinstance(node, SinkNode) and all(edge.tag is not None for edge in leaving):
            # Handed over within the chain, or without a consumer: nothing is encoded here.
            yield _stream_row(node, None, None, node.record_type, None)
        for edge in leaving:
            row = _stream_row(node, edge.tag, int(edge.target), types.get(edge.id), shape_of(edge))
            row["side"] = edge.side.value
            yield row | {"in_flight": NEVER} if always_aligned(edge) else row


def _stream_row(node: Node, tag: str | None, target: int | None, hint: Hint | None, shape: str | None) -> Row:
    row: Row = {
        "operator": node.name,
        "uid": node.uid,
        "tag": tag,
        "to": target,
        "side": None,
        "type": type_text(hint),
        "why": UNDECLARED if hint is None else _origin(node, tag),
    }
    if shape == COLUMNS:
        return row | {"serializer": ARROW, "immutable": True, "in_flight": YES}
    typed = record_serializer(hint)
    if typed is not None and typed.describe()["kind"] == "typeddict":
        typed = None  # Its values are dicts, which the codec takes for what they are.
    if typed is None and storable(hint) == NO:
        typed = composite_serializer(hint)
    kind = SELF_DESCRIBING if typed is None else text_in(typed.describe(), "kind")
    return row | {"serializer": kind, "immutable": _immutable(hint), "in_flight": storable(hint)}


def _key_row(node: KeyedProcessNode) -> Row:
    row: Row = {"operator": node.name, "uid": node.uid}
    if node.keys is None:
        return row | {"type": None, "why": UNDECLARED}
    return row | {"type": hint_words(node.keys.hint), "why": node.keys.teller}


def _origin(node: Node, tag: str | None) -> str:
    if tag is not None:
        return "type argument of the tag"
    match node:
        case SourceNode():
            return "inferred from the source"
        case MapNode() | FlatMapNode():
            function = node.function
            if isinstance(function, type):
                return "the class itself"
            return f"annotation of {getattr(function, '__qualname__', type(function).__qualname__)}"
        case ProcessNode() | KeyedProcessNode():
            return f"annotation of {type(node.function).__qualname__}"
        case FilterNode() | TimestampsNode() | SelectNode():
            return "as it comes in"
    return "inferred"


def _state_row(node: Node, fact: StateFact) -> Row:
    hints = [text.hint if isinstance(text, TypeText) else Any for text in fact.types]
    row: Row = {
        "operator": node.name,
        "uid": node.uid,
        "state": fact.name,
        "kind": fact.kind,
        "types": [str(text) for text in fact.types],
        "why": _state_origin(hints, fact.serializers),
    }
    try:
        found = part_serializers(hints, fact.serializers, f"state {fact.name!r}")
        kinds: list[Json] = [_serializer_text(serializer) for serializer in found]
    except UsageError as error:
        # A plan that runs refuses it; what only explains a program must still be able to.
        return row | {"serializer": None, "immutable": None, "refused": str(error), "risk": None}
    risk = PICKLED if any(holds_pickle(serializer.describe()) for serializer in found) else None
    # A list or a map can always be changed in place, whatever it holds.
    single = len(found) == 1 and not fact.kind.endswith("list")
    immutable = single and found[0].immutable
    judged: Row = {"serializer": kinds, "immutable": immutable, "refused": None, "risk": risk}
    return row | judged


def _state_origin(hints: Sequence[Hint | None], given: Sequence[TypeSerializer[Any] | None]) -> str:
    if any(serializer is not None for serializer in given):
        return "serializer in the declaration"
    return UNDECLARED if all(hint is Any for hint in hints) else "annotation"


def _serializer_text(serializer: TypeSerializer[Any]) -> str:
    description = serializer.describe()
    if description["kind"] == "any":
        return SELF_DESCRIBING
    return f"custom {serializer.name}" if description["kind"] == "custom" else str(description["kind"])


def _immutable(hint: Hint | None) -> bool | None:
    if hint is None or hint is Any:
        return None
    try:
        return serializer_for(hint).immutable
    except (UsageError, NameError, TypeError):
        return None


def _plain(description: Description) -> str:
    if description["kind"] == "any":
        return PLAIN_ONLY
    if description["kind"] not in _PLAIN_KINDS:
        return NO
    inner = {_plain(part) for part in parts_of(description)}
    if description["kind"] == "union" and len(inner) > 1:
        return PLAIN_ONLY
    return NO if NO in inner else PLAIN_ONLY if PLAIN_ONLY in inner else YES
