"""Determines which namespace the running code belongs to, and installs `sys` containers that show it.

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
    """An isolated namespace as `sys` sees it; what stands in for a closed one raises on every use."""

    @property
    def handle(self) -> Handle | None:
        """The object by which contexts refer to this namespace; None for what stands in for a closed one."""

    @property
    def threads(self) -> WeakSet[threading.Thread]:
        """The threads that the isolated namespace's code has started."""

    @property
    def path(self) -> list[str]:
        """The isolated namespace's `sys.path`."""

    @property
    def meta_path(self) -> list[MetaPathFinder]:
        """The isolated namespace's `sys.meta_path`."""

    def home(self, name: Hashable) -> Modules | None:
        """Return the table, this namespace's or its layer's, where a module lies; None: the framework's."""

    def store(self, name: str, module: ModuleType) -> None:
        """Enter a module into the namespace's table, or its layer's for a name of that; no other sees it."""

    def forget(self, name: str) -> None:
        """Note that a module was removed from its table; its name may mean another owner's module now."""

    def clear(self) -> None:
        """Remove all modules from the isolated namespace's own table."""

    def view(self) -> Modules:
        """Return a dict of all modules that the isolated namespace's code sees."""


class Handle:
    """A reference from contexts, which may live longer, to a namespace or its stand-in; None: framework."""

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
    """Return the isolated namespace whose code runs; None: the framework's code runs.

    The context variable decides; where it is not set, the nearest function on the stack that a namespace
    made. Of a namespace that was closed it may be the stand-in, which refuses every use.
    """
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
    """Return the handle of the namespace whose function is `depth` frames above the caller; None: of none."""
    handle: Handle | None = builtins_of_caller(depth + 1).get(MARK)
    return handle


def opened(handle: Handle) -> None:
    """Record that an isolated namespace was opened, so that :func:`current` looks for it."""
    _open.add(id(handle))


def closed(handle: Handle) -> None:
    _open.discard(id(handle))


def any_open() -> bool:
    return bool(_open)


class Container(Protocol[T]):
    """A container such as `sys.path`; an assignment to its name in `sys` becomes a :meth:`replace`."""

    def replace(self, value: T) -> None:
        """Take over the contents of `value`, assigned in `sys`, for the namespace whose code runs."""


_path: Any = None
_meta_path: Any = None
_modules: Any = None


def keep_in_sys(
    path: Container[list[str]],
    meta_path: Container[list[MetaPathFinder]],
    modules: Container[Modules],
) -> None:
    """Install these containers in `sys`, for good: an assignment there is undone when an import begins."""
    global _path, _meta_path, _modules
    _path, _meta_path, _modules = path, meta_path, modules
    for name, container in (("path", path), ("meta_path", meta_path), ("modules", modules)):
        setattr(sys, name, container)


def restore_containers() -> None:
    """Put back containers that code has replaced in `sys`, with the contents that it assigned.

    Every import calls this, so it must cost next to nothing.
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
    """Run the block with the modules of the handle's namespace, or the framework's for `FRAMEWORK`."""
    token = enter(handle)
    try:
        yield
    finally:
        leave(token)


@contextmanager
def pinned_to_framework() -> Iterator[None]:
    """Run the block with the framework's modules, whoever called it."""
    restore_containers()
    token = enter(FRAMEWORK)
    try:
        yield
    finally:
        leave(token)
