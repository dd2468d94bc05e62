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
        """Return wall-clock milliseconds since 1970."""
        return clock.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back."""
        return clock.monotonic_ns() // 1_000_000

    def precise_ms(self) -> float:
        """Return the monotonic clock with its fraction."""
        return clock.monotonic_ns() / 1_000_000


class SystemRandomness:
    """The machine's randomness; implements `common.ports.Randomness`."""

    def token(self, size: int) -> bytes:
        """Return unpredictable bytes."""
        return system.urandom(size)

    def uniform(self, low: float, high: float) -> float:
        """Return a number in between."""
        return chance.uniform(low, high)


T = TypeVar("T")

Work = tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]


class BackgroundThread:
    """Runs work one after the other in the background of a loop; implements `common.ports.Background`.

    What it makes in the storage has the permissions of the job whose thread began it. `call` calls a piece of
    work, where user code is isolated; see `common.ports.UserCode`.
    """

    def __init__(self, name: str, call: Callable[[Callable[[], T]], T] | None = None) -> None:
        self._call, self._process = call or _call, OwnProcess()
        self._permissions = permissions_in_use()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work` when its turn comes, then `done(result, error)`, both in the thread."""
        self._queue.put((work, done))

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
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
    """Callbacks from any thread to one loop, and the loop's way to sleep until one comes."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = threading.Event()

    def post(self, callback: Callable[[], None]) -> None:
        """Have the loop call `callback`."""
        self._queue.put(callback)
        self._wake.set()

    def wake(self) -> None:
        """End a `wait` of the loop."""
        self._wake.set()

    def drain(self) -> bool:
        """Call what was posted; False when there was nothing."""
        called = False
        while True:
            try:
                callback = self._queue.get_nowait()
            except queue.Empty:
                return called
            callback()
            called = True

    def wait(self, timeout_ms: float | None) -> None:
        """Sleep until woken, at most `timeout_ms`."""
        if self._wake.wait(None if timeout_ms is None else timeout_ms / 1000):
            self._wake.clear()
