"""Finds what keeps a closed namespace in memory: modules and threads that live on, and their holders.

Weak references to modules say too little: a function that is kept keeps its module's globals and not the
module. So each module's globals hold a token, and what is looked for is a token that does not die. The
holder is searched forward, from the framework's modules, frames and signal handlers: some 50 ms, where a
search back from the token through all that refers to it takes minutes.
"""

from __future__ import annotations

import gc
import signal
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headgate.usercode.namespaces.dispatch import framework_table
from headgate.usercode.namespaces.interpreter import callers
from headgate.usercode.namespaces.loader import TOKEN, Namespace

H = TypeVar("H")
T = TypeVar("T")

HOLDERS_MAX: Final = 8
OBJECTS_MAX: Final = 800_000
"""How many objects a search visits at most."""
STEPS_SHOWN: Final = 7


@dataclass(frozen=True, slots=True)
class UserThread:
    """A thread that runs, or was started by, an isolated namespace's code."""

    name: str
    place: str  # file and line of the namespace's code that it is at; empty when it is elsewhere


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What is left in memory of an isolated namespace some time after it closed, with what holds it."""

    namespace: str
    modules: tuple[str, ...]  # whose globals live on
    classes: tuple[str, ...]
    threads: tuple[UserThread, ...]
    holders: tuple[str, ...]  # of these globals, nearest last; empty when nothing in Python holds them

    @property
    def leaked(self) -> bool:
        """Whether modules or threads of the namespace remain, so that its memory cannot be given back."""
        return bool(self.modules or self.threads)

    def __str__(self) -> str:
        if not self.leaked:
            return f"the user code of job {self.namespace!r} is released"
        threads = ", ".join(f"thread {thread.name!r} at {thread.place or '?'}" for thread in self.threads)
        held = "; ".join(self.holders) or "native code or the interpreter (no holder is visible to Python)"
        count = f"{len(self.modules)} modules of it live on ({', '.join(self.modules[:5])})"
        return f"the user code of job {self.namespace!r} was not released: {count}; held by {held}" + (
            f"; still running: {threads}" if threads else ""
        )


def examine(namespace: Namespace) -> LeakReport:
    """Return a report on what is left in memory of a closed isolated namespace; collect garbage before."""
    gc.collect()
    gc.collect()
    modules = tuple(
        sorted(name for name, token in namespace.tokens.items() if name != "builtins" and token() is not None)
    )
    threads = tuple(_threads(namespace))
    return LeakReport(
        namespace.name,
        modules,
        tuple(sorted({f"{kind.__module__}.{kind.__qualname__}" for kind in namespace.classes})),
        threads,
        tuple(_holders(namespace)) if modules else (),
    )


def _threads(namespace: Namespace) -> Iterator[UserThread]:
    import threading

    running = {thread.ident: thread for thread in threading.enumerate()}
    seen: set[int] = set()
    for ident, top in sys._current_frames().items():
        place = _place(namespace, top)
        thread = running.get(ident)
        if place and thread is not None and thread is not threading.current_thread():
            seen.add(ident)
            yield UserThread(thread.name, place)
    for thread in list(namespace.threads):
        if thread.is_alive() and thread.ident not in seen:
            yield UserThread(thread.name, "")


def _place(namespace: Namespace, top: types.FrameType) -> str:
    for frame in callers(top):
        if frame.f_builtins is namespace.builtins:
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return ""


class _Search:
    """Searches objects breadth first, from the framework's modules and frames to those of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._builtins = namespace.builtins
        self._reached: dict[int, tuple[Any, str]] = {}
        self._queue: deque[Any] = deque()
        self._kept: list[Any] = []
        self._own = {id(self._reached), id(self._queue), id(self._kept), id(self), id(self.__dict__)}
        self._own |= {id(namespace), id(namespace.__dict__)}

    def holders(self) -> Iterator[str]:
        """Yield, as text, up to 8 chains of references from a root to an object of the isolated namespace."""
        found = 0
        for _ in range(OBJECTS_MAX):
            if not self._queue or found >= HOLDERS_MAX:
                return
            thing = self._queue.popleft()
            if self._is_namespaces(thing):
                found += 1
                yield self._way(thing)
                continue
            for referent in gc.get_referents(thing):
                self.reach(referent, thing, _name_in(thing, referent))

    def reach(self, thing: T, source: H, name: str) -> None:
        """Queue an object to be searched, unless it was reached before; `source` holds it (None: a root)."""
        if id(thing) in self._reached or id(thing) in self._own:
            return
        if not gc.is_tracked(thing) and not isinstance(thing, types.FunctionType):
            return
        self._reached[id(thing)] = (source, name)
        self._kept.append(thing)
        self._queue.append(thing)

    def _is_namespaces(self, thing: Any) -> bool:
        if isinstance(thing, types.FunctionType):
            return getattr(thing, "__builtins__", None) is self._builtins
        if type(thing) is dict:
            return thing is self._builtins or thing.get("__builtins__") is self._builtins
        return False

    def _way(self, thing: Any) -> str:
        steps: list[str] = []
        while thing is not None and len(steps) < STEPS_SHOWN:
            source, name = self._reached[id(thing)]
            steps.append(f"{name} {_described(thing)}".strip())
            thing = source
        return " <- ".join(steps)


def _holders(namespace: Namespace) -> Iterator[str]:
    search = _Search(namespace)
    table: dict[str, Any] = framework_table().of_framework()
    for name, module in table.items():
        if isinstance(module, types.ModuleType) and TOKEN not in module.__dict__:
            search.reach(module.__dict__, None, name)
    for frame in _frames():
        search.reach(frame, None, f"frame of {frame.f_code.co_name}")
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            search.reach(handler, None, f"handler of signal {number}")
    yield from search.holders()


def _frames() -> Iterator[types.FrameType]:
    for top in sys._current_frames().values():
        yield from (frame for frame in callers(top) if frame.f_code.co_filename != __file__)


def _name_in(holder: Any, thing: T) -> str:
    if type(holder) is dict:
        return next((f"[{_key(key)}]" for key, value in holder.items() if value is thing), "")
    return ""


def _key(key: T) -> str:
    return repr(key) if type(key) in (str, int, bytes, bool) else type(key).__name__


def _described(thing: T) -> str:
    if isinstance(thing, types.FunctionType):
        return f"(function {thing.__module__}.{thing.__qualname__})"
    if isinstance(thing, types.FrameType):
        return f"({thing.f_code.co_filename}:{thing.f_lineno})"
    return f"({type(thing).__name__})"
