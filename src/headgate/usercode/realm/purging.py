"""What the standard library keeps of a realm, released when it closes.

Each registry here kept a real package alive: typing's overloads every typed one, finalizers sqlalchemy,
the dispatch table of pickling, handlers of logging. Attributes of standard modules that user code has
replaced by its own get back what they were when the realm was opened.
"""

from __future__ import annotations

import copyreg
import linecache
import logging
import multiprocessing.util
import sys
import types
import typing
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from headgate.usercode.realm.loader import TOKEN, Realm
from headgate.usercode.resolution import STANDARD_LIBRARY

NOT_LOOKED_AT: Final = frozenset({"sys", "builtins"})
"""Their attributes are the interpreter's own; hooks in `sys` are put back one by one."""
HOOKS: Final = ("excepthook", "displayhook", "unraisablehook")


class StandardLibrary:
    """The attributes of standard modules as they are when a realm opens."""

    def __init__(self) -> None:
        table: Any = sys.modules
        everything = getattr(table, "of_framework", table.copy)()
        self._before = {
            name: dict(module.__dict__)
            for name, module in everything.items()
            if isinstance(module, types.ModuleType)
            and name.partition(".")[0] in STANDARD_LIBRARY
            and name not in NOT_LOOKED_AT
        }

    def restore(self, realm: Realm) -> Counter[str]:
        """Put back what a realm's code has replaced; counts it by module and attribute."""
        restored: Counter[str] = Counter()
        for name, before in self._before.items():
            module = dict.get(sys.modules, name)
            if module is None:
                continue
            for attribute, value in list(module.__dict__.items()):
                if value is before.get(attribute) or not _is_patch(realm, name, value):
                    continue
                restored[f"patched {name}.{attribute}"] += 1
                if attribute in before:
                    setattr(module, attribute, before[attribute])
                else:
                    delattr(module, attribute)
        return restored


def purge(realm: Realm, library: StandardLibrary) -> Counter[str]:
    """Release what registries of this process hold of a realm that has closed; counts it by registry."""
    found: Counter[str] = Counter()
    for purged in (
        _overloads,
        _finalizers,
        _pickling,
        _logging,
        _exit_finalizers,
        _hooks,
        _files,
        _strays,
    ):
        purged(realm, found)
    found += library.restore(realm)
    _typing_caches(realm)
    return found


def made_in(realm: Realm, function: types.FunctionType) -> bool:
    """Whether a function was made by a realm's code."""
    return getattr(function, "__builtins__", None) is realm.builtins


def owned(realm: Realm, thing: Any) -> bool:
    """Whether a function, method or class, or an instance of one, was made by a realm's code."""
    function = getattr(thing, "__func__", thing)
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    if not isinstance(function, types.FunctionType):
        function = getattr(function, "__wrapped__", function)
    if isinstance(function, types.FunctionType):
        return made_in(realm, function)
    kind = function if isinstance(function, type) else type(function)
    return any(base in realm.classes for base in kind.__mro__)


def _is_patch(realm: Realm, module: str, value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return made_in(realm, value)
    return isinstance(value, type) and value in realm.classes and value.__module__ != module


def _overloads(realm: Realm, found: Counter[str]) -> None:
    registry: Any = getattr(typing, "_overload_registry", {})
    for module in list(registry):
        for name, functions in list(registry[module].items()):
            for line, function in list(functions.items()):
                if owned(realm, function):
                    del functions[line]
                    found["typing.overload"] += 1
            if not functions:
                del registry[module][name]
        if not registry[module]:
            del registry[module]


def _typing_caches(realm: Realm) -> None:
    cleanups: list[Callable[[], None]] = getattr(typing, "_cleanups", [])
    for clear in cleanups:
        clear()
    cleanups[:] = [
        clear
        for clear in cleanups
        if not owned(realm, getattr(getattr(clear, "__self__", None), "__wrapped__", clear))
    ]


def _finalizers(realm: Realm, found: Counter[str]) -> None:
    registry: dict[Any, Any] = getattr(weakref.finalize, "_registry", {})
    for finalizer, info in list(registry.items()):
        if owned(realm, info.func):
            finalizer.detach()
            found["weakref.finalize"] += 1


def _pickling(realm: Realm, found: Counter[str]) -> None:
    for kind, reduce in list(copyreg.dispatch_table.items()):
        if owned(realm, reduce) or owned(realm, kind):
            del copyreg.dispatch_table[kind]
            found["copyreg.dispatch_table"] += 1


def _logging(realm: Realm, found: Counter[str]) -> None:
    manager = logging.Logger.manager
    for name, logger in [("", logging.root), *manager.loggerDict.items()]:
        if not isinstance(logger, logging.Logger):
            continue
        for handler in list(logger.handlers):
            if owned(realm, handler) or owned(realm, handler.formatter):
                logger.removeHandler(handler)
                found["logging handler"] += 1
        for kept in list(logger.filters):
            if owned(realm, kept):
                logger.removeFilter(kept)
                found["logging filter"] += 1
        if name and owned(realm, type(logger)):
            del manager.loggerDict[name]
            found["logger"] += 1
    if manager.loggerClass is not None and owned(realm, manager.loggerClass):
        manager.loggerClass = None
    if owned(realm, logging.getLoggerClass()):
        logging.setLoggerClass(logging.Logger)


def _exit_finalizers(realm: Realm, found: Counter[str]) -> None:
    registry: dict[Any, Any] = getattr(multiprocessing.util, "_finalizer_registry", {})
    for key, finalizer in list(registry.items()):
        if owned(realm, getattr(finalizer, "_callback", None)):
            del registry[key]
            found["multiprocessing finalizer"] += 1


def _hooks(realm: Realm, found: Counter[str]) -> None:
    for name in HOOKS:
        if owned(realm, getattr(sys, name)):
            setattr(sys, name, getattr(sys, f"__{name}__"))
            found[f"sys.{name}"] += 1


def _files(realm: Realm, found: Counter[str]) -> None:
    prefixes = tuple(realm.brought)
    for cache in (linecache.cache, sys.path_importer_cache):
        for name in [name for name in cache if name.startswith(prefixes)] if prefixes else []:
            del cache[name]
            found["cached file or finder"] += 1


def _strays(realm: Realm, found: Counter[str]) -> None:
    """Modules that C code has entered into the framework's table."""
    table: Any = sys.modules
    for name, module in table.of_framework().items():
        token = getattr(module, "__dict__", {}).get(TOKEN)
        mine = realm.tokens.get(name)
        if token is not None and mine is not None and mine() is token:
            dict.pop(table, name, None)
            found[f"stray {name}"] += 1
