"""Field names that a program writes, held against the record class that its source was given."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, get_type_hints

from headgate.api.program import Program
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.graph.logical import FilterNode, PartitionNode, SourceNode, TimestampsNode

_UNCHANGED = (FilterNode, PartitionNode, TimestampsNode)
_MARKS = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "_fields", "__pydantic_fields__")


def refuse_unknown_fields(verb: str, names: Sequence[object], program: Program, number: int) -> None:
    """Refuse names that the records of a stream certainly do not have.

    Only a source with a schema is certain; what functions are annotated to return may be wrong.

    Raises:
        PlanError: a name is no field; with the nearest one.
    """
    node = program.node(number)
    while isinstance(node, _UNCHANGED):
        node = program.node(node.inputs[0].id)
    cls: Any = node.record_type if isinstance(node, SourceNode) else None
    if not isinstance(cls, type) or not any(hasattr(cls, mark) for mark in _MARKS):
        return
    try:
        fields = get_type_hints(cls)
    except Exception:  # an annotation is arbitrary code of the user's
        return
    for name in names:
        if isinstance(name, str) and name not in fields and not hasattr(cls, name):
            nearest = difflib.get_close_matches(name, fields, 1, 0.0)
            raise PlanError(
                f"{verb}() ({user_site()}) names {name!r}, which {cls.__qualname__} does not have; "
                f"did you mean {nearest[0]!r}? It has: {', '.join(fields)}"
            )
