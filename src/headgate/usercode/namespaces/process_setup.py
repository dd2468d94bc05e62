"""What a process does once before its first namespace: the dispatching containers take their places."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from headgate.usercode import code_release as release
from headgate.usercode.namespaces import context, interpreter
from headgate.usercode.namespaces.dispatch import DispatchingList, ModuleTable
from headgate.usercode.namespaces.imports import import_module_of_caller, import_of_framework
from headgate.usercode.resolution import STANDARD_LIBRARY

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_BETWEEN = frozenset({__name__, interpreter.__name__})
"""Modules whose wrappers lie between `Thread.start` and here."""
_installed = False


def install() -> None:
    """Prepare this process for namespaces; does nothing the second time.

    It may happen before a daemon forks its workers; namespaces are opened after the fork only.
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
    """Whether :func:`install` has been here."""
    return _installed


def _inheriting(run: Callable[P, R]) -> Callable[P, R]:
    """Have a thread begin in the namespace of the code that starts it, if that is user code."""
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
    """Whether the nearest function that is not the standard library's is a namespace's."""
    for frame in interpreter.callers(sys._getframe(2)):
        module = str(frame.f_globals.get("__name__", ""))
        if module not in _BETWEEN and module.partition(".")[0] not in STANDARD_LIBRARY:
            return context.MARK in frame.f_builtins
    return False
