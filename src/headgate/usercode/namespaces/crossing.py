"""Refuses records that leave a namespace with objects of its own copy of a data-plane package.

An array of one NumPy in the hands of another one breaks both, and for good: C code keeps what it imports in
static variables. Plain values may leave, and pyarrow's tables, which both sides read by Arrow's C data
interface. Records are looked into through lists, tuples and dicts, one step deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Final, TypeVar

from headgate.usercode.errors import ForeignObjectError
from headgate.usercode.namespaces.context import Modules
from headgate.usercode.namespaces.loader import Namespace
from headgate.usercode.patterns import ParentFirst

V = TypeVar("V")

_NEUTRAL: Final = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_c_schema__")


def leaving(namespace: Namespace, data_plane: ParentFirst) -> Callable[[Iterable[V]], None] | None:
    """Give what refuses records on their way out; None where the namespace has no such package of its own."""
    if not any(namespace.home(pattern.rstrip(".")) is not None for pattern in data_plane.patterns):
        return None
    return lambda records: refuse_leaving(namespace, records, data_plane)


def refuse_leaving(namespace: Namespace, values: Iterable[V], data_plane: ParentFirst) -> None:
    """Refuse values that are of the namespace's own copy of a package."""
    for value in _parts(values):
        table = _table(namespace, value, data_plane)
        if table is not None and _named(table.get(type(value).__module__), type(value)) is type(value):
            raise _refused(
                value, f"out of the user code of {namespace.name!r}, where the framework has another copy"
            )


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        if type(value) in (list, tuple):
            yield from value
        elif type(value) is dict:
            yield from value.values()


def _table(namespace: Namespace, value: V, data_plane: ParentFirst) -> Modules | None:
    """The table with the namespace's own copy of a value's package; None where nothing can be wrong."""
    module = getattr(type(value), "__module__", None)  # a class may have put anything there
    if not isinstance(module, str) or data_plane.match(module) is None:
        return None
    if module.startswith("pyarrow.") and any(hasattr(value, name) for name in _NEUTRAL):
        return None
    return namespace.home(module)


def _named(module: ModuleType | None, kind: type) -> type | None:
    return getattr(module, kind.__qualname__, None)


def _refused(value: V, way: str) -> ForeignObjectError:
    kind = type(value)
    return ForeignObjectError(
        f"an object of type {kind.__module__}.{kind.__qualname__} was about to go {way} of that package, and "
        "C code of two copies must not meet; pass plain values or an Arrow table, or let both use one copy "
        "(classloader.native-modules=auto or parent)"
    )
