"""Ctrl-C and the like, not lost: an exception of a signal that no code got to see is raised once more.

A signal's handler runs between any two steps of the main thread. Where these belong to a finaliser, or to
a callback that C code called, Python prints what the handler raised and goes on as if nothing had come.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from headgate.common.process.process_exceptions import note_signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], None]


class Interrupts:
    """What handlers of signals have raised.

    Example:
        >>> interrupts = Interrupts()
        >>> with interrupts.remembered():
        ...     try:
        ...         signal.raise_signal(signal.SIGINT)
        ...     except KeyboardInterrupt:
        ...         print("lost")
        lost
        >>> try:
        ...     interrupts.raise_again()
        ... except KeyboardInterrupt:
        ...     print("found")
        found
        >>> interrupts.raise_again()
    """

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Remember what handlers raise in the block; they do what they did. In the main thread only."""
        before: dict[signal.Signals, Handler] = {}
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    before[number] = handler
                    signal.signal(number, self._remembering(handler))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def raise_again(self) -> None:
        """Raise what was remembered, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _remembering(self, handler: Handler) -> Handler:
        def remember(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                note_signal(error)  # it is no error of the code that it came to
                self._raised = error
                raise

        return remember
