"""Logging of driver and workers: every log line names the job, operator, subtask and attempt it is about.

User code logs through the standard ``logging`` and gets the fields without asking: the worker records
which subtask its thread works for. Nothing here is in force until :func:`set_up_logging` is called,
so a program that runs jobs as a library keeps its own logging.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, TextIO

from typing_extensions import override

from headgate.common.plain_data import Json
from headgate.common.refusals.texts import shortened

_QUIET: Final = ("py4j",)  # libraries that log too much at INFO


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The subtask that a thread works for; its fields appear in the thread's log lines.

    Attributes:
        job: the job's id or name.
        uid: uid of the operator, or of the first operator of a chain.
        subtask: index of the subtask, from 0.
        attempt: number of the attempt (deployment of the job), from 1.
    """

    job: str | None = None
    uid: str | None = None
    subtask: int | None = None
    attempt: int | None = None


_NOTHING: Final = TaskContext()
_current: Final[ContextVar[TaskContext]] = ContextVar("headgate_task", default=_NOTHING)


def use_task_context(context: TaskContext) -> None:
    """Record for which subtask this thread works from now on; the driver's context has the job only.

    Example:
        >>> use_task_context(TaskContext("streaks", "author-count", 0, 1))
        >>> task_context().uid
        'author-count'
        >>> clear_task_context()
    """
    _current.set(context)


def clear_task_context() -> None:
    """Record that this thread works for no subtask any more."""
    _current.set(_NOTHING)


def task_context() -> TaskContext:
    """Return the subtask that this thread works for; all fields are None if there is none."""
    return _current.get()


@contextmanager
def logging_for(job: str) -> Iterator[None]:
    """Name the job, and no subtask, in this thread's log lines within the block; used by the driver."""
    before = _current.get()
    _current.set(TaskContext(job))
    try:
        yield
    finally:
        _current.set(before)


class ContextFilter(logging.Filter):
    """Adds ``job``, ``uid``, ``subtask`` and ``attempt`` of the thread to log records, for any handler.

    A field without a value is ``-``. One that the program gave itself, by ``extra=``, stays.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        context = _current.get()
        record.headgate_task = context
        for name, value in asdict(context).items():
            if name not in record.__dict__:
                record.__dict__[name] = "-" if value is None else value
        return True


class PlainFormatter(logging.Formatter):
    """Formats log lines for people: time with zone, level, fields, logger, message."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        context: TaskContext = getattr(record, "headgate_task", _NOTHING)
        fields = "".join(f"{name}={value} " for name, value in asdict(context).items() if value is not None)
        message = shortened(record.getMessage())
        time = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")
        text = f"{time} {record.levelname} {fields}{record.name}: {message}"
        return "\n".join([text, *_details(self, record)])


class JsonFormatter(logging.Formatter):
    """Formats log lines for machines: one JSON object each; a field that is not known is null."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        context: TaskContext = getattr(record, "headgate_task", _NOTHING)
        line: dict[str, Json] = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": shortened(record.getMessage()),
            **asdict(context),
        }
        if details := _details(self, record):
            line["exception"] = "\n".join(details)
        return json.dumps(line)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """A log handler for the current `sys.stderr`, which a live display replaces for a while."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        raise AttributeError("this handler always writes to sys.stderr")


def set_up_logging(as_json: bool = False, level: int = logging.INFO) -> None:
    """Log to the standard error of this process, with the fields of :class:`TaskContext` in each line.

    A second call replaces the first one's handler; handlers of other code stay. py4j logs warnings only.

    Args:
        as_json: one JSON object per line instead of text.
        level: of the root logger.
    """
    handler = _StderrHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    root = logging.getLogger()
    remove_logging()
    root.addHandler(handler)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def remove_logging() -> None:
    """Remove the handler that :func:`set_up_logging` added; log levels stay."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _StderrHandler)]:
        root.removeHandler(handler)


def _details(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    found = [] if record.exc_info is None else [shortened(formatter.formatException(record.exc_info))]
    return found if record.stack_info is None else [*found, formatter.formatStack(record.stack_info)]
