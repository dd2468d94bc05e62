"""Takes the lines that user code prints in a worker, each with the operator and subtask that printed it.

Within :func:`printing_to`, `sys.stdout` and `sys.stderr` are streams that know who prints. Complete lines of
worker threads go to the job's driver, which shows them (`display/printed.py`), or into the log. What other
threads of the process print passes unchanged, and so does what `logging` and Headgate itself write to the
standard error. A process that user code forked prints as if nothing of this were there.
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
from headgate.runtime.job.black_box import BlackBox
from headgate.runtime.worker.operators.operator_contract import operator_called

LINE_LENGTH_MAX: Final = 4_000
LINES_MAX: Final = 1_000
"""How many lines of a worker are told at a time; of more, the last ones and how many there were."""
EVERY_S: Final = 0.1

_LOG: Final = logging.getLogger("headgate.print")
_WORKER: Final = "worker"
"""The place of a line that no operator printed."""

_handing_on: Final[set[int]] = set()
"""Idents of threads that hand a line to an outlet: what they print meanwhile is no user's line."""


class PrintOutlet(Protocol):
    """Where complete lines go; any thread may call it."""

    def line(self, place: str, line: str) -> None:
        """Take a line that was printed at `place`."""

    def close(self) -> None:
        """Hand on what is kept; no line follows."""


class LogOutlet:
    """Lines become entries of the log."""

    def line(self, place: str, line: str) -> None:
        """See :class:`PrintOutlet`."""
        _LOG.info("%s: %s", place, line)

    def close(self) -> None:
        """See :class:`PrintOutlet`."""


class StreamOutlet:
    """Lines with their place go to a stream of this process, each in one piece."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, place: str, line: str) -> None:
        """See :class:`PrintOutlet`."""
        self._stream.write(f"{place}: {line}\n")

    def close(self) -> None:
        """See :class:`PrintOutlet`."""


class TellingOutlet:
    """Sends lines to the driver, several times a second and at most `LINES_MAX` at a time.

    `tell` takes lines, each after its place, and how many before them were left out.
    """

    def __init__(self, tell: Callable[[list[str], int], None]) -> None:
        self._tell = tell
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._left_out = 0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def line(self, place: str, line: str) -> None:
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


class WorkersStream(io.TextIOBase):
    """Stands in for a standard stream, `beneath`, of a process in which workers live."""

    def __init__(self, beneath: TextIO, box: BlackBox | None = None) -> None:
        self.beneath, self._box, self._pid = beneath, box, os.getpid()
        self._unfinished: dict[int, tuple[str, str]] = {}
        self.outlets: dict[str, PrintOutlet] = {}
        self.buffer = _Bytes(self)

    @override
    def write(self, text: str, /) -> int:
        return self.take(text, sys._getframe(1))

    def take(self, text: str, caller: FrameType) -> int:
        """Write `text` for `caller`: its complete lines to the outlet of its worker, if it has one."""
        context = task_context()
        key = f"{context.job}/{context.subtask}"
        key = key if key in self.outlets else ""
        outlet, me = self.outlets.get(key), threading.get_ident()
        if outlet is None or os.getpid() != self._pid or not isinstance(text, str):
            return self.beneath.write(text)
        if me in _handing_on or self.passes(caller):
            return self.beneath.write(text)
        if self._box is not None and not isinstance(outlet, LogOutlet):
            self._box.printed(text)
        _, before = self._unfinished.pop(me, (key, ""))
        *lines, rest = (before + text).split("\n")
        if rest:
            # The end of a line that is written over and over, as a bar of progress is, is what would be seen.
            if len(rest) > LINE_LENGTH_MAX:
                rest = _as_seen(rest)[:LINE_LENGTH_MAX] + "\r" * rest.endswith("\r")
            self._unfinished[me] = key, rest
        if lines:
            place = _place(context, caller)
            _handing_on.add(me)  # a handler of the log may print
            try:
                for line in lines:
                    outlet.line(place, _as_seen(line)[:LINE_LENGTH_MAX])
            finally:
                _handing_on.discard(me)
        return len(text)

    def passes(self, caller: FrameType) -> bool:
        """Whether what `caller` writes goes on unchanged."""
        return False

    @override
    def flush(self) -> None:
        self.beneath.flush()

    @override
    def isatty(self) -> bool:
        return self.beneath.isatty()

    @override
    def fileno(self) -> int:
        return self.beneath.fileno()

    @override
    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)

    def end_lines(self, key: str) -> None:
        """Print what the threads of a worker have not ended with a line break."""
        for me, (of, rest) in list(self._unfinished.items()):
            if of == key:
                del self._unfinished[me]
                self.outlets[key].line(_WORKER, _as_seen(rest))


class WorkersStderr(WorkersStream):
    """The standard error: entries of logs, and what Headgate says of the process, pass unchanged."""

    @override
    def passes(self, caller: FrameType) -> bool:
        module = caller.f_globals.get("__name__")
        return isinstance(module, str) and (module == "logging" or module.startswith("headgate."))


class _Bytes(io.BufferedIOBase):
    """The bytes below a :class:`WorkersStream`: what is written there is text like any other."""

    def __init__(self, text: WorkersStream) -> None:
        self._text = text

    @override
    def write(self, data: Buffer, /) -> int:
        given = bytes(data)
        self._text.take(given.decode("utf-8", "replace"), sys._getframe(1))
        return len(given)

    @override
    def flush(self) -> None:
        self._text.flush()

    @override
    def writable(self) -> bool:
        return True


def _place(context: TaskContext, caller: FrameType) -> str:
    """Operator and subtask; the operator is the one that is being called."""
    if context.uid is None:
        return _WORKER
    called = operator_called(_frames(caller))
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

    stdout: WorkersStream | None = None
    stderr: WorkersStderr | None = None
    workers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put_in_place(self, box: BlackBox | None) -> list[WorkersStream]:
        """Replace the standard streams, unless they are replaced already."""
        if self.stdout is None or sys.stdout is not self.stdout:
            self.stdout = WorkersStream(sys.stdout if self.stdout is None else self.stdout.beneath)
            sys.stdout = self.stdout
        if self.stderr is None or sys.stderr is not self.stderr:
            self.stderr = WorkersStderr(sys.stderr if self.stderr is None else self.stderr.beneath, box)
            sys.stderr = self.stderr
        return [self.stdout, self.stderr]

    def take_away(self) -> None:
        """Put the standard streams back, where nobody else has replaced them meanwhile."""
        if self.stdout is not None and sys.stdout is self.stdout:
            sys.stdout = self.stdout.beneath
        if self.stderr is not None and sys.stderr is self.stderr:
            sys.stderr = self.stderr.beneath
        self.stdout = self.stderr = None


_installed: Final = _Installed()


@contextmanager
def printing_to(
    outlet: PrintOutlet | None, job: str, slot: int, *, alone: bool, box: BlackBox | None = None
) -> Iterator[None]:
    """Within it the lines that user code of worker `slot` of `job` prints go to `outlet`.

    Args:
        outlet: where to; None: the standard streams of this process, with their places.
        job: whose worker it is.
        slot: its number.
        alone: whether the process has no other purpose, so that every thread's lines are of this worker.
        box: keeps the last lines on the standard error for who asks why the process ended.
    """
    key = "" if alone else f"{job}/{slot}"
    with _installed.lock:
        streams = _installed.put_in_place(box)
        for stream in streams:
            stream.outlets[key] = outlet or StreamOutlet(stream.beneath)
        _installed.workers += 1
    try:
        yield
    finally:
        with _installed.lock:
            _installed.workers -= 1
            for stream in streams:
                stream.end_lines(key)
                stream.outlets.pop(key, None)
            if _installed.workers == 0:
                _installed.take_away()
        if outlet is not None:
            outlet.close()
