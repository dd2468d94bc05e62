"""Which namespace the running code belongs to, and the containers in `sys` that show it that namespace.

A context variable names the namespace where the framework has called into it. Where it is not set, in a
callback or a thread of another owner, the nearest function on the stack that was made in a namespace does,
whose builtins carry its mark. The framework pins its own loops to itself, which saves that walk. The
containers stay where they are: `sys.path = [...]` means the path of the code that assigns it, which is looked
for wherever an import begins.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headgate.usercode.code_release import HookOwner
from headgate.usercode.namespaces.interpreter import builtins_of_caller, builtins_on_stack

T = TypeVar("T", contravariant=True)
C = TypeVar("C")

MARK: Final = "__headgate_namespace__"
"""In the builtins of a namespace: its handle."""


if TYPE_CHECKING:
    import threading
    from weakref import WeakSet

    from _typeshed.importlib import MetaPathFinderProtocol as MetaPathFinder

Modules = dict[str, ModuleType]
"""A table of modules; a program may enter what is no module, which is handed out as it is."""


class View(HookOwner, Protocol):
    """What `sys.modules` and the like ask a namespace for; a closed one refuses."""

    @property
    def handle(self) -> Handle | None:
        """What contexts hold of it; None after its end."""

    @property
    def threads(self) -> WeakSet[threading.Thread]:
        """The threads that its code has started."""

    @property
    def path(self) -> list[str]:
        """The view's `sys.path`."""

    @property
    def meta_path(self) -> list[MetaPathFinder]:
        """The view's `sys.meta_path`."""

    def home(self, name: Hashable) -> Modules | None:
        """Return the table that a module of this name lies in; None is the framework's."""

    def store(self, name: str, module: ModuleType) -> None:
        """Enter a module, for this namespace alone."""

    def forget(self, name: str) -> None:
        """A module was taken out of :meth:`home`; its name may mean another one now."""

    def clear(self) -> None:
        """Take all out of the namespace's own table."""

    def view(self) -> Modules:
        """Return the modules that this namespace sees."""


class Handle:
    """The way from a context to its namespace, which a context may outlive, for instance in an event loop."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: View | None) -> None:
        self.namespace = namespace


FRAMEWORK: Final = Handle(None)
"""Pins a context to the framework's own view."""
_handle: ContextVar[Handle | None] = ContextVar("headgate.usercode.namespaces", default=None)
handle_of_context: Final = _handle.get
enter: Final = _handle.set
leave: Final = _handle.reset
_open: set[int] = set()
"""Namespaces that were opened and not closed: without any, no stack is walked."""


def current() -> View | None:
    """Return the namespace (or what a closed one has left) whose code runs; None is the framework."""
    handle = handle_of_context()
    if handle is not None:
        return handle.namespace
    return _by_stack() if _open else None


def _by_stack() -> View | None:
    for found in builtins_on_stack(2):
        handle: Handle | None = found.get(MARK)
        if handle is not None:
            return handle.namespace
    return None


def handle_of_caller(depth: int) -> Handle | None:
    """Return the handle in the builtins of the calling function's caller."""
    handle: Handle | None = builtins_of_caller(depth + 1).get(MARK)
    return handle


def opened(handle: Handle) -> None:
    """A namespace is there from now on."""
    _open.add(id(handle))


def closed(handle: Handle) -> None:
    """A namespace is there no longer."""
    _open.discard(id(handle))


def any_open() -> bool:
    """Return whether there is a namespace at all."""
    return bool(_open)


class Container(Protocol[T]):
    """One of the containers in `sys`, which takes assignments of type `T`."""

    def replace(self, value: T) -> None:
        """Show the running code the contents of `value`."""


_path: Any = None
_meta_path: Any = None
_modules: Any = None


def keep_in_sys(
    path: Container[list[str]],
    meta_path: Container[list[MetaPathFinder]],
    modules: Container[Modules],
) -> None:
    """Have these attributes of `sys` be these containers for good."""
    global _path, _meta_path, _modules
    _path, _meta_path, _modules = path, meta_path, modules
    for name, container in (("path", path), ("meta_path", meta_path), ("modules", modules)):
        setattr(sys, name, container)


def restore_containers() -> None:
    """Have the containers in `sys` again that were replaced there, with the contents that were assigned.

    An import asks this as often as it looks for a module, so it must cost next to nothing.
    """
    if sys.path is _path and sys.meta_path is _meta_path and sys.modules is _modules:
        return
    _restore("path", _path)
    _restore("meta_path", _meta_path)
    _restore("modules", _modules)


def _restore(name: str, container: Container[C] | None) -> None:
    found = getattr(sys, name)
    if container is not None and found is not container and found is not None:  # None: Python ends
        setattr(sys, name, container)
        container.replace(found)


@contextmanager
def in_view_of(handle: Handle) -> Iterator[None]:
    """Let modules in the block be those of the handle's owner."""
    token = enter(handle)
    try:
        yield
    finally:
        leave(token)


@contextmanager
def pinned_to_framework() -> Iterator[None]:
    """Let modules in the block be the framework's, for any caller."""
    restore_containers()
    token = enter(FRAMEWORK)
    try:
        yield
    finally:
        leave(token)
