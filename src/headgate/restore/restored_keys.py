"""Compares the types of a checkpoint's stored keys with those that the program declares, before a restore."""

from __future__ import annotations

from headgate.common.errors import UsageError
from headgate.common.keys.key_types import (
    DeclaredKeys,
    Shape,
    first_misfit,
    hint_words,
    shape_words,
    shapes_of_stored,
)
from headgate.graph.logical import KeyedProcessNode
from headgate.graph.physical import PhysicalPlan
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle


def check_keys(plan: PhysicalPlan, checkpoint: CheckpointMetadata, called: str) -> None:
    """Raise a UsageError if state is stored under keys of another type than `plan` declares for its operator.
    `called` names the checkpoint in the message. An operator without a declared type of keys is not checked,
    nor are keys whose types the metadata does not list: workers check these.
    """
    for node in (node for vertex in plan.vertices for node in vertex.chain):
        if isinstance(node, KeyedProcessNode) and node.keys is not None and node.uid is not None:
            states = checkpoint.operators.get(node.uid, [])
            shapes = [stored_shapes(state.keyed) for state in states if state.keyed is not None]
            wrong = first_misfit({shape for found in shapes for shape in found or ()}, node.keys.hint)
            if wrong is not None:
                raise UsageError(other_type(f"{called} holds state of {node.uid!r}", wrong, node.keys))


def stored_shapes(keyed: KeyedStateHandle) -> frozenset[Shape] | None:
    """Return the types of a subtask's stored keys; empty: no state; None: the metadata does not tell them."""
    return frozenset() if keyed.tables == [] else shapes_of_stored(keyed.key_types)


def other_type(what: str, wrong: Shape, declared: DeclaredKeys) -> str:
    """Return the message for stored keys of the type `wrong`, where the program has `declared` another one.
    `what` is what holds them, such as "savepoint 3 of job 'visits' holds state of 'count'".
    """
    return (
        f"{what} under keys of type {shape_words(wrong)}, and {declared.teller} declares keys of type "
        f"{hint_words(declared.hint)}, so nothing of it would be found; declare the type as it was, or "
        "rewrite the keys with `headgate savepoint migrate --rekey`"
    )
