"""Checks field names and keys of stream calls against the declared types of records and functions."""

from __future__ import annotations

import datetime as dt
import difflib
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from headgate.api.checking.inference import field_hint, map_output
from headgate.api.program import Program
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.keys.keygroups import ALLOWED_KEYS
from headgate.graph.logical import FilterNode, PartitionNode, SourceNode, TimestampsNode

_UNCHANGED: Final = (FilterNode, PartitionNode, TimestampsNode)
_MARKS: Final = (
    "__dataclass_fields__",
    "__attrs_attrs__",
    "__struct_fields__",
    "_fields",
    "__pydantic_fields__",
)
_KEYS: Final = (int, str, bytes, bool, float, dt.datetime, dt.date, UUID)


def refuse_unknown_fields(verb: str, names: Sequence[object], program: Program, number: int) -> None:
    """Raise PlanError if records of stream `number` certainly lack a field of `names`, given to call `verb`.
    Certain is only the class of a source's records, before a step that makes other records: annotations of
    functions may be wrong. Names that are no text pass.
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
            nearest = "".join(difflib.get_close_matches(name, fields, 1, 0.0))
            hint = f"did you mean {nearest!r}? It has: {', '.join(fields)}" if nearest else "it has no field"
            what = f"{verb}() ({user_site()}) names {name!r}, which {cls.__qualname__} does not have"
            raise PlanError(f"{what}; {hint}")


def refuse_impossible_key(verb: str, function: Callable[..., object]) -> None:
    """Raise PlanError for a key function annotated to return a type that cannot be a key; others pass."""
    hint = map_output(function)
    if hint is not None and not can_be_key(hint):
        raise PlanError(
            f"{verb}() ({user_site()}) got a function annotated to give a key of type {_named(hint)}; "
            f"expected {ALLOWED_KEYS}: give it the fields that tell records apart, or the value of an Enum"
        )


def refuse_impossible_fields(verb: str, names: Iterable[str], record_type: Hint | None) -> None:
    """Raise PlanError for a field of `names` whose type in class `record_type` is known and can be no key."""
    of = getattr(record_type, "__qualname__", "the records")
    for name in names:
        hint = field_hint(record_type, name)
        if not can_be_key(hint):
            raise PlanError(
                f"{verb}() ({user_site()}) got field {name!r} of {of}, which is of type"
                f" {_named(hint)} and cannot be a key; expected {ALLOWED_KEYS}: give it a function that makes"
                " one of it, such as the value of an Enum"
            )


def can_be_key(hint: Hint) -> bool:
    """Return whether values of this type may be keys; true if the type leaves it open, as ``Any`` does.

    Example:
        >>> import enum
        >>> class Color(enum.IntEnum):
        ...     RED = 1
        >>> [can_be_key(hint) for hint in (str, tuple[int, str], int | None, None, object)]
        [True, True, True, True, True]
        >>> [can_be_key(hint) for hint in (Color, dict, list[int], tuple[int, Color], Color | dict)]
        [False, False, False, False, False]
    """
    if hint is Any:
        return True
    if get_origin(hint) is Annotated:
        return can_be_key(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return any(can_be_key(one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return all(can_be_key(part) for part in get_args(hint) if part is not Ellipsis)
    cls = get_origin(hint) or hint
    if is_typeddict(cls):
        return False
    if not isinstance(cls, type) or cls in (*_KEYS, tuple, type(None)):
        return True
    try:
        return any(issubclass(key, cls) for key in _KEYS)
    except TypeError:  # a protocol that looks at no classes
        return True


def _named(hint: Hint) -> str:
    # As a program writes it, without modules.
    name = getattr(get_origin(hint) or hint, "__qualname__", None)
    if not isinstance(name, str) or not (get_origin(hint) is None or isinstance(get_origin(hint), type)):
        return str(hint)
    parts = ", ".join("..." if part is Ellipsis else _named(part) for part in get_args(hint))
    return f"{name}[{parts}]" if parts else name
