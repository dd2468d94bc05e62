"""Checks that the program's functions can be sent to the workers, or finds the variable that cannot.

Every function and connector of the program is pickled once, by value where it lives in the program's own
script, and thrown away. When that fails, the object is searched as the pickler would walk it (closure,
globals, defaults, attributes, elements), down to the first thing that fails by itself.
"""

from __future__ import annotations

import functools
import inspect
import io
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from headgate.common.errors import NotShippableError
from headgate.common.process.process_exceptions import let_pass
from headgate.graph.logical import Node
from headgate.graph.rewrites import place
from headgate.graph.table_nodes import functions_within
from headgate.serde.shipping.shipping_pickler import shipping_pickler

_FIELDS = ("function", "key", "source", "sink")
_DEPTH_MAX = 12
_CREATE = "create it in open(), which runs in the worker"
_NO_SPARK = "Spark is reachable in the driver only; pass the plain values that the function needs"
_ADVICE = {
    "lock": _CREATE,
    "RLock": _CREATE,
    "socket": "connect in open(), which runs in the worker",
    "generator": "ship what makes the generator, or a list of its elements",
    "SparkSession": _NO_SPARK,
    "SparkContext": _NO_SPARK,
    "DataFrame": "collect what the function needs before and pass the plain values",
    "module": "import it inside the function",
}
_ADVICE_FILE = "open the file in open(), which runs in the worker"
_ADVICE_OTHER = "make it in open() of a ProcessFunction or KeyedProcessFunction, which runs in the worker"


Parts: TypeAlias = Iterator[tuple[str, Any]]
"""The parts of an object that a pickler would visit, each as (how it is reached, in words; the part)."""


class Culprit(NamedTuple):
    """An object that cannot be pickled, the steps to it from the object to ship (none: the same), and why."""

    path: tuple[str, ...]
    value: object
    reason: str  # the pickler's message


def check_shippable(nodes: Iterable[Node]) -> None:
    """Raise NotShippableError if a function, key, timestamp, source or sink cannot be pickled for workers."""
    for node in nodes:
        timestamp = getattr(getattr(node, "strategy", None), "timestamp", None)
        fields = (getattr(node, field, None) for field in _FIELDS)
        for thing in (*fields, timestamp, *functions_within(node)):
            if thing is None or isinstance(thing, (str, tuple)):
                continue
            error = shipping_error(thing)
            if error is not None:
                raise NotShippableError(_sentence(node, thing, find_culprit(thing, error)))


def shipping_error(thing: object) -> str | None:
    """Return why `thing` cannot be pickled; None when it can.

    Example:
        >>> shipping_error(lambda record: record) is None
        True
    """
    import cloudpickle

    class Tester(shipping_pickler(cloudpickle.Pickler)):  # type: ignore[misc]  # the package has no types
        """Pickler that refuses open files, which would otherwise travel as a copy of their unread part."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, io.IOBase) and _is_open_file(obj):
                raise TypeError("an open file")
            return super().reducer_override(obj)

    try:
        Tester(io.BytesIO()).dump(thing)
    except BaseException as error:  # picklers of third parties raise whatever they like
        let_pass(error)
        return str(error) or type(error).__name__
    return None


def find_culprit(thing: object, reason: str) -> Culprit:
    """Return the innermost part of `thing` that cannot be pickled; `reason` is why `thing` itself cannot."""
    path: tuple[str, ...] = ()
    seen = {id(thing)}
    for _ in range(_DEPTH_MAX):
        if not _worth_opening(thing):
            break
        for name, part in _parts(thing):
            error = None if id(part) in seen else shipping_error(part)
            if error is not None:
                path, thing, reason = (*path, name), part, error
                seen.add(id(part))
                break
        else:
            break
    return Culprit(path, thing, reason)


def _sentence(node: Node, thing: object, culprit: Culprit) -> str:
    kind = type(culprit.value)
    what = f"{' -> '.join(culprit.path)} is a {kind.__module__}.{kind.__qualname__}" if culprit.path else "it"
    what = what.replace("builtins.", "")
    return (
        f"{_name_of(thing)} of operator {place(node)} cannot be sent to the workers: {what}"
        f"{' cannot be pickled' if not culprit.path else ', which cannot be pickled'} ({culprit.reason}); "
        f"{_advice(culprit.value)}"
    )


def _advice(value: object) -> str:
    return _ADVICE_FILE if isinstance(value, io.IOBase) else _ADVICE.get(type(value).__name__, _ADVICE_OTHER)


def _name_of(thing: object) -> str:
    if inspect.isroutine(thing):
        code = getattr(thing, "__code__", None)
        where = f" (line {code.co_firstlineno})" if code is not None else ""
        return f"function {thing.__qualname__}{where}"
    return f"the {type(thing).__qualname__} object"


def _is_open_file(obj: io.IOBase) -> bool:
    try:
        obj.fileno()
    except (OSError, ValueError):
        return False
    return True


def _worth_opening(thing: object) -> bool:
    # The inside of a Spark session or a lock says nothing to the user; the variable that holds it does.
    module = type(thing).__module__
    return module.partition(".")[0] not in ("pyspark", "py4j", "_thread", "_io", "socket", "threading")


def _parts(thing: Any) -> Parts:
    match thing:
        case types.FunctionType():
            yield from _parts_of_function(thing)
        case types.MethodType():
            yield f"the object of method {thing.__name__}", thing.__self__
            yield f"function {thing.__func__.__qualname__}", thing.__func__
        case functools.partial():
            yield "the function of partial()", thing.func
            yield from ((f"argument {i} of partial()", value) for i, value in enumerate(thing.args))
            yield from ((f"argument {name!r} of partial()", value) for name, value in thing.keywords.items())
        case dict():
            yield from ((f"the key {key!r:.40}", key) for key in thing)
            yield from ((f"the value of {key!r:.40}", value) for key, value in thing.items())
        case list() | tuple() | set() | frozenset():
            yield from ((f"element {index}", value) for index, value in enumerate(thing))
        case type():
            yield from _parts_of_class(thing)
        case _:
            yield from _attributes(thing)
            yield f"class {type(thing).__qualname__}", type(thing)


def _parts_of_function(function: types.FunctionType) -> Parts:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # a variable that is not assigned yet
            continue
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"global variable {name!r}", function.__globals__[name]
    for index, value in enumerate(function.__defaults__ or ()):
        yield f"default value {index}", value
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f"default value of {name!r}", value
    for name, value in vars(function).items():
        yield f"attribute {name!r}", value


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _parts_of_class(cls: type) -> Parts:
    for name, value in vars(cls).items():
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            value = value.fget
        if isinstance(value, types.FunctionType):
            yield f"method {name}()", value
        elif not name.startswith("__"):
            yield f"class attribute {name!r}", value
    yield from ((f"base class {base.__qualname__}", base) for base in cls.__bases__ if base is not object)


def _attributes(thing: object) -> Parts:
    names = dict.fromkeys(getattr(thing, "__dict__", ()))
    for cls in type(thing).__mro__:
        slots = vars(cls).get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    for name in names:
        if hasattr(thing, name):
            yield f"attribute {name!r}", getattr(thing, name)
