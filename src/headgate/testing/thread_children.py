"""Whose a thread is, where workers are threads of the driver: that of the thread that started it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

_OWNER: Final = "_headgate_owner"


class _Noting:
    """While somebody wants it, threads belong to whom the thread belongs that starts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._before: Callable[[threading.Thread], None] | None = None
        self._mine: Callable[[threading.Thread], None] | None = None

    def begin(self) -> None:
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                before = threading.Thread.start

                def start(thread: threading.Thread) -> None:
                    owner = getattr(threading.current_thread(), _OWNER, None)
                    if owner is not None:
                        setattr(thread, _OWNER, owner)
                    before(thread)

                self._before, self._mine = before, start
                threading.Thread.start = start  # type: ignore[method-assign,assignment]

    def end(self) -> None:
        with self._lock:
            self._wanted -= 1
            # Who has replaced it meanwhile calls this one still, which does no harm.
            if self._wanted == 0 and self._before is not None and threading.Thread.start is self._mine:
                threading.Thread.start = self._before  # type: ignore[method-assign,assignment]


_noting: Final = _Noting()


@contextmanager
def noting_children() -> Iterator[None]:
    """Within it threads belong to whom the thread belongs that starts them."""
    _noting.begin()
    try:
        yield
    finally:
        _noting.end()


def make_root(thread: threading.Thread, owner: T) -> None:
    """A thread, and all that it starts, belong to `owner`."""
    setattr(thread, _OWNER, owner)


def children_of(owner: T) -> list[threading.Thread]:
    """The living threads that belong to `owner`."""
    return [thread for thread in threading.enumerate() if getattr(thread, _OWNER, None) is owner]
