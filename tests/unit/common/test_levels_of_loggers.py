"""Levels of loggers that several jobs of one process set: whose wish holds, and what is left afterwards."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from headgate.common.process.log_levels import LogLevels

LOG = logging.getLogger("levels.of.the.test")


def test_the_level_from_before_the_first_wish_comes_back_with_the_last() -> None:
    """Although the job that was first has ended first."""
    LOG.setLevel(logging.WARNING)
    first, second = LogLevels(), LogLevels()
    first.use({LOG.name: "debug"})
    second.use({LOG.name: "info"})
    first.use({})
    assert LOG.level == logging.INFO
    second.use({})
    assert LOG.level == logging.WARNING


def test_the_newest_wish_holds_as_long_as_its_job() -> None:
    """A wish that is repeated, as with each heartbeat, does not become newer; one that changes does."""
    LOG.setLevel(logging.WARNING)
    first, second = LogLevels(), LogLevels()
    first.use({LOG.name: "debug"})
    second.use({LOG.name: "error"})
    first.use({LOG.name: "debug"})
    assert LOG.level == logging.ERROR
    first.use({LOG.name: "info"})
    assert LOG.level == logging.INFO
    first.use({})
    assert LOG.level == logging.ERROR
    second.use({})
    assert LOG.level == logging.WARNING


LEVEL = st.sampled_from(["debug", "info", "warning", "error", None])


@given(st.lists(st.tuples(st.integers(0, 2), LEVEL), max_size=20))
def test_whatever_jobs_wish_nothing_is_left(wishes: list[tuple[int, str | None]]) -> None:
    """In whichever order they end; a logger beside is never touched."""
    beside = logging.getLogger(f"{LOG.name}.beside")
    LOG.setLevel(logging.CRITICAL)
    beside.setLevel(7)
    jobs = [LogLevels() for _ in range(3)]
    for job, level in wishes:
        jobs[job].use({} if level is None else {LOG.name: level})
    for each in jobs:
        each.use({})
    assert (LOG.level, beside.level) == (logging.CRITICAL, 7)
