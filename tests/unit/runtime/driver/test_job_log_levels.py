"""Levels of loggers that are set from outside while a job runs, and not after its end."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from headgate.common.errors import OperatingError
from headgate.runtime.driver.job_log_levels import JobLogLevels


def test_a_job_that_is_over_sets_no_level() -> None:
    """Nobody would ever undo it."""
    log, members = logging.getLogger("job.levels.of.the.test"), SimpleNamespace(log_levels=None)
    levels = JobLogLevels(members, lambda callback: callback())  # type: ignore[arg-type]
    assert levels.set(log.name, "debug") == members.log_levels == {log.name: "debug"}
    assert log.level == logging.DEBUG
    levels.close()
    with pytest.raises(OperatingError, match=r"logger 'job\.levels.*cannot be set, because the job is over"):
        levels.set(log.name, "info")
    assert log.level == logging.NOTSET
