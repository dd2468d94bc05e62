"""Which realm the running code belongs to.

A context variable says so where the framework has called into a realm. Where it says nothing, in a
callback or a thread of somebody else's, the nearest function on the stack that was made in a realm does:
its builtins carry the realm's mark. The framework pins its own loops to itself, which saves that walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from headgate.usercode.realm.interpreter import builtins_of_caller, builtins_on_stack
from headgate.usercode.realm.kept import put_back

MARK: Final = "__headgate_realm__"
"""In the builtins of a realm: its handle."""


class View(Protocol):
    """What `sys.modules` and the like ask a realm for; a closed one refuses."""

    path: Any
    meta_path: Any

    def home(self, name: str) -> dict[str, Any] | None:
        """The table that a module of this name lies in; None is the framework's."""
        ...

    def store(self, name: str, module: Any) -> None:
        """Enter a module, for this realm alone."""
        ...

    def forget(self, name: str) -> None:
        """A module was taken out of :meth:`home`; its name may mean another one now."""
        ...

    def clear(self) -> None:
        """Take all out of the realm's own table."""
        ...

    def view(self) -> dict[str, Any]:
        """All modules that this realm sees."""
        ...


class Handle:
    """The way from a context to its realm.

    Contexts outlive realms, in an event loop for instance: at its end a realm takes itself out of here.
    """

    __slots__ = ("realm",)

    def __init__(self, realm: Any) -> None:
        self.realm = realm


FRAMEWORK: Final = Handle(None)
"""Pins a context to the framework's own view."""
_handle: ContextVar[Handle | None] = ContextVar("headgate.usercode.realm", default=None)
handle_of_context: Final = _handle.get
enter: Final = _handle.set
leave: Final = _handle.reset
_open: set[int] = set()
"""Realms that were opened and not closed: without any, no stack is walked."""


def current() -> Any:
    """The realm (or what a closed one has left) whose code runs; None is the framework."""
    handle = handle_of_context()
    if handle is not None:
        return handle.realm
    return _by_stack() if _open else None


def _by_stack() -> Any:
    for found in builtins_on_stack(2):
        handle = found.get(MARK)
        if handle is not None:
            return handle.realm
    return None


def handle_of_caller(depth: int) -> Handle | None:
    """The handle in the builtins of the calling function's caller."""
    handle: Handle | None = builtins_of_caller(depth + 1).get(MARK)
    return handle


def opened(handle: Handle) -> None:
    """A realm is there from now on."""
    _open.add(id(handle))


def closed(handle: Handle) -> None:
    """It is no longer."""
    _open.discard(id(handle))


def any_open() -> bool:
    """Whether there is a realm at all."""
    return bool(_open)


@contextmanager
def pinned_to_framework() -> Iterator[None]:
    """Within it, modules are the framework's, whoever called."""
    put_back()
    token = enter(FRAMEWORK)
    try:
        yield
    finally:
        leave(token)
