"""What a process does once before its first realm: the dispatching containers take their places."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from headgate.usercode.realm import context, interpreter
from headgate.usercode.realm.dispatch import DispatchingList, ModuleTable
from headgate.usercode.realm.imports import import_module_of_caller, import_of_framework

_lock = threading.Lock()
_installed = False


def install() -> None:
    """Prepare this process for realms; does nothing the second time.

    It may happen before a daemon forks its workers; realms are opened behind the fork only.

    Raises:
        NoIsolationError: this interpreter does not allow it; nothing has changed.
    """
    global _installed
    with _lock:
        if _installed:
            return
        table = ModuleTable(sys.modules)
        interpreter.replace_module_table(table)
        sys.path = DispatchingList(sys.path, "path")
        sys.meta_path = DispatchingList(sys.meta_path, "meta_path")
        interpreter.replace_import(import_of_framework)
        importlib.import_module = import_module_of_caller()
        interpreter.wrap_thread_start(_inheriting)
        _installed = True


def is_installed() -> bool:
    """Whether :func:`install` has been here."""
    return _installed


def _inheriting(run: Callable[..., Any]) -> Callable[..., Any]:
    """A thread begins in the realm of the code that starts it."""
    realm = context.current()
    if realm is None:
        return run
    handle = getattr(realm, "handle", None)
    if handle is None:
        return run
    thread = getattr(run, "__self__", None)
    if isinstance(thread, threading.Thread):
        realm.threads.add(thread)

    def run_in_realm(*args: Any, **kwargs: Any) -> Any:
        context.enter(handle)
        return run(*args, **kwargs)

    return run_in_realm
