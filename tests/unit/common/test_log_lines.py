"""A log line for machines: one valid JSON object whatever is logged, ids where known, and no secret."""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from headgate.common.masking import MASK, Mask
from headgate.common.process import logs
from headgate.common.process.log_lines import LoggedJob

Written = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """JSON lines in force; tells those since the last call, read by a strict parser."""
    level = logging.getLogger().level
    logs.set_up_logging(all_json=True)
    yield lambda: [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
    logs.remove_logging()
    logs.clear_task_context()
    logging.getLogger().setLevel(level)


@contextmanager
def heard_by_us_alone(name: str) -> Iterator[logging.Logger]:
    """A logger without pytest's handlers, which raise, or keep texts that pytest-xdist cannot send."""
    log = logging.getLogger(name)
    log.propagate = False
    for handler in logs._handlers():
        log.addHandler(handler)
    yield log
    log.propagate = True
    log.handlers.clear()


HOSTILE = [
    "two\nlines\r\nand\x00control\x1b[2Jcharacters\x85\u2028\u2029",
    "half a character \ud800, and its other half \udc00",
    '"quoted" \\ {"level": "INFO"}',
    "x" * 1_000_000,
    "\ud83d" * 1_000_000,
    "\u202eright to left, \ufeff a mark, \U0010ffff the last",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_one_valid_line(written: Written, text: str) -> None:
    """As a message, a field, a logger's name, an exception, the name of a job or of an operator."""
    logs.use_task_context(logs.TaskContext(text, text, 0, 1))
    with heard_by_us_alone(f"l{text}") as log:
        try:
            raise ValueError(text)
        except ValueError:
            log.exception(text, extra={"field": text, f"name {text}": 1})
    (line,) = written()
    for name in ("message", "logger", "job", "uid", "exception"):
        assert isinstance(line[name], str)
        assert not any("\ud800" <= each <= "\udfff" for each in line[name])
    if len(text) > 100_000:
        assert "characters left out ...]" in line["message"]
        assert "characters left out ...]" in line["extra"]["field"]
        assert len(json.dumps(line)) < 2_500_000
    else:
        assert line["message"] == text.encode("utf-8", "backslashreplace").decode()


class Broken:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_what_cannot_be_formatted_is_a_line_all_the_same(written: Written) -> None:
    """Arguments that do not fit, objects without text, an empty exception."""
    with heard_by_us_alone("x") as log:
        log.warning("%d of %d", "one")
        log.warning("%s", Broken())
        log.warning("a field", extra={"broken": Broken(), "list": [1, 2], "none": None})
        log.error("nothing was raised", exc_info=True)
    first, second, third, fourth = written()
    assert first["message"] == "'%d of %d' (with arguments that do not fit: TypeError)"
    assert second["message"] == "'%s' (with arguments that do not fit: RuntimeError)"
    assert third["extra"] == {
        "broken": "(a Broken without text: RuntimeError)", "list": "[1, 2]", "none": None,
    }  # fmt: skip
    assert "exception" not in fourth


def test_numbers_that_json_has_not_are_texts(written: Written) -> None:
    """Infinite ones, those that are no number, and those of which a reader would lose digits or fail."""
    extra = {
        "ratio": float("nan"),
        "most": float("inf"),
        "half": 0.5,
        "yes": True,
        "n": -(2**63),
        "u": 2**64 - 1,
    }
    with heard_by_us_alone("x") as log:
        log.warning("a", extra={**extra, "large": 2**64, "huge": 10**5_000})
    (line,) = written()
    texts = {"ratio": "nan", "most": "inf", "large": str(2**64), "huge": "(a int without text: ValueError)"}
    assert line["extra"] == {**extra, **texts}


def test_ids_of_the_driver(written: Written) -> None:
    """Name, id and attempt of the job, from any thread where there is one job; a checkpoint if it says so."""
    with logs.logging_for("streaks") as job:
        job.id, job.attempt = "streaks-1", 3
        logging.getLogger("x").info("in", extra={"checkpoint": 7})
        thread = threading.Thread(target=lambda: logging.getLogger("x").info("elsewhere"))
        thread.start()
        thread.join()
        with logs.logging_for("other"):
            logging.getLogger("x").info("of the other")
            thread = threading.Thread(target=lambda: logging.getLogger("x").info("of one of two"))
            thread.start()
            thread.join()
    logging.getLogger("x").info("out")
    names = ("job_name", "job_id", "attempt", "checkpoint", "worker")
    assert [tuple(line[name] for name in names) for line in written()] == [
        ("streaks", "streaks-1", 3, 7, None),
        ("streaks", "streaks-1", 3, None, None),
        ("other", None, None, None, None),
        (None, None, None, None, None),
        (None, None, None, None, None),
    ]


def test_of_two_jobs_of_one_name_none_is_named_by_it() -> None:
    """A name alone does not tell which one a thread works for; an id does."""
    named = list[LoggedJob | None]()

    def seen(job: str) -> None:
        logs.use_task_context(logs.TaskContext(job))
        record = logging.makeLogRecord({})
        logs.ContextFilter().filter(record)
        named.append(record.__dict__["headgate_job"])

    with logs.logging_for("same") as first, logs.logging_for("same") as second:
        first.id, second.id = "same-1", "same-2"
        for job in ("same", "same-1", "same-2"):
            thread = threading.Thread(target=seen, args=[job])
            thread.start()
            thread.join()
    assert named == [None, first, second]


def test_ids_of_a_worker(written: Written) -> None:
    """Also of a thread that works for no subtask."""
    with logs.job_of_process(LoggedJob("streaks", "streaks-1", worker=2)):
        logs.use_task_context(logs.TaskContext("streaks-1", "count", 2, 4))
        logging.getLogger("x").info("in")
        logs.clear_task_context()
        logging.getLogger("x").info("beside")
    first, second = written()
    names = ("job_name", "job_id", "uid", "subtask", "attempt", "worker")
    assert [first[name] for name in names] == ["streaks", "streaks-1", "count", 2, 4, 2]
    assert [second[name] for name in names] == ["streaks", "streaks-1", None, None, None, 2]
    assert first["time"].endswith("Z")
    assert abs(first["time_ms"] / 1000 - second["time_ms"] / 1000) < 60


def test_secrets_are_masked_wherever_they_are(written: Written) -> None:
    """Those that are known to be some, logins in URLs, and values whose names say it."""
    with logs.logging_for("streaks") as job:
        job.mask = Mask(["opensesame", "opensesame-and-more", "ab"])
        try:
            raise ValueError("opensesame-and-more")
        except ValueError:
            logging.getLogger("opensesame").exception("it is opensesame", extra={"key": "opensesame"})
        logging.getLogger("x").info(
            "jdbc:postgresql://ada:p@ss@db.example/t?user=ada&password=hidden1 and "
            "Authorization: Bearer hidden22"
        )
        logging.getLogger("x").info("password='hidden 3' s3.secret-key=hidden4, tab=ab")
    lines = written()
    assert "opensesame" not in json.dumps(lines)
    assert "hidden" not in json.dumps(lines)
    assert lines[0]["message"] == f"it is {MASK}"
    assert lines[1]["message"].startswith(f"jdbc:postgresql://{MASK}@db.example/t?user=ada&password={MASK}")
    assert lines[2]["message"] == f"password={MASK} s3.secret-key={MASK}, tab=ab"


def test_masking_takes_no_longer_than_reading() -> None:
    """Texts made to be slow for patterns are not."""
    for text in ("://" * 400_000, "://" + "a:" * 400_000, "token" * 250_000, "bearer " * 200_000):
        assert len(Mask(["opensesame"]).text(text)) >= 6


def test_what_python_reports_itself_is_a_line(written: Written) -> None:
    """Warnings, and exceptions that end a thread or the process; what Headgate reports, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old\nfashioned", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    thread = threading.Thread(target=lambda: 1 // 0, name="mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", logs._thread_ended)
        thread.start()
        thread.join()
    sys.excepthook(KeyError, KeyError("gone"), None)
    logs.report("headgate: the end\n  of it")
    warned, died, ended, said = written()
    assert "UserWarning: old\nfashioned" in warned["message"]
    assert died["message"] == "thread mine ended with an exception"
    assert died["exception"].endswith("ZeroDivisionError: integer division or modulo by zero")
    assert (ended["level"], ended["exception"]) == ("CRITICAL", "KeyError: 'gone'")
    assert said["message"] == "headgate: the end\n  of it"


def test_hooks_are_put_back(written: Written) -> None:
    """Text lines leave Python's reports alone, as does the end of logging."""
    ours = sys.excepthook
    logs.set_up_logging()
    assert sys.excepthook is not ours
    assert logs.use_format(True, all_json=True)
    assert sys.excepthook is ours
    logs.remove_logging()
    assert sys.excepthook is not ours
    assert not logs.use_format(True)
