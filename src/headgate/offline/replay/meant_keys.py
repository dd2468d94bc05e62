"""Finds the key of an operator that a user means, in the form in which the operator has it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import get_args

from headgate.common.errors import UsageError
from headgate.common.keys.key_types import first_misfit, hint_words, shape_words, shapes_of
from headgate.graph.logical import KeyedProcessNode
from headgate.graph.table_nodes import TableNode


def meant_key(node: KeyedProcessNode, key: Hashable) -> Hashable:
    """Return the key of the operator that `key` means.

    Keys of joins and of different rows of tables end with a number, 0 where no part is null: it may be left
    out. UsageError for a key of another type than the program declares: it would have no state.
    """
    if node.keys is None:
        return key
    parts, given = get_args(node.keys.hint), key if isinstance(key, tuple) else (key,)
    if isinstance(node, TableNode) and parts[-1:] == (int,) and len(parts) == len(given) + 1:
        key = (*given, 0)
    wrong = first_misfit(shapes_of([key]), node.keys.hint)
    if wrong is not None:
        raise UsageError(
            f"--key is of type {shape_words(wrong)}, and operator {node.name!r} (uid {node.uid!r}) has keys "
            f"of type {hint_words(node.keys.hint)}; text is given as it is, or as JSON in quotes"
        )
    return key
