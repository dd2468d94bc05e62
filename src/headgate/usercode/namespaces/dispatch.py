"""Replacements of `sys.modules`, `sys.path` and `sys.meta_path` that show each namespace its own contents.

The containers stay what they are for the framework: their own storage is its view.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headgate.usercode.namespaces.context import Modules, current, handle_of_context, restore_containers

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

V = TypeVar("V")

_MISSING: Final = object()


class ModuleTable(Modules):
    """The dict in `sys.modules`: it shows the running code the modules of its own isolated namespace.

    A module that code of a namespace enters under a name of the framework's is the namespace's alone, and one
    that it deletes there stays: `sys.modules["sqlite3"] = pysqlite3` changes no other program. For code of no
    namespace it is a plain dict of the framework's modules. Its keys, values and items are copies, as imports
    go on in other threads meanwhile.
    """

    __slots__ = ("__weakref__",)

    def _home(self, name: Hashable) -> Modules | None:
        restore_containers()
        handle = handle_of_context()
        namespace = current() if handle is None else handle.namespace
        return None if namespace is None else namespace.home(name)

    def __getitem__(self, name: str) -> ModuleType:
        home = self._home(name)
        return dict.__getitem__(self, name) if home is None else home[name]

    def __contains__(self, name: object) -> bool:
        home = self._home(name)
        return dict.__contains__(self, name) if home is None else name in home

    def __setitem__(self, name: str, module: ModuleType) -> None:
        namespace = current()
        if namespace is None:
            dict.__setitem__(self, name, module)
        elif namespace.home(name) is not None:
            namespace.store(name, module)
        elif _by_import(sys._getframe(1).f_globals):
            dict.__setitem__(self, name, module)
        elif dict.get(self, name, _MISSING) is not module:
            namespace.store(name, module)

    def __delitem__(self, name: str) -> None:
        namespace = current()
        home = None if namespace is None else namespace.home(name)
        if namespace is not None and home is not None:
            del home[name]
            namespace.forget(name)
        elif namespace is None or _by_import(sys._getframe(1).f_globals):
            dict.__delitem__(self, name)
        elif not dict.__contains__(self, name):
            raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        home = self._home(name)
        return dict.get(self, name, default) if home is None else home.get(name, default)

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Pop a module that the running code sees, as `dict.pop`; a namespace leaves the framework's."""
        namespace = current()
        home = None if namespace is None else namespace.home(name)
        if namespace is not None and home is not None:
            module = home.pop(name, default)
            namespace.forget(name)
        elif namespace is None or _by_import(sys._getframe(1).f_globals):
            module = dict.pop(self, name, default)
        else:
            module = dict.get(self, name, default)
        if module is _MISSING:
            raise KeyError(name)
        return module

    def clear(self) -> None:
        namespace = current()
        if namespace is None:
            dict.clear(self)
        else:
            namespace.clear()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the module that the running code sees; if there is none, enter and return `default`."""
        try:
            return self[name]
        except KeyError:
            self[name] = default
            return default

    def update(self, *others: Any, **more: Any) -> None:
        for name, module in dict(*others, **more).items():
            self[name] = module

    def copy(self) -> Modules:
        namespace = current()
        return dict(dict.items(self)) if namespace is None else namespace.view()

    def keys(self) -> dict_keys[str, ModuleType]:
        return self.copy().keys()

    def values(self) -> dict_values[str, ModuleType]:
        return self.copy().values()

    def items(self) -> dict_items[str, ModuleType]:
        return self.copy().items()

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self) if current() is None else iter(self.copy())

    def __len__(self) -> int:
        return dict.__len__(self) if current() is None else len(self.copy())

    def replace(self, modules: Mapping[str, ModuleType]) -> None:
        self.update(modules)

    def of_framework(self) -> Modules:
        """Return a copy of the framework's modules, by name, whichever code asks."""
        return dict(dict.items(self))


def framework_table() -> ModuleTable:
    """Return the :class:`ModuleTable` in `sys.modules`, which `install` puts there; AssertionError before."""
    table = sys.modules
    assert isinstance(table, ModuleTable), "install() has put it there"
    return table


def _by_import(calling: Mapping[str, V]) -> bool:
    return str(calling.get("__name__")).startswith("importlib._bootstrap")


class DispatchingList(list[V], Generic[V]):
    """The list in `sys.path` or `sys.meta_path`, which shows the running code the list of its own namespace.

    `attribute` is the name of that list in a namespace: "path" or "meta_path". For code of no namespace it
    holds the framework's entries.
    """

    def __init__(self, framework: Iterable[V], attribute: str) -> None:
        super().__init__(framework)
        self._attribute = attribute

    def replace(self, entries: Iterable[V]) -> None:
        """Put `entries` first in the running code's list, in place of an assignment `sys.path = entries`.

        Earlier entries stay after them: code that has kept this list to restore it has kept the list that is
        changed here.
        """
        wanted = list(entries)
        self[:] = [*wanted, *(entry for entry in self if entry not in wanted)]

    def of_framework(self) -> list[V]:
        """Return a copy of the framework's entries, whichever code asks."""
        return list.copy(self)

    def __radd__(self, other: Iterable[V]) -> list[V]:
        return [*other, *self]

    def __iadd__(self, other: Iterable[V]) -> DispatchingList[V]:  # type: ignore[misc,override]
        self.extend(other)
        return self


_METHODS: Final = (
    *("__iter__", "__len__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__reversed__"),
    *("__add__", "__mul__", "__eq__", "__repr__", "append", "insert", "remove", "extend", "index", "pop"),
    *("copy", "count", "clear", "reverse", "sort"),
)


def _dispatched(name: str) -> Callable[..., Any]:
    of_list = getattr(list, name)

    def method(self: DispatchingList[V], *args: Any, **kwargs: Any) -> Any:
        namespace = current()
        if namespace is None:
            return of_list(self, *args, **kwargs)
        return getattr(getattr(namespace, self._attribute), name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in _METHODS:
    setattr(DispatchingList, _name, _dispatched(_name))
