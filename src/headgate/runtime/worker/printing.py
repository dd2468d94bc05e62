"""Captures the lines that user code prints in a worker, with the operator and subtask that printed them.

Within :func:`printing_to`, `sys.stdout` and `sys.stderr` are replaced. Complete lines of workers' threads (of
all threads, if the process has one worker) go, with the printing operator, to the job's driver, to the log or
to the replaced stream. Output of `logging`, of Headgate itself and of forked processes passes unchanged.
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
from types import FrameType
from typing import Any, Final, TextIO

from typing_extensions import Buffer, override

from headgate.common.process.logs import TaskContext, task_context
from headgate.common.refusals.texts import visible
from headgate.runtime.job.black_box import BlackBox
from headgate.runtime.worker.operators.operator_contract import frames_outward, operator_called

LINE_LENGTH_MAX: Final = 4_000
LINES_MAX: Final = 1_000
"""Most printed lines of a worker that are sent at a time: the last ones, with the number of earlier lines."""
EVERY_S: Final = 0.1

_LOG: Final = logging.getLogger("headgate.print")
_WORKER: Final = "worker"
"""The place given for a line that no operator printed."""

_handing_on: Final[set[int]] = set()
"""Ids of threads that pass a line to an outlet: lines that they print meanwhile are not user code's."""


class LogOutlet:
    """Writes lines that user code of one worker printed to the log; base of other outlets; for any thread."""

    def line(self, place: str, line: str) -> None:
        """Take one complete line, without newline, that was printed at `place`; an outlet may send it later.
        `place` is the operator as "uid[subtask]", or "worker" if no operator printed.
        """
        _LOG.info("%s: %s", place, line)

    @staticmethod
    def is_heard() -> bool:
        """Return whether the log of this process takes lines of this level."""
        return _LOG.isEnabledFor(logging.INFO)

    def close(self) -> None:
        """Write the lines that are still buffered; no line follows."""


class StreamOutlet(LogOutlet):
    """Writes each printed line, as "place: line", to a stream of this process in one piece."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @override
    def line(self, place: str, line: str) -> None:
        self._stream.write(f"{place}: {line}\n")


class SendingOutlet(LogOutlet):
    """Sends printed lines to the driver every 0.1 s, the last `LINES_MAX` of them, from a thread of its own.
    `send` gets the lines, each as "place: line", and the number of lines dropped since the last call.
    """

    def __init__(self, send: Callable[[list[str], int], None]) -> None:
        self._send = send
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._left_out = 0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    @override
    def line(self, place: str, line: str) -> None:
        with self._lock:
            self._left_out += len(self._lines) == LINES_MAX
            self._lines.append(f"{place}: {line}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headgate-printing", daemon=True)
                self._thread.start()

    @override
    def close(self) -> None:
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
            self._send(lines, left_out)


class WorkersStream(io.TextIOBase):
    """Replaces `sys.stdout`: passes printed lines to the outlet of the worker that prints, others to
    `beneath`. All workers of a process share it. `outlets` are by "job/slot"; "" is for all other threads.
    """

    def __init__(self, beneath: TextIO, box: BlackBox | None = None) -> None:
        self.beneath, self._box, self._pid = beneath, box, os.getpid()
        self._unfinished: dict[int, tuple[str, str]] = {}
        self.outlets: dict[str, LogOutlet] = {}
        self.buffer = _Bytes(self)

    @override
    def write(self, text: str, /) -> int:
        return self.take(text, sys._getframe(1))

    def take(self, text: str, caller: FrameType) -> int:
        context = task_context()
        key = f"{context.job}/{context.subtask}"
        key = key if key in self.outlets else ""
        outlet, me = self.outlets.get(key), threading.get_ident()
        if outlet is None or os.getpid() != self._pid or not isinstance(text, str):
            return self.beneath.write(text)
        if me in _handing_on or self.passes(caller):
            return self.beneath.write(text)
        if self._box is not None and type(outlet) is not LogOutlet:
            self._box.printed(text)
        _, before = self._unfinished.pop(me, (key, ""))
        *lines, rest = (before + text).split("\n")
        if rest:
            # Of a line that is overwritten again and again (a progress bar) only the end would be visible.
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
        for me, (of, rest) in list(self._unfinished.items()):
            if of == key:
                del self._unfinished[me]
                self.outlets[key].line(_WORKER, _as_seen(rest))


class WorkersStderr(WorkersStream):
    """Replaces standard error: log entries and Headgate's own messages pass unchanged."""

    @override
    def passes(self, caller: FrameType) -> bool:
        module = caller.f_globals.get("__name__")
        return isinstance(module, str) and (module == "logging" or module.startswith("headgate."))


class _Bytes(io.BufferedIOBase):
    """The binary buffer of a :class:`WorkersStream`; bytes written to it are captured as text."""

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
    if context.uid is None:
        return _WORKER
    called = operator_called(frames_outward(caller))
    return f"{context.uid if called is None else called.uid}[{context.subtask}]"


def _as_seen(line: str) -> str:
    r"""Return a line as a terminal would show it, if the cursor returned to its beginning; what else a
    terminal would obey is written out, as the line may have the text of any record.

    Example:
        >>> _as_seen("10 %\r50 %\r100 %\r"), _as_seen("\x1b[2J")
        ('100 %', '\\x1b[2J')
    """
    return visible(line.rstrip("\r").rpartition("\r")[2])


_lock: Final = threading.Lock()
_installed: Final[dict[str, WorkersStream]] = {}
"""The replaced streams, shared by all workers of this process, by their names in `sys`."""


def _install(box: BlackBox | None) -> list[WorkersStream]:
    for name in ("stdout", "stderr"):
        mine, present = _installed.get(name), getattr(sys, name)
        if mine is None or present is not mine:
            beneath = present if mine is None else mine.beneath
            mine = WorkersStderr(beneath, box) if name == "stderr" else WorkersStream(beneath)
            _installed[name] = mine
            setattr(sys, name, mine)
    return list(_installed.values())


def _uninstall() -> None:
    for name, mine in _installed.items():
        if getattr(sys, name) is mine:
            setattr(sys, name, mine.beneath)
    _installed.clear()


@contextmanager
def printing_to(
    outlet: LogOutlet | None, job: str, slot: int, *, alone: bool, box: BlackBox | None = None
) -> Iterator[None]:
    """Capture the lines that user code of one worker prints in the `with` block, and pass them to `outlet`.
    The outlet is closed at the end; None: lines go to the standard streams, each after its place
    "uid[subtask]". `job` and `slot` name the worker. If it is `alone` in its process, lines of all threads
    are its own. `box` records the last lines on standard error, to explain why the process ended.
    """
    key = "" if alone else f"{job}/{slot}"
    with _lock:
        streams = _install(box)
        for stream in streams:
            stream.outlets[key] = outlet or StreamOutlet(stream.beneath)
    try:
        yield
    finally:
        with _lock:
            for stream in streams:
                stream.end_lines(key)
                stream.outlets.pop(key, None)
            if not any(stream.outlets for stream in _installed.values()):
                _uninstall()
        if outlet is not None:
            outlet.close()
