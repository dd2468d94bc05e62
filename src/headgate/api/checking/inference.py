"""Infers record types from the annotations of functions, to choose serializers; records are never checked.
Nothing here fails: where an annotation is missing or cannot be resolved the answer is None, and the records
travel by the self-describing codec.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

import typing_extensions

from headgate.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headgate.api.declared.declarations import generic_arguments
from headgate.api.functions import KeyedProcessFunction, OutputTag, ProcessFunction
from headgate.api.source import Source
from headgate.common.hints import Hint
from headgate.common.keys.key_types import DeclaredKeys, says_nothing
from headgate.graph.logical import Node
from headgate.records.selectors import KeySelector

T = TypeVar("T")

ProcessingFunction: TypeAlias = (
    "ProcessFunction[Any, Any] | KeyedProcessFunction[Any, Any, Any] | "
    "BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any]"
)

_SCALARS = frozenset({int, str, float, bytes, bool})
_PROCESS_FUNCTIONS = (
    ProcessFunction,
    KeyedProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)


def map_output(function: Callable[..., object]) -> Hint | None:
    """Return the type that a function of one record is annotated to return (a class returns itself), or None.

    Example:
        >>> def length(text: str) -> int: return len(text)
        >>> map_output(length), map_output(str), map_output(lambda text: text)
        (<class 'int'>, <class 'str'>, None)
    """
    if isinstance(function, type):
        return function
    return known(_return_hint(function))


def flat_map_output(function: Callable[..., Iterable[object]]) -> Hint | None:
    """Return the element type of the iterable that a function is annotated to return; None if unknown.

    Example:
        >>> def words(text: str) -> list[str]: return text.split()
        >>> flat_map_output(words)
        <class 'str'>
    """
    return _element(_return_hint(function))


def process_output(function: ProcessingFunction) -> Hint | None:
    """Return the type of the records that a process function emits; None if it is not known. It is the last
    type argument of the function's class, else the element type of the iterable that `process` is annotated
    to return, if `process_broadcast` agrees or is annotated to return None.
    """
    for base in _PROCESS_FUNCTIONS:
        if isinstance(function, base):
            arguments = generic_arguments(type(function), base)
            if arguments and (found := known(arguments[-1])) is not None:
                return found
    hints = [_return_hint(getattr(function, name, None)) for name in ("process", "process_broadcast")]
    if not hasattr(function, "process_broadcast") or hints[1] is type(None):
        hints.pop()
    kinds = [_element(hint) for hint in hints]
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else None


def declared_keys(function: ProcessingFunction, selector: KeySelector, records: Node) -> DeclaredKeys | None:
    """Return the key type that a program declares for a keyed function; None if it leaves the type open. The
    first of these counts: the type argument of the function's class, the return annotation of key function
    `selector`, the fields that `selector` names in the record type of the input's node, `records`.
    """
    if (found := keys_of_function(type(function))) is not None:
        return found
    if callable(selector):
        name = getattr(selector, "__qualname__", type(selector).__name__)
        declared, teller = map_output(selector), f"key function {name.rpartition('.')[2]}"
    else:
        names = (selector,) if isinstance(selector, str) else selector
        hints = [field_hint(records.record_type, name) for name in names]
        declared = hints[0] if isinstance(selector, str) else types.GenericAlias(tuple, tuple(hints))
        of = getattr(records.record_type, "__name__", "the records")
        teller = f"field{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))} of {of}"
    return DeclaredKeys(declared, teller) if _tells_keys(declared) else None


def keys_of_function(cls: type) -> DeclaredKeys | None:
    """Return the key type that a keyed function's class declares by its type argument; else None.

    Example:
        >>> class Count(KeyedProcessFunction[int, str, str]): ...
        >>> keys_of_function(Count)
        DeclaredKeys(hint=<class 'int'>, teller='function Count')
    """
    for base in (KeyedProcessFunction, KeyedBroadcastProcessFunction):
        arguments = generic_arguments(cls, base) if issubclass(cls, base) else None
        if arguments and _tells_keys(arguments[0]):
            return DeclaredKeys(arguments[0], f"function {cls.__name__}")
    return None


def _tells_keys(hint: Hint | None) -> TypeGuard[Hint]:
    return hint is not None and known(hint) is not None and not says_nothing(hint)


def field_hint(record_type: Hint | None, name: str) -> Hint:
    """Return the type that the class `record_type` declares for field `name` by annotation. It is ``Any`` if
    there is no such class or field, or an annotation cannot be resolved: this only hints.
    """
    if not isinstance(record_type, type):
        return Any
    try:
        hint: Hint = get_type_hints(record_type).get(name, Any)
        return hint
    except Exception:  # an annotation is arbitrary code of the user's; it only hints
        return Any


def source_output(source: Source[T]) -> Hint | None:
    """Return the record type of a source, from its class's type argument; None if it has none."""
    arguments = generic_arguments(type(source), Source)
    return known(arguments[0]) if arguments else None


def tag_output(tag: OutputTag[T]) -> Hint | None:
    """Return the record type of a side output whose tag was made as ``OutputTag[int]("late")``; else None."""
    arguments = get_args(getattr(tag, "__orig_class__", None))
    return known(arguments[0]) if arguments else None


def common_scalar(records: Sequence[T]) -> type[T] | None:
    """Return the class (int, float, bool, str or bytes) that all records have; None if there is none.

    Example:
        >>> common_scalar([1, 2]), common_scalar([1, "a"])
        (<class 'int'>, None)
    """
    kinds = set(map(type, records))
    return kinds.pop() if len(kinds) == 1 and kinds <= _SCALARS else None


def rebuildable(hint: Hint | None) -> type | None:
    """Return `hint` if it is a record class that `collect()` can rebuild (dataclass and alike); else None."""
    marks = ("__dataclass_fields__", "__struct_fields__", "_fields")
    return hint if isinstance(hint, type) and any(hasattr(hint, mark) for mark in marks) else None


def _return_hint(function: Callable[..., object] | None) -> Hint | None:
    while isinstance(function, functools.partial):
        function = function.func
    if callable(function) and not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function).get("return")
    except Exception:  # an annotation is arbitrary code of the user's; it only hints
        return None


def known(hint: Hint | None) -> Hint | None:
    """Return `hint`, or None where it says nothing about the type."""
    if hint is Any or isinstance(hint, (TypeVar, typing_extensions.TypeVar, str)):
        return None
    return None if getattr(hint, "__parameters__", ()) and not isinstance(hint, type) else hint


def _element(hint: Hint | None) -> Hint | None:
    if get_origin(hint) in (Union, types.UnionType):
        some = [option for option in get_args(hint) if option is not type(None)]
        hint = some[0] if len(some) == 1 else None
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return str
    if not (isinstance(origin, type) and issubclass(origin, collections.abc.Iterable) and arguments):
        return None
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        return None
    return known(arguments[0])
