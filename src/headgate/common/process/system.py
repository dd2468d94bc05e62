"""The ports of production: the machine's clocks and randomness, and one background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.common.files.durable import chance, clock, system
from headgate.common.files.permissions import permissions_in_use, permissions_of_job
from headgate.common.process.children import OwnProcess


class SystemClock:
    """The machine's clocks; implements `common.ports.Clock`."""

    def now_ms(self) -> int:
        return clock.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return clock.monotonic_ns() // 1_000_000

    def precise_ms(self) -> float:
        return clock.monotonic_ns() / 1_000_000


class SystemRandomness:
    """The machine's randomness; implements `common.ports.Randomness`."""

    def token(self, size: int) -> bytes:
        return system.urandom(size)

    def uniform(self, low: float, high: float) -> float:
        return chance.uniform(low, high)


T = TypeVar("T")

Work = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class BackgroundThread:
    """A thread that runs blocking work for a loop, one by one; implements `common.ports.Background`.

    The thread, a daemon called `name`, begins at once. Files that the work makes get the permissions of the
    job whose thread made this object. `call(work)` runs each piece of work, as `common.ports.UserCode.call`
    does, so that user code finds its modules; None: it is called directly. What work raises, of any kind, is
    given to `done`, which itself must not raise: that would end the thread.
    """

    def __init__(self, name: str, call: Callable[[Callable[[], T]], T] | None = None) -> None:
        self._call, self._process = call or _call, OwnProcess()
        self._permissions = permissions_in_use()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._queue.put((work, done))

    def close(self) -> None:
        """Wait until all submitted work is done, then end the thread; what is submitted later never runs."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        with permissions_of_job(self._permissions):
            while (item := self._queue.get()) is not None:
                work, done = item
                try:
                    result, failure = self._process.call(self._call, work), None
                except BaseException as error:
                    result, failure = None, error
                done(result, failure)
                # Results may hold large buffers; an idle thread must not keep them alive.
                item = work = done = result = failure = None  # type: ignore[assignment]


def _call(work: Callable[[], T]) -> T:
    return work()


class Mailbox:
    """A queue of callbacks that any thread posts to the one thread that runs a loop and sleeps on it."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = threading.Event()

    def post(self, callback: Callable[[], None]) -> None:
        """Queue `callback` for the loop's next :meth:`drain`, and end its :meth:`wait`; thread-safe."""
        self._queue.put(callback)
        self._wake.set()

    def wake(self) -> None:
        """End the loop's :meth:`wait`, or its next one, without a callback; thread-safe."""
        self._wake.set()

    def drain(self) -> bool:
        """Call all posted callbacks in order, and what these post meanwhile; return False if there were none.

        For the loop's thread alone. What a callback raises comes out here; the callbacks after it stay
        queued.
        """
        called = False
        while True:
            try:
                callback = self._queue.get_nowait()
            except queue.Empty:
                return called
            callback()
            called = True

    def wait(self, timeout_ms: float | None) -> None:
        """Sleep until a `post` or `wake` since the last wait, at most `timeout_ms` (None: for ever)."""
        if self._wake.wait(None if timeout_ms is None else timeout_ms / 1000):
            self._wake.clear()
