"""What user code prints in a worker: whole lines, each with the operator and subtask that printed it.

Within :func:`printing_to`, `sys.stdout` is one that knows who prints. Lines of worker threads go, whole, to
the job's driver, which shows them (`display/printed.py`), or into the log. What other threads of the process
print passes unchanged. A process that user code forked prints as if nothing of this were there.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Protocol, TextIO

from typing_extensions import Buffer, override

from headgate.common.process.logs import TaskContext, task_context
from headgate.runtime.worker.operators.operator_contract import operator_called

LINE_LENGTH_MAX: Final = 4_000
LINES_MAX: Final = 1_000
"""How many lines of a worker are told at a time; of more, the last ones and how many there were."""
EVERY_S: Final = 0.1

_LOG: Final = logging.getLogger("headgate.print")


class PrintOutlet(Protocol):
    """Where whole lines go; any thread may call it."""

    def line(self, context: TaskContext, place: str, line: str) -> None:
        """Somebody printed a line."""
        ...

    def close(self) -> None:
        """Nothing comes any more."""
        ...


class LogOutlet:
    """Lines become entries of the log, which say by themselves whose they are."""

    def line(self, context: TaskContext, place: str, line: str) -> None:
        """See :class:`PrintOutlet`."""
        _LOG.info("%s: %s", place, line)

    def close(self) -> None:
        """See :class:`PrintOutlet`."""


class StreamOutlet:
    """Lines with their place go to a stream of this process, each in one piece."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, context: TaskContext, place: str, line: str) -> None:
        """See :class:`PrintOutlet`."""
        self._stream.write(f"{place}: {line}\n")

    def close(self) -> None:
        """See :class:`PrintOutlet`."""


class TellingOutlet:
    """Lines are told to the driver, several times a second and bounded.

    Args:
        tell: takes lines, each behind its place, and how many before them were left out.
    """

    def __init__(self, tell: Callable[[list[str], int], None]) -> None:
        self._tell = tell
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._left_out = 0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def line(self, context: TaskContext, place: str, line: str) -> None:
        """See :class:`PrintOutlet`."""
        with self._lock:
            self._left_out += len(self._lines) == LINES_MAX
            self._lines.append(f"{place}: {line}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headgate-printing", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """See :class:`PrintOutlet`."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._flush()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            lines, left_out = list(self._lines), self._left_out
            self._lines.clear()
            self._left_out = 0
        if lines:
            self._tell(lines, left_out)


class WorkersStdout(io.TextIOBase):
    """Stands in for the standard output of a process in which workers live.

    Args:
        beneath: the standard output as it was.
    """

    def __init__(self, beneath: TextIO) -> None:
        self._beneath, self._pid = beneath, os.getpid()
        self._unfinished: dict[int, tuple[str, str]] = {}
        self.outlets: dict[str, PrintOutlet] = {}
        self.buffer = _Bytes(self)

    @override
    def write(self, text: str, /) -> int:
        context = task_context()
        key = f"{context.job}/{context.subtask}"
        key = key if key in self.outlets else ""
        outlet = self.outlets.get(key)
        if outlet is None or os.getpid() != self._pid or not isinstance(text, str):
            return self._beneath.write(text)
        me = threading.get_ident()
        _, before = self._unfinished.pop(me, (key, ""))
        *lines, rest = (before + text).split("\n")
        if rest:
            # The end of a line that is written over and over, as a bar of progress is, is what would be seen.
            if len(rest) > LINE_LENGTH_MAX:
                rest = _as_seen(rest)[:LINE_LENGTH_MAX] + "\r" * rest.endswith("\r")
            self._unfinished[me] = key, rest
        if lines:
            place = _place(context)
            for line in lines:
                outlet.line(context, place, _as_seen(line)[:LINE_LENGTH_MAX])
        return len(text)

    @override
    def flush(self) -> None:
        self._beneath.flush()

    @override
    def isatty(self) -> bool:
        return self._beneath.isatty()

    @override
    def fileno(self) -> int:
        return self._beneath.fileno()

    @override
    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._beneath, name)

    def end_lines(self, key: str) -> None:
        """Print what the threads of a worker have not ended with a line break."""
        for me, (of, rest) in list(self._unfinished.items()):
            if of == key:
                del self._unfinished[me]
                self.outlets[key].line(TaskContext(), "worker", _as_seen(rest))


class _Bytes(io.BufferedIOBase):
    """The bytes below a :class:`WorkersStdout`: what is written there is text like any other."""

    def __init__(self, text: WorkersStdout) -> None:
        self._text = text

    @override
    def write(self, data: Buffer, /) -> int:
        given = bytes(data)
        self._text.write(given.decode("utf-8", "replace"))
        return len(given)

    @override
    def flush(self) -> None:
        self._text.flush()

    @override
    def writable(self) -> bool:
        return True


def _place(context: TaskContext) -> str:
    """Operator and subtask; the operator is the one that is being called."""
    if context.uid is None:
        return "worker"
    called = operator_called(_frames(sys._getframe(2)))
    return f"{context.uid if called is None else called.uid}[{context.subtask}]"


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """From this one on outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _as_seen(line: str) -> str:
    r"""Return what a terminal would show of a line in which the cursor goes back to the beginning.

    Example:
        >>> _as_seen("10 %\r50 %\r100 %\r")
        '100 %'
    """
    return line.rstrip("\r").rpartition("\r")[2]


@dataclass
class _Installed:
    """What all workers of this process share."""

    stdout: WorkersStdout | None = None
    workers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_installed: Final = _Installed()


@contextmanager
def printing_to(outlet: PrintOutlet | None, job: str, slot: int, *, alone: bool) -> Iterator[None]:
    """Within it the lines that a worker's user code prints go to `outlet`.

    Args:
        outlet: where to; None: the standard output of this process, with their places.
        job: whose worker it is.
        slot: its number.
        alone: whether the process has no other purpose, so that every thread's lines are of this worker.
    """
    key = "" if alone else f"{job}/{slot}"
    with _installed.lock:
        if _installed.stdout is None or sys.stdout is not _installed.stdout:
            beneath = sys.stdout if _installed.stdout is None else _installed.stdout._beneath
            _installed.stdout = WorkersStdout(beneath)
            sys.stdout = _installed.stdout
        stdout = _installed.stdout
        stdout.outlets[key] = outlet = outlet or StreamOutlet(stdout._beneath)
        _installed.workers += 1
    try:
        yield
    finally:
        with _installed.lock:
            _installed.workers -= 1
            stdout.end_lines(key)
            stdout.outlets.pop(key, None)
            if _installed.workers == 0:
                if sys.stdout is _installed.stdout:
                    sys.stdout = _installed.stdout._beneath
                _installed.stdout = None
        outlet.close()
