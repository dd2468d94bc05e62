"""Access of the runtime to code in an isolated namespace: calls, pickles, and checks of what leaves it.

Objects are pickled and restored by the framework's cloudpickle, loaded once more in the namespace: the user's
own version could not read payloads of another one, and the framework's module would restore for the
framework. Records that leave must not hold objects of the namespace's own copy of a data-plane package: C
code keeps what it imports in static variables, so an array of one NumPy in the hands of another one breaks
both. Plain values may leave, and pyarrow's tables, which both copies read by Arrow's C data interface.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final, TypeVar

from headgate.usercode.loading_errors import ForeignObjectError, UserCodeLoadError
from headgate.usercode.namespaces.context import Modules, pinned_to_framework
from headgate.usercode.namespaces.loader import Namespace
from headgate.usercode.resolution import ParentFirst

T = TypeVar("T")
V = TypeVar("V")

PICKLER: Final = "_headgate_pickler"
_loading: Final = threading.RLock()
"""Held while a pickler is loaded: it is among the modules before it is complete, and a program may begin
several jobs at once.
"""
_NEUTRAL: Final = ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_c_schema__")


class NamespaceCode:
    """Implements `common.ports.UserCode` for an isolated namespace.

    Objects of its own copies of the packages `data_plane` must not leave it.
    """

    def __init__(self, namespace: Namespace, data_plane: Sequence[str]) -> None:
        self.namespace, self._data_plane = namespace, ParentFirst(tuple(data_plane))

    def call(self, function: Callable[..., T], *args: Any) -> T:
        return self.namespace.call(function, *args)

    @property
    def refuse_leaving(self) -> Callable[[Iterable[Any]], None] | None:
        """A function that raises ForeignObjectError for records that must not leave; None: all may."""
        packages = (pattern.rstrip(".") for pattern in self._data_plane.patterns)
        if not any(self.namespace.home(package) is not None for package in packages):
            return None
        return lambda records: refuse_leaving(self.namespace, records, self._data_plane)

    def pickler(self) -> ModuleType:
        """Return the isolated namespace's copy of cloudpickle, loaded when it is first asked for."""
        with _loading:
            loaded = self.namespace.modules.get(PICKLER)
            if loaded is None:
                with pinned_to_framework():
                    spec = importlib.util.find_spec("cloudpickle.cloudpickle")
                assert spec is not None, "cloudpickle is one of the framework's requirements"
                assert spec.origin is not None, "it is a file"
                loaded = self.namespace.load_private(PICKLER, spec.origin)
            return loaded

    def load(self, payload: bytes) -> Any:
        """Return the object pickled in `payload`, with the namespace's classes; else UserCodeLoadError."""
        try:
            return self.namespace.call(self.pickler().loads, payload)
        except (ImportError, AttributeError) as error:
            raise UserCodeLoadError(
                f"what the driver has sent cannot be restored in the user code of {self.namespace.name!r}: "
                f"{error}; bring the module that defines it, in the version that the driver has"
            ) from error


def refuse_leaving(namespace: Namespace, values: Iterable[V], data_plane: ParentFirst) -> None:
    """Raise ForeignObjectError if a value is an object of the namespace's own copy of a data-plane package.
    `data_plane` are prefixes of the names of such packages (as NumPy). Elements of lists, tuples and dicts
    are looked at one level deep, and no attributes. Arrow's arrays and tables may leave.
    """
    for value in _parts(values):
        table, kind = _table(namespace, value, data_plane), type(value)
        if table is not None and getattr(table.get(kind.__module__), kind.__qualname__, None) is kind:
            raise ForeignObjectError(
                f"an object of type {kind.__module__}.{kind.__qualname__} was about to go out of the user "
                f"code of {namespace.name!r}, where the framework has another copy of that package, and C "
                "code of two copies must not meet; pass plain values or an Arrow table, or let both use one "
                "copy (classloader.native-modules=auto or parent)"
            )


def _parts(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        if type(value) in (list, tuple):
            yield from value
        elif type(value) is dict:
            yield from value.values()


def _table(namespace: Namespace, value: V, data_plane: ParentFirst) -> Modules | None:
    module = getattr(type(value), "__module__", None)  # a class may have put anything there
    if not isinstance(module, str) or data_plane.match(module) is None:
        return None
    if module.startswith("pyarrow.") and any(hasattr(value, name) for name in _NEUTRAL):
        return None
    return namespace.home(module)
