"""Keeps the newest lines of a process's log for whoever shows them elsewhere, bounded in number and in bytes.

What is dropped is counted. Lines are cut, and secrets masked, before they are kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from typing_extensions import override

from headgate.common.decoders import converter
from headgate.common.process.log_lines import JsonFormatter, facts_of
from headgate.common.process.logs import ContextFilter
from headgate.common.refusals.texts import shortened

LINES_MAX: Final = 200
BYTES_MAX: Final = 50_000
"""Most that is kept between two calls of :meth:`NewLines.take`."""
LOOKED_AT_MAX: Final = 2 * LINES_MAX
"""Further lines, of whatever level, are only counted until the next call: a storm of lines costs little."""

MESSAGE_CHARS_MAX: Final = 4_000
EXCEPTION_CHARS_MAX: Final = 8_000

_LINE_BYTES: Final = 100  # of a line besides its texts


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a log. `worker` is the slot of the worker that wrote it; None: the driver."""

    time_ms: int  # since 1970, by the clock of its machine
    level: str
    logger: str
    message: str
    worker: int | None = None
    pid: int | None = None
    uid: str | None = None  # of the operator that its thread worked for
    subtask: int | None = None
    attempt: int | None = None
    checkpoint: int | None = None
    exception: str | None = None  # traceback

    @property
    def size(self) -> int:
        """About the bytes that the line takes."""
        texts = self.level, self.logger, self.message, self.uid, self.exception
        return _LINE_BYTES + sum(len(text.encode("utf-8", "replace")) for text in texts if text)

    def cut(self) -> LogLine:
        """Return the line with no text longer than a line may have, whoever sent it."""
        return LogLine(
            self.time_ms, shortened(self.level, 40), shortened(self.logger, 1_000),
            shortened(self.message, MESSAGE_CHARS_MAX), self.worker, self.pid,
            self.uid and shortened(self.uid, 1_000), self.subtask, self.attempt, self.checkpoint,
            self.exception and shortened(self.exception, EXCEPTION_CHARS_MAX),
        )  # fmt: skip


_FORMATTER: Final = JsonFormatter()
_line: Final = converter(LogLine)


def line_of(record: logging.LogRecord) -> LogLine:
    """Return a record of the log, which has passed a `ContextFilter`, as a line: masked and cut."""
    facts = facts_of(_FORMATTER, record)
    # In the order of the fields, as the struct is stored.
    return _line([facts.get(name) for name in LogLine.__struct_fields__]).cut()


class NewLines(logging.Handler):
    """A handler that keeps the lines since the last :meth:`take`. When there is no room for more, a warning
    or an error takes the place of the oldest line, and other lines are dropped.
    """

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.addFilter(ContextFilter())
        self._lines: deque[LogLine] = deque()
        self._size = self._looked_at = self._left_out = 0

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        # Before its filters: they cost more than all the rest of a line that is dropped.
        self.acquire()
        try:
            full = len(self._lines) >= LINES_MAX or self._size >= BYTES_MAX
            if self._looked_at >= LOOKED_AT_MAX or (full and record.levelno < logging.WARNING):
                self._left_out += 1
                return False
            self._looked_at += 1
        finally:
            self.release()
        passed = bool(self.filter(record))
        if passed:
            self.emit(record)
        return passed

    @override
    def emit(self, record: logging.LogRecord) -> None:
        # Without the lock: the program's code may be called for the text, and whoever takes lines must not
        # wait for it.
        try:
            line = line_of(record)
        except Exception:
            self.handleError(record)
            return
        self.acquire()
        try:
            self._keep(line)
        finally:
            self.release()

    def _keep(self, line: LogLine) -> None:
        self._lines.append(line)
        self._size += line.size
        while len(self._lines) > LINES_MAX or (self._size > BYTES_MAX and len(self._lines) > 1):
            self._size -= self._lines.popleft().size
            self._left_out += 1

    def take(self) -> tuple[list[LogLine], int]:
        """Return the lines since the last call, the oldest first, and how many were dropped meanwhile."""
        self.acquire()
        try:
            found = list(self._lines), self._left_out
            self._lines.clear()
            self._size = self._looked_at = self._left_out = 0
        finally:
            self.release()
        return found


@contextmanager
def new_lines() -> Iterator[NewLines]:
    """Keep the lines of all loggers of this process within the block."""
    handler, root = NewLines(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
