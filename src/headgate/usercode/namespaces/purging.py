"""Releases what the standard library keeps of a namespace that has closed, so that its memory is freed.

Each registry here kept a real package alive: typing's overloads every typed one, finalizers sqlalchemy,
the dispatch table of pickling, handlers of logging. Attributes of standard modules that user code has
replaced by its own get back what they were when the namespace was opened.
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
from typing import Final, TypeVar

from headgate.usercode.namespaces.dispatch import framework_table
from headgate.usercode.namespaces.loader import TOKEN, Namespace
from headgate.usercode.resolution import STANDARD_LIBRARY

T = TypeVar("T")

NOT_LOOKED_AT: Final = frozenset({"sys", "builtins"})
"""Their attributes are the interpreter's own; hooks in `sys` are reverted one by one."""
HOOKS: Final = ("excepthook", "displayhook", "unraisablehook")


class StandardLibrary:
    """The attributes of standard modules when a namespace opens, to undo patches by its code at its end."""

    def __init__(self) -> None:
        table = sys.modules
        everything = getattr(table, "of_framework", table.copy)()
        self._before = {
            name: dict(module.__dict__)
            for name, module in everything.items()
            if isinstance(module, types.ModuleType)
            and name.partition(".")[0] in STANDARD_LIBRARY
            and name not in NOT_LOOKED_AT
        }

    def restore(self, namespace: Namespace) -> Counter[str]:
        """Put back attributes that a namespace's code replaced; return counts by module and attribute."""
        restored: Counter[str] = Counter()
        for name, before in self._before.items():
            module = dict.get(sys.modules, name)
            if module is None:
                continue
            for attribute, value in list(module.__dict__.items()):
                if value is before.get(attribute) or not _is_patch(namespace, name, value):
                    continue
                restored[f"patched {name}.{attribute}"] += 1
                if attribute in before:
                    setattr(module, attribute, before[attribute])
                else:
                    delattr(module, attribute)
        return restored


def purge(namespace: Namespace, library: StandardLibrary) -> Counter[str]:
    """Remove what a closed namespace left in registries of Python, and undo its patches of standard modules.
    Returns how many entries were removed, by registry or patched attribute.
    """
    found: Counter[str] = Counter()
    for purged in (_overloads, _finalizers, _pickling, _logging, _exit_finalizers, _hooks, _files, _strays):
        purged(namespace, found)
    found += library.restore(namespace)
    _typing_caches(namespace)
    return found


def made_in(namespace: Namespace, function: types.FunctionType) -> bool:
    return getattr(function, "__builtins__", None) is namespace.builtins


def owned(namespace: Namespace, thing: T) -> bool:
    """Return whether a function, method or class, or an instance of one, was made by a namespace's code."""
    function = getattr(thing, "__func__", thing)
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    if not isinstance(function, types.FunctionType):
        function = getattr(function, "__wrapped__", function)
    if isinstance(function, types.FunctionType):
        return made_in(namespace, function)
    kind = function if isinstance(function, type) else type(function)
    return any(base in namespace.classes for base in kind.__mro__)


def _is_patch(namespace: Namespace, module: str, value: T) -> bool:
    if isinstance(value, types.FunctionType):
        return made_in(namespace, value)
    return isinstance(value, type) and value in namespace.classes and value.__module__ != module


def _overloads(namespace: Namespace, found: Counter[str]) -> None:
    registry = getattr(typing, "_overload_registry", {})
    for module in list(registry):
        for name, functions in list(registry[module].items()):
            for line, function in list(functions.items()):
                if owned(namespace, function):
                    del functions[line]
                    found["typing.overload"] += 1
            if not functions:
                del registry[module][name]
        if not registry[module]:
            del registry[module]


def _typing_caches(namespace: Namespace) -> None:
    cleanups: list[Callable[[], None]] = getattr(typing, "_cleanups", [])
    for clear in cleanups:
        clear()
    cleanups[:] = [
        clear
        for clear in cleanups
        if not owned(namespace, getattr(getattr(clear, "__self__", None), "__wrapped__", clear))
    ]


def _finalizers(namespace: Namespace, found: Counter[str]) -> None:
    registry = getattr(weakref.finalize, "_registry", {})
    for finalizer, info in list(registry.items()):
        if owned(namespace, info.func):
            finalizer.detach()
            found["weakref.finalize"] += 1


def _pickling(namespace: Namespace, found: Counter[str]) -> None:
    for kind, reduce in list(copyreg.dispatch_table.items()):
        if owned(namespace, reduce) or owned(namespace, kind):
            del copyreg.dispatch_table[kind]
            found["copyreg.dispatch_table"] += 1


def _logging(namespace: Namespace, found: Counter[str]) -> None:
    manager = logging.Logger.manager
    for name, logger in [("", logging.root), *manager.loggerDict.items()]:
        if not isinstance(logger, logging.Logger):
            continue
        for handler in list(logger.handlers):
            if owned(namespace, handler) or owned(namespace, handler.formatter):
                logger.removeHandler(handler)
                found["logging handler"] += 1
        for kept in list(logger.filters):
            if owned(namespace, kept):
                logger.removeFilter(kept)
                found["logging filter"] += 1
        if name and owned(namespace, type(logger)):
            del manager.loggerDict[name]
            found["logger"] += 1
    if manager.loggerClass is not None and owned(namespace, manager.loggerClass):
        manager.loggerClass = None
    if owned(namespace, logging.getLoggerClass()):
        logging.setLoggerClass(logging.Logger)


def _exit_finalizers(namespace: Namespace, found: Counter[str]) -> None:
    registry = getattr(multiprocessing.util, "_finalizer_registry", {})
    for key, finalizer in list(registry.items()):
        if owned(namespace, getattr(finalizer, "_callback", None)):
            del registry[key]
            found["multiprocessing finalizer"] += 1


def _hooks(namespace: Namespace, found: Counter[str]) -> None:
    for name in HOOKS:
        if owned(namespace, getattr(sys, name)):
            setattr(sys, name, getattr(sys, f"__{name}__"))
            found[f"sys.{name}"] += 1


def _files(namespace: Namespace, found: Counter[str]) -> None:
    prefixes = tuple(namespace.artifacts)
    for cache in (linecache.cache, sys.path_importer_cache):
        for name in [name for name in cache if name.startswith(prefixes)] if prefixes else []:
            del cache[name]
            found["cached file or finder"] += 1


def _strays(namespace: Namespace, found: Counter[str]) -> None:
    table = framework_table()
    for name, module in table.of_framework().items():
        token = getattr(module, "__dict__", {}).get(TOKEN)
        mine = namespace.tokens.get(name)
        if token is not None and mine is not None and mine() is token:
            dict.pop(table, name, None)
            found[f"stray {name}"] += 1
