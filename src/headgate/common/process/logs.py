"""Logging of driver and workers: every log line names the job, operator, subtask and attempt it is about.

User code logs through the standard ``logging`` and gets the fields without asking: the worker records
which subtask its thread works for. Nothing here is in force until :func:`set_up_logging` is called,
so a program that runs jobs as a library keeps its own logging.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from types import TracebackType
from typing import Final, TextIO

from typing_extensions import override

from headgate.common.masking import Mask
from headgate.common.process.log_lines import NO_TASK, LoggedJob
from headgate.common.process.log_lines import JsonFormatter as JsonFormatter
from headgate.common.process.log_lines import PlainFormatter as PlainFormatter
from headgate.common.process.log_lines import TaskContext as TaskContext

_QUIET: Final = ("py4j",)  # libraries that log too much at INFO
_LOG: Final = logging.getLogger("headgate.process")
_current: Final[ContextVar[TaskContext]] = ContextVar("headgate_task", default=NO_TASK)
_driven: Final[ContextVar[LoggedJob | None]] = ContextVar("headgate_driven", default=None)
"""The job whose driver this thread is."""
_jobs: Final[list[LoggedJob]] = []
"""The jobs that run in this process."""
_ended_last: Final[list[LoggedJob]] = []
"""The job that ended last in this process: what is reported afterwards may quote its secrets."""


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
    _current.set(NO_TASK)


def task_context() -> TaskContext:
    """Return the subtask that this thread works for; all fields are None if there is none."""
    return _current.get()


@contextmanager
def logging_for(job: str) -> Iterator[LoggedJob]:
    """Name the job, and no subtask, in this thread's log lines within the block; used by the driver. Other
    threads' lines name the job, too, if it is the only one of the process; yield how it is named.
    """
    before = _current.get(), _driven.get()
    _current.set(TaskContext(job))
    try:
        with job_of_process(LoggedJob(job)) as named:
            _driven.set(named)
            yield named
    finally:
        _current.set(before[0])
        _driven.set(before[1])


@contextmanager
def job_of_process(job: LoggedJob) -> Iterator[LoggedJob]:
    """Name `job` within the block in the lines of threads that work for it, or for no job that is known."""
    _jobs.append(job)
    try:
        yield job
    finally:
        _jobs.remove(job)
        _ended_last[:] = [job]


def _job_of(context: TaskContext) -> LoggedJob | None:
    if context.job is None:
        return _jobs[0] if len(_jobs) == 1 else None
    driven = _driven.get()
    if driven is not None and context.job in (driven.id, driven.name):
        return driven
    # Several jobs may have one name: by that alone it is not known which of them is meant.
    running = list(_jobs)
    found = [job for job in running if job.id == context.job] or [
        job for job in running if job.name == context.job
    ]
    return found[0] if len(found) == 1 else None


def _mask_of_all() -> Mask:
    # A thread that works for no job may quote any job's secrets, also those of the job that ended last.
    return Mask(secret for job in (*_jobs, *_ended_last) for secret in job.mask.secrets)


class ContextFilter(logging.Filter):
    """Adds ``job``, ``uid``, ``subtask`` and ``attempt`` of the thread to log records, for any handler.

    A field without a value is ``-``. One that the program gave itself, by ``extra=``, stays.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        context = _current.get()
        record.headgate_task = context
        record.headgate_job = job = _job_of(context)
        record.headgate_mask = _mask_of_all() if job is None or context.job is None else job.mask
        for name, value in asdict(context).items():
            if name not in record.__dict__:
                record.__dict__[name] = "-" if value is None else value
        return True


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


def set_up_logging(as_json: bool = False, level: int = logging.INFO, *, all_json: bool = False) -> None:
    """Log to the standard error of this process, with the fields of :class:`TaskContext` in each line.

    A second call replaces the first one's handler; handlers of other code stay. py4j logs warnings only.

    Args:
        as_json: one JSON object per line instead of text.
        level: of the root logger.
        all_json: as `as_json`, and what Python itself would write there as text becomes lines of the log:
            warnings, and exceptions that end a thread or the process.
    """
    handler = _StderrHandler()
    handler.addFilter(ContextFilter())
    root = logging.getLogger()
    remove_logging()
    root.addHandler(handler)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    use_format(as_json or all_json, all_json=all_json)


def use_format(as_json: bool, *, all_json: bool = False) -> bool:
    """Change the format of the handler of :func:`set_up_logging`; return False if there is none."""
    found = _handlers()
    for handler in found:
        handler.setFormatter(JsonFormatter() if as_json or all_json else PlainFormatter())
    _reports.set(all_json and bool(found))
    return bool(found)


def logging_is_set_up() -> bool:
    """Return whether the handler of :func:`set_up_logging` is there."""
    return bool(_handlers())


def remove_logging() -> None:
    """Remove the handler that :func:`set_up_logging` added; log levels stay."""
    for handler in _handlers():
        logging.getLogger().removeHandler(handler)
    _reports.set(False)


def _handlers() -> list[_StderrHandler]:
    return [each for each in logging.getLogger().handlers if isinstance(each, _StderrHandler)]


def report(text: str) -> None:
    """Write a text for people to the standard error: as it is, or where all lines there are JSON, as one."""
    if _reports.on:
        _LOG.error("%s", _mask_of_all().text(text))
    else:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Reports:
    """Python's own reports on the standard error; while it is on, they are lines of the log."""

    def __init__(self) -> None:
        self.on = False
        self._before = sys.excepthook, threading.excepthook

    def set(self, on: bool) -> None:
        if on == self.on:
            return
        self.on = on
        logging.captureWarnings(on)
        if on:
            self._before = sys.excepthook, threading.excepthook
            sys.excepthook, threading.excepthook = _ended, _thread_ended
        else:
            sys.excepthook, threading.excepthook = self._before


def _ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _LOG.critical("the process ends with an exception", exc_info=(kind, error, trace))


def _thread_ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None and what.exc_type is not SystemExit:
        name = "?" if what.thread is None else what.thread.name
        raised = what.exc_type, what.exc_value, what.exc_traceback
        _LOG.error("thread %s ended with an exception", name, exc_info=raised)


_reports: Final = _Reports()
