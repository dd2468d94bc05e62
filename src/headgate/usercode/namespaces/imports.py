"""The functions that `import` statements call, in namespaces and in the framework, and their installation."""

from __future__ import annotations

import importlib
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import ParamSpec, Protocol, TypeVar

from headgate.usercode import code_release as release
from headgate.usercode.namespaces import context, interpreter
from headgate.usercode.namespaces.context import (
    FRAMEWORK,
    Handle,
    Modules,
    any_open,
    enter,
    handle_of_caller,
    handle_of_context,
    leave,
    restore_containers,
)
from headgate.usercode.namespaces.dispatch import DispatchingList, ModuleTable
from headgate.usercode.namespaces.interpreter import Import, Names, import_by_name
from headgate.usercode.resolution import STANDARD_LIBRARY

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_BETWEEN = frozenset({__name__, interpreter.__name__})
"""Modules whose wrappers lie between `Thread.start` and here."""
_installed = False


class Importing(Protocol):
    """An isolated namespace as the import statements of its code see it.
    `modules` is its own table; `foreign` has modules of other tables that its code has imported.
    """

    modules: Modules
    foreign: Modules
    handle: Handle

    def remember(self, name: str) -> None:
        """Record a module of another table, so that the next import of the name takes one look."""


def import_of_namespace(namespace: Importing) -> Import:
    """Return the `__import__` of an isolated namespace: it imports for that namespace, whoever calls it.
    A module that was imported before is found in one of two dicts; all else goes through importlib, which
    sees the namespace's modules meanwhile.
    """
    modules, foreign, handle = namespace.modules, namespace.foreign, namespace.handle
    reference = weakref.ref(namespace)

    def imported(
        name: str,
        globals: Names = None,
        locals: Names = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0:
            found = modules.get(name)
            if found is None:
                found = foreign.get(name)
            if found is not None:
                wanted = _at_once(name, found, fromlist, modules, foreign)
                if wanted is not None:
                    return wanted
        token = enter(handle)
        try:
            found = import_by_name(name, globals, locals, fromlist, level)
        finally:
            leave(token)
        owner = reference()
        if level == 0 and owner is not None and name not in modules:
            owner.remember(name)
        return found

    return imported


def _at_once(
    name: str, found: ModuleType, fromlist: Sequence[str] | None, modules: Modules, foreign: Modules
) -> ModuleType | None:
    if getattr(getattr(found, "__spec__", None), "_initializing", False):
        return None
    if fromlist:
        return found if all(hasattr(found, wanted) for wanted in fromlist) else None
    top, dot, _ = name.partition(".")
    if not dot:
        return found
    of_top = modules.get(top)
    return foreign.get(top) if of_top is None else of_top


def import_of_framework(before: Import) -> Import:
    """Return the `__import__` for code of no namespace, by `before`: it imports the framework's modules.

    Also where a namespace's code has called that code. C code and explicit calls (no globals, or a list of
    names) import for the namespace of the context variable instead: they act for their caller.
    """

    def imported(
        name: str,
        globals: Names = None,
        locals: Names = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        handle: Handle | None = handle_of_context()
        if handle is FRAMEWORK or (handle is None and not any_open()):
            return before(name, globals, locals, fromlist, level)
        if globals is None or type(fromlist) is list:
            return before(name, globals, locals, fromlist, level)
        restore_containers()
        token = enter(FRAMEWORK)
        try:
            return before(name, globals, locals, fromlist, level)
        finally:
            leave(token)

    return imported


def import_module_of_caller() -> Callable[..., ModuleType]:
    """Return an `importlib.import_module` that imports for its caller's namespace if no context is set."""
    before = importlib.import_module

    def import_module(name: str, package: str | None = None) -> ModuleType:
        handle = handle_of_caller(1) if handle_of_context() is None else None
        if handle is None:
            return before(name, package)
        token = enter(handle)
        try:
            return before(name, package)
        finally:
            leave(token)

    return import_module


def install() -> None:
    """Prepare this process for isolated namespaces, for good; calls after the first do nothing.
    NoIsolationError if its interpreter allows none; nothing has changed then.
    """
    global _installed
    with _lock:
        if _installed:
            return
        table = ModuleTable(sys.modules)
        interpreter.replace_module_table(table)
        path = DispatchingList(sys.path, "path")
        meta_path = DispatchingList(sys.meta_path, "meta_path")
        context.keep_in_sys(path, meta_path, table)
        interpreter.replace_import(import_of_framework)
        importlib.import_module = import_module_of_caller()
        interpreter.wrap_thread_start(_inheriting)
        release.ask_for_owner(context.current)
        _installed = True


def is_installed() -> bool:
    return _installed


def _inheriting(run: Callable[P, R]) -> Callable[P, R]:
    """Wrap a thread's `run` to begin in the namespace of user code that starts it, which notes the thread."""
    namespace = context.current()
    if namespace is None or not _is_started_by_user_code():
        return run
    handle = namespace.handle
    if handle is None:
        return run
    thread = getattr(run, "__self__", None)
    if isinstance(thread, threading.Thread):
        namespace.threads.add(thread)

    def run_in_namespace(*args: P.args, **kwargs: P.kwargs) -> R:
        context.enter(handle)
        return run(*args, **kwargs)

    return run_in_namespace


def _is_started_by_user_code() -> bool:
    for frame in interpreter.callers(sys._getframe(2)):
        module = str(frame.f_globals.get("__name__", ""))
        if module not in _BETWEEN and module.partition(".")[0] not in STANDARD_LIBRARY:
            return context.MARK in frame.f_builtins
    return False
