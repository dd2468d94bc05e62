"""Raises the exception of a signal handler again if it was swallowed, so that no Ctrl-C or SIGTERM is lost.

A signal handler runs between any two steps of the main thread. If these belong to a finaliser, or to a
callback from C code, Python prints the handler's exception and continues as if no signal had come.
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
    """Remembers what signal handlers raise, so that the driver's loop can raise a swallowed exception again.

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
        """Remember what handlers of SIGINT, SIGTERM, SIGHUP raise meanwhile; nothing off the main thread."""
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
        """Raise the remembered exception of a signal handler, once; do nothing if there is none."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def forget(self) -> None:
        """Forget the remembered exception: it came through by itself."""
        self._raised = None

    def _remembering(self, handler: Handler) -> Handler:
        def remember(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                note_signal(error)  # it is not an error of the code that it interrupted
                self._raised = error
                raise

        return remember
