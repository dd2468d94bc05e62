"""What a driver hears of its own log for reports; programs, with handlers or without, do not notice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headgate.common.masking import Mask
from headgate.common.process.heard_logs import heard, warnings_kept
from headgate.common.process.log_lines import WARNINGS_MAX, LoggedJob
from headgate.common.process.logs import logging_for

LOG = logging.getLogger("headgate.test.heard")


@contextmanager
def no_handlers() -> Iterator[None]:
    """The root logger as in a program that has set up none."""
    root = logging.getLogger()
    before = list(root.handlers)
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = before


def test_the_newest_warnings_are_kept_masked() -> None:
    """Of the job, and not those of another one; lines below warnings and of the program's loggers are not."""
    with logging_for("a") as job, logging_for("b") as other, warnings_kept(job), warnings_kept(other):
        other.mask = Mask(["opensesame"])
        for n in range(WARNINGS_MAX + 5):
            LOG.warning("%d opensesame", n)
        LOG.info("not a warning")
        logging.getLogger("of.the.program").warning("not of Headgate")
    LOG.warning("after the end")
    assert len(job.warnings) == 0
    messages = [line["message"] for line in other.warnings]
    assert messages == [f"{n} ******" for n in range(5, WARNINGS_MAX + 5)]


def test_a_warning_of_no_job_hides_the_secrets_of_all_jobs() -> None:
    """A thread that works for no job may quote any job's secret; both jobs keep its warning."""
    with logging_for("a") as job, logging_for("b") as other, warnings_kept(job), warnings_kept(other):
        job.mask, other.mask = Mask(["opensesame"]), Mask(["swordfish"])
        thread = threading.Thread(target=lambda: LOG.warning("opensesame and swordfish"))
        thread.start()
        thread.join()
    for each in (job, other):
        assert [line["message"] for line in each.warnings] == ["****** and ******"]


def test_two_jobs_of_one_name_keep_their_own_warnings() -> None:
    """The thread tells which job's driver it is, whether that has an id yet or not."""
    with logging_for("same") as job, warnings_kept(job):
        with logging_for("same") as other, warnings_kept(other):
            other.mask = Mask(["swordfish"])
            LOG.warning("swordfish 1")
            job.id, other.id = "same-1", "same-2"
            LOG.warning("swordfish 2")
        LOG.warning("of the first")
    assert [line["message"] for line in job.warnings] == ["of the first"]
    assert [line["message"] for line in other.warnings] == ["****** 1", "****** 2"]


def test_a_program_without_handlers_sees_warnings_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    """On the standard error, once each."""
    with no_handlers():
        with heard(LoggedJob("a"), logging.INFO, lambda _: None), warnings_kept(LoggedJob("b")):
            LOG.warning("seen")
            LOG.info("not seen")
        LOG.warning("as ever")
    assert capsys.readouterr().err == "seen\nas ever\n"


def test_a_listener_that_fails_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """The line is logged all the same."""

    def fails(record: logging.LogRecord) -> None:
        raise ValueError("a listener")

    raises, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        with no_handlers(), heard(LoggedJob("a"), logging.INFO, fails):
            LOG.warning("seen")
    finally:
        logging.raiseExceptions = raises
    assert capsys.readouterr().err == "seen\n"
