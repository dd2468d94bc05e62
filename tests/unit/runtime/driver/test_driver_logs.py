"""The form of a driver's log lines where several jobs run in one program, and what is left afterwards."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from headgate.common.process import logs
from headgate.common.settings.config import Config
from headgate.runtime.driver.driver_logs import logging_job

JSON, TEXT = (Config().with_command_line([f"headgate.logs.format={each}"]) for each in ("json", "text"))
LOG = logging.getLogger("of.the.test")


@contextmanager
def no_handlers() -> Iterator[None]:
    """The root logger as in a program that has set up no logging; pytest adds its own to each test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logs.remove_logging()
        logs.clear_task_context()  # jobs that end in the order of their begin leave the first one's
        root.handlers[:] = handlers
        root.setLevel(level)


@contextmanager
def two_jobs(first: Config, second: Config) -> Iterator[tuple[ExitStack, ExitStack]]:
    """Both run in such a program; closing one's stack ends it."""
    with no_handlers(), ExitStack() as one, ExitStack() as two:
        one.enter_context(logging_job("one", first))
        two.enter_context(logging_job("two", second))
        yield one, two


@pytest.mark.parametrize("ends_first", [0, 1])
def test_the_handler_stays_until_the_last_job_ends(
    capsys: pytest.CaptureFixture[str], ends_first: int
) -> None:
    """Whichever of the two it was made for; then all is as before."""
    hook, root = sys.excepthook, logging.getLogger()
    with two_jobs(JSON, JSON) as jobs:
        jobs[ends_first].close()
        assert root.level == logging.INFO
        LOG.info("still JSON")
        jobs[1 - ends_first].close()
        assert (root.handlers, root.level, sys.excepthook) == ([], logging.WARNING, hook)
    lines = capsys.readouterr().err.splitlines()
    assert [line[:9] for line in lines] == ['{"time": ']


def test_of_two_jobs_the_newest_one_has_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    """And the other one has its own again, once that has ended."""
    with two_jobs(JSON, TEXT) as (_, second):
        LOG.warning("text")
        second.close()
        LOG.warning("JSON")
    text, line = capsys.readouterr().err.splitlines()
    assert (text[:1], line[:1]) == ("2", "{")


def test_a_job_without_a_wish_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither when it begins nor when it ends."""
    with two_jobs(JSON, Config()) as (_, second):
        second.close()
        LOG.info("JSON")
    assert capsys.readouterr().err[:1] == "{"


def test_the_handler_of_the_command_keeps_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    """What `headgate run` says at the end, after its jobs, is a line like theirs."""
    with no_handlers():
        logs.set_up_logging()
        with logging_job("one", JSON):
            pass
        logs.report("the last words")
    assert capsys.readouterr().err[:1] == "{"
