"""Hears what a job logs in its driver, and keeps the newest warnings for whoever asks for them later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from typing_extensions import override

from headgate.common.process.log_lines import JsonFormatter, LoggedJob, facts_of
from headgate.common.process.logs import ContextFilter

OF_HEADGATE = "headgate"
"""The logger above all of Headgate's own."""
ALL = ""
"""The logger above all others; a handler there keeps `logging.basicConfig()` of a program from working."""


class _Hearing(logging.Handler):
    def __init__(self, job: LoggedJob, level: int, hear: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(level)
        self._job, self._hear = job, hear
        self.addFilter(ContextFilter())

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            if record.__dict__.get("headgate_job") in (None, self._job):
                self._hear(record)
        except Exception:
            self.handleError(record)
        # A handler keeps Python from showing warnings where a program has set up no logging.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._stands_in(record.name):
            last.handle(record)

    def _stands_in(self, name: str) -> bool:
        # The first of several, where there is no handler but these.
        log: logging.Logger | None = logging.getLogger(name)
        found = list[logging.Handler]()
        while log is not None:
            found += log.handlers
            log = log.parent if log.propagate else None
        return found[:1] == [self] and all(isinstance(each, _Hearing) for each in found)


@contextmanager
def heard(
    job: LoggedJob, level: int, hear: Callable[[logging.LogRecord], None], logger: str = OF_HEADGATE
) -> Iterator[None]:
    """Call `hear`, in any thread, with each record of a logger, or of those below it, that is of `job`, or of
    no job that is known, within the block; other handlers get the records as ever.
    """
    handler, log = _Hearing(job, level, hear), logging.getLogger(logger)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def warnings_kept(job: LoggedJob) -> Iterator[None]:
    """Keep the newest warnings of a job within the block, masked, as `job.warnings`."""
    formatter = JsonFormatter()
    with heard(job, logging.WARNING, lambda record: job.warnings.append(facts_of(formatter, record))):
        yield
