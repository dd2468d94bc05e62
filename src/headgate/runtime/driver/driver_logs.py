"""The log of a job's driver, and what its workers are told of theirs: the form of lines, names, secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

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

    A program without any handler of its own gets one that writes JSON, for as long as the job runs; handlers
    of the program stay as they are.
    """
    with logging_for(name) as named, _format(config):
        named.mask = Mask(secrets_of(config))
        with warnings_kept(named):
            yield named


@contextmanager
def _format(config: Config) -> Iterator[None]:
    chosen = config.get(o.LOGS_FORMAT)
    all_json = chosen is LogFormat.JSON
    if chosen is None or use_format(all_json, all_json=all_json) or logging.getLogger().handlers:
        yield
        return
    level = logging.getLogger().level
    set_up_logging(all_json=all_json)
    try:
        yield
    finally:
        remove_logging()
        logging.getLogger().setLevel(level)


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
