"""The newest log lines of a job, by process: merged by time, limited, and asked for."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from headgate.common.errors import UsageError
from headgate.common.process.kept_lines import MESSAGE_CHARS_MAX, LogLine
from headgate.common.process.logs import ContextFilter
from headgate.runtime.driver.endpoint.page import log_book
from headgate.runtime.driver.endpoint.page.log_book import (
    BYTES_MAX,
    LINES_MAX,
    WARNINGS_MAX,
    LogBook,
    WantedLines,
)
from headgate.runtime.driver.endpoint.page.log_route import TEXT_MAX, wanted_lines


def line(time_ms: int, message: str = "m", level: str = "INFO", **fields: Any) -> LogLine:
    """A line of some worker."""
    return LogLine(time_ms, level, "of.a.program", message, **fields)


def record(message: str, **fields: Any) -> logging.LogRecord:
    """A record of the driver."""
    made = logging.makeLogRecord({"name": "headgate.job", "levelname": "WARNING", "msg": message, **fields})
    ContextFilter().filter(made)
    return made


def messages(book: LogBook, **wanted: Any) -> list[str]:
    """The messages of the wanted lines."""
    found: Any = book.facts(WantedLines(**wanted))["lines"]
    return [each["message"] for each in found]


@pytest.fixture
def book() -> LogBook:
    """Lines of two workers and of the driver, whose clocks agree."""
    made = LogBook()
    made.sent(1, [line(20, "second", "ERROR", exception="KeyError: 'Elm'"), line(40, "fourth")], 3)
    made.sent(0, [line(10, "first", uid="count"), line(30, "third", "WARNING")], 0)
    made.heard(record("driver's", created=0.035))
    return made


def test_lines_of_all_processes_are_merged_by_time(book: LogBook) -> None:
    """Each with its process; what a worker has dropped is told."""
    found: Any = book.facts()
    assert [each["message"] for each in found["lines"]] == ["first", "second", "third", "driver's", "fourth"]
    assert [each["process"] for each in found["lines"]] == [
        "worker-0", "worker-1", "worker-0", "driver", "worker-1"
    ]  # fmt: skip
    assert [(each["process"], each["lines"], each["left_out"]) for each in found["processes"]] == [
        ("driver", 1, 0), ("worker-0", 2, 0), ("worker-1", 2, 3)
    ]  # fmt: skip
    assert (found["newest"], found["ever"], found["older"]) == (5, 8, 0)


def test_lines_are_asked_for(book: LogBook) -> None:
    """By process, level, text and number; the newest ones where there are more."""
    assert messages(book, process="workers") == ["first", "second", "third", "fourth"]
    assert messages(book, process="worker-1", level="warning") == ["second"]
    assert messages(book, level="warning") == ["second", "third", "driver's"]
    assert messages(book, text="elm") == ["second"]
    assert messages(book, text="COUNT") == ["first"]
    assert messages(book, after=4) == ["driver's"]
    assert messages(book, limit=2) == ["driver's", "fourth"]
    assert book.facts(WantedLines(limit=2))["older"] == 3


def test_a_process_keeps_so_many_lines(book: LogBook) -> None:
    """Its own: what others have said stays."""
    book.sent(7, [line(100 + n, str(n)) for n in range(2 * LINES_MAX)], 0)
    assert messages(book, process="worker-7")[0] == str(LINES_MAX)
    assert messages(book, process="worker-0") == ["first", "third"]


def test_a_storm_does_not_push_out_what_went_wrong(book: LogBook) -> None:
    """Warnings and errors have room of their own, which they share."""
    book.sent(1, [line(100 + n, str(n)) for n in range(2 * LINES_MAX)], 0)
    assert messages(book, process="worker-1", level="error") == ["second"]
    book.sent(1, [line(100 + n, str(n), "WARNING") for n in range(2 * LINES_MAX)], 0)
    assert messages(book, process="worker-1", level="warning")[0] == str(2 * LINES_MAX - WARNINGS_MAX)


def test_the_largest_process_makes_room(book: LogBook) -> None:
    """All together have so many bytes, whatever a worker sends."""
    for slot in range(10, 12):
        book.sent(slot, [line(100, "ä" * 10 * MESSAGE_CHARS_MAX)] * LINES_MAX, 0)
    assert book._size == sum(each.size for each in book._processes.values()) <= BYTES_MAX
    assert messages(book, process="worker-0") == ["first", "third"]


def test_an_answer_has_so_many_bytes(book: LogBook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest lines of it."""
    monkeypatch.setattr(log_book, "SHOWN_BYTES_MAX", 700)
    assert messages(book) == ["driver's", "fourth"]
    assert book.facts()["older"] == 3


def test_a_level_of_the_program_s_own_has_its_place() -> None:
    """By its number, if it is known in this process; otherwise it is below all."""
    book = LogBook()
    book.sent(0, [line(1, level="CRITICAL"), line(2, level="Level 35"), line(3, level="NOTICE")], 0)
    assert len(messages(book, level="warning")) == 1
    assert len(messages(book)) == 3


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"level": "loud"}, "expected one of: debug, info, warning, error"),
        ({"process": "worker--1"}, "expected driver, workers, or worker-0 and the like"),
        ({"after": "-1"}, "expected a whole number"),
        ({"limit": "9" * 20}, "expected a whole number"),
        ({"text": "x" * (TEXT_MAX + 1)}, "expected at most 200"),
        ({"lvl": "info"}, "there is no parameter 'lvl'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(query: dict[str, str], told: str) -> None:
    """In one sentence that says what was expected."""
    with pytest.raises(UsageError, match=told):
        wanted_lines(query)
