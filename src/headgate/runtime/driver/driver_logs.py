"""The log of a job's driver, and what its workers are told of theirs: the form of lines, names, secrets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headgate.common.masking import Mask
from headgate.common.process.heard_logs import warnings_kept
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.logs import logging_for, remove_logging, set_up_logging, use_format
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.outward_options import LogFormat
from headgate.common.settings.secret_options import secrets_of
from headgate.runtime.job.listener import JobListener
from headgate.runtime.worker.worker_logs import WorkerLogs


@contextmanager
def logging_job(name: str, config: Config) -> Iterator[LoggedJob]:
    """Name a job in this thread's log lines within the block, and write them in the format that it wants.

    A program without any handler of its own gets one, for as long as a job runs that wants a format; handlers
    of the program stay as they are. Of several jobs at once the newest one's format is in force.
    """
    with logging_for(name) as named, _formats.wanted(named, config):
        named.mask = Mask(secrets_of(config))
        with warnings_kept(named):
            yield named


class _Formats:
    """The formats that the jobs of this process want for its log lines. The newest job's is in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[LoggedJob, bool] = {}  # whether all is to be JSON; the newest job is last
        self._level: int | None = None  # of the root logger before a handler was made for jobs, or None

    @contextmanager
    def wanted(self, job: LoggedJob, config: Config) -> Iterator[None]:
        chosen = config.get(o.LOGS_FORMAT)
        if chosen is None:
            yield
            return
        with self._lock:
            self._begun(job, chosen is LogFormat.JSON)
        try:
            yield
        finally:
            with self._lock:
                self._ended(job)

    def _begun(self, job: LoggedJob, all_json: bool) -> None:
        self._wanted[job] = all_json
        root = logging.getLogger()
        if not use_format(all_json, all_json=all_json) and not root.handlers:
            self._level = root.level if self._level is None else self._level
            set_up_logging(all_json=all_json)

    def _ended(self, job: LoggedJob) -> None:
        del self._wanted[job]
        if self._wanted:
            newest = list(self._wanted.values())[-1]
            use_format(newest, all_json=newest)
        elif self._level is not None:
            remove_logging()
            logging.getLogger().setLevel(self._level)
            self._level = None
        # The handler of `headgate run` keeps the format: the command's last words are to have it, too.


_formats: Final = _Formats()


def logs_of_workers(name: str, config: Config) -> WorkerLogs:
    """Return how the workers of a job write their logs."""
    chosen = config.get(o.LOGS_FORMAT)
    implied = chosen is None and config.get(o.PROGRESS) is o.ProgressDisplay.JSON
    # Workers are not told what they do not need.
    masked = secrets_of(config.without("headgate.otlp.", "headgate.openlineage."))
    return WorkerLogs(name, implied or chosen is LogFormat.JSON, chosen is LogFormat.JSON, tuple(masked))


class AttemptInLogs(JobListener):
    """The job listener that names the present attempt in the driver's log lines."""

    def __init__(self, named: LoggedJob) -> None:
        self._named = named

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._named.attempt = attempt
