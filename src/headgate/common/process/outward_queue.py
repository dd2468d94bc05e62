"""Hands what a job tells to others over to a thread of its own, which sends it and may be slow, or fail."""

from __future__ import annotations

import logging
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from headgate.common.masking import Mask

T = TypeVar("T")

CLOSE_WAIT_S: Final = 3.0
"""How long the end of a job waits until the last of what it tells is sent."""

_LOG: Final = logging.getLogger("headgate.outward")
_MASK: Final = Mask()


class OutwardQueue(Generic[T]):
    """A queue of at most `items_max` items and the thread that sends them; whoever puts one in never waits.

    Items are sent as soon as there are some, or every `every_s` seconds, then even if there are none. Of a
    queue that is full the oldest are dropped. If `send` raises, its items are lost, and one warning says so,
    the first time.

    Args:
        name: of the thread.
        what: is sent, as the subject of the warning.
        send: sends items in their order; in the thread.
        ends: called once, in the thread, when nothing more will be sent.
        quiet: names of loggers, of the libraries that send: what this thread logs there is left out, as the
            warning tells enough.
        masked: returns a text without the secrets in it, for the warning.
    """

    def __init__(
        self,
        name: str,
        what: str,
        send: Callable[[list[T]], None],
        items_max: int,
        every_s: float | None = None,
        ends: Callable[[], None] | None = None,
        quiet: Sequence[str] = (),
        masked: Callable[[str], str] = _MASK.text,
    ) -> None:
        self._quiet, self._masked = quiet, masked
        self._what, self._send, self._every_s, self._ends = what, send, every_s, ends
        self._items: deque[T] = deque(maxlen=items_max)
        self._lock, self._news, self._closing = threading.Lock(), threading.Event(), threading.Event()
        self._warned = self.failing = False
        self.dropped = 0  # items that were put and not sent
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def put(self, item: T) -> None:
        """Have an item sent; any thread may call it, before `begin` too."""
        with self._lock:
            if len(self._items) == self._items.maxlen:
                self.dropped += 1
            self._items.append(item)
        self._news.set()

    def wind_up(self) -> None:
        """Have what is left sent, unless the last try failed, and then nothing any more."""
        self._closing.set()
        self._news.set()

    def close(self, wait_s: float) -> bool:
        """Wind up, and wait for so long, but not if the last try failed; return whether it is over. What is
        not sent by then may still be, as long as the process lives.
        """
        self.wind_up()
        if self._thread.is_alive() and not self.failing:
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def try_each(self, parts: Sequence[Callable[[], None]]) -> None:
        """Call each of the parts in which a `send` sends its items, also if others raise. The first error is
        raised if all of them do; otherwise it is warned of.
        """
        errors: list[Exception] = []
        for part in parts:
            try:
                part()
            except Exception as error:
                errors.append(error)
        if parts and len(errors) == len(parts):
            raise errors[0]
        if errors:
            self.warn(_text_of(errors[0]))

    def _run(self) -> None:
        for name in self._quiet:
            logging.getLogger(name).addFilter(self._is_of_others)
        try:
            self._send_until_closed()
        finally:
            for name in self._quiet:
                logging.getLogger(name).removeFilter(self._is_of_others)

    def _is_of_others(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread.ident

    def _send_until_closed(self) -> None:
        while True:
            if self._every_s is None:
                self._news.wait()
            else:
                self._closing.wait(self._every_s)
            self._news.clear()
            closing = self._closing.is_set()
            if not (closing and self.failing):
                self._deliver()
            if closing:
                break
        if self._ends is not None:
            self._ends()

    def _deliver(self) -> None:
        with self._lock:
            items = list(self._items)
            self._items.clear()
        if not items and self._every_s is None:
            return
        try:
            self._send(items)
            self.failing = False
        except Exception as error:
            self.failing = True
            self.dropped += len(items)
            self.warn(_text_of(error))

    def warn(self, why: str) -> None:
        """Warn, the first time, that something could not be sent."""
        if not self._warned:
            self._warned = True
            what, said = self._masked(self._what), self._masked(why)
            _LOG.warning("%s could not be sent; the job goes on, and this is said once: %s", what, said)


def close_together(queues: Sequence[OutwardQueue[Any]], wait_s: float = CLOSE_WAIT_S) -> None:
    """Close queues at the same time: wait so long for all of them, and warn of those that are not over."""
    for queue in queues:
        queue.wind_up()
    until = clock.monotonic() + wait_s
    for queue in queues:
        if not queue.close(max(0.0, until - clock.monotonic())) and not queue.failing:
            queue.warn(f"the last of it was not taken within {wait_s:.0f} s")


def _text_of(error: Exception) -> str:
    return str(error) if isinstance(error, OSError) and str(error) else f"{type(error).__name__}: {error}"
