"""Log lines carry job, uid, subtask and attempt, as text and as JSON."""

from __future__ import annotations

import importlib
import io
import json
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from headgate.common.masking import Mask
from headgate.common.process import logs
from headgate.common.process.log_lines import LoggedJob

Written = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """Logging as in a fresh process; tells the lines on the standard error since the last call."""
    level = logging.getLogger().level
    yield lambda: capsys.readouterr().err.splitlines()
    logs.remove_logging()
    logs.clear_task_context()
    logging.getLogger().setLevel(level)


def test_a_line_of_user_code_tells_its_subtask(written: Written) -> None:
    """User code logs as ever and gets the fields without asking."""
    logs.set_up_logging()
    logs.use_task_context(logs.TaskContext("streaks", "count", 1, 2))
    logging.getLogger("my.module").info("saw %d", 3)
    (line,) = written()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO "
        r"job=streaks uid=count subtask=1 attempt=2 my\.module: saw 3",
        line,
    )


def test_lines_for_people_show_no_secret_either(written: Written) -> None:
    """Neither those of the settings, nor what looks like one, in message, exception and names."""
    logs.set_up_logging()
    with logs.job_of_process(LoggedJob("streaks", "streaks-1", worker=0, mask=Mask(["opensesame"]))):
        logs.use_task_context(logs.TaskContext("streaks-1", "opensesame", 0, 1))
        try:
            raise ValueError("opensesame, and password=x1")
        except ValueError:
            logging.getLogger("of.opensesame").exception("https://ada:pw@db opensesame")
    lines = written()
    names = " ERROR job=streaks-1 uid=****** subtask=0 attempt=1 of.******: "
    assert lines[0].endswith(f"{names}https://******@db ******")
    assert lines[-1] == "ValueError: ******, and password=******"
    assert "opensesame" not in "".join(lines)


def test_a_line_of_the_driver_tells_its_job_only(written: Written) -> None:
    """Fields that do not apply are left out of text."""
    logs.set_up_logging()
    with logs.logging_for("streaks"):
        logging.getLogger("x").warning("in")
    logging.getLogger("x").warning("out")
    assert [line.split(" ", 2)[2] for line in written()] == [
        "WARNING job=streaks x: in",
        "WARNING x: out",
    ]


def test_json_lines_have_all_fields(written: Written) -> None:
    """One object per line; what is not known is null; a traceback stays inside its line."""
    logs.set_up_logging(as_json=True)
    logs.use_task_context(logs.TaskContext("streaks", "count", 0, 1))
    try:
        raise ValueError("odd\nvalue")
    except ValueError:
        logging.getLogger("x").exception("failed")
    logs.clear_task_context()
    logging.getLogger("x").error("outside")
    first, second = [json.loads(line) for line in written()]
    fields = ("job", "uid", "subtask", "attempt", "level", "logger", "message")
    assert {key: first[key] for key in fields} == {
        "job": "streaks", "uid": "count", "subtask": 0, "attempt": 1,
        "level": "ERROR", "logger": "x", "message": "failed",
    }  # fmt: skip
    assert first["exception"].endswith("ValueError: odd\nvalue")
    assert (second["job"], second["subtask"], "exception" in second) == (None, None, False)


def test_threads_have_contexts_of_their_own(written: Written) -> None:
    """What one worker thread works for does not show on another's lines."""
    logs.set_up_logging()
    logs.use_task_context(logs.TaskContext("streaks", "count", 0, 1))
    seen: list[logs.TaskContext] = []
    thread = threading.Thread(target=lambda: seen.append(logs.task_context()))
    thread.start()
    thread.join()
    assert seen == [logs.TaskContext()]


def test_a_context_made_beforehand_is_taken_as_it_is() -> None:
    """A loop over subtasks changes the context without making it anew."""
    context = logs.TaskContext("streaks", "count", 3, 1)
    logs.use_task_context(context)
    assert logs.task_context() is context


def test_setting_up_again_changes_the_format_and_writes_once(written: Written) -> None:
    """A second call does not double the lines, and handlers of others stay."""
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    logs.set_up_logging()
    logs.set_up_logging(as_json=True)
    logging.getLogger("x").warning("once")
    assert [json.loads(line)["message"] for line in written()] == ["once"]
    logs.remove_logging()
    assert other in logging.getLogger().handlers
    logging.getLogger().removeHandler(other)


def test_fields_for_formats_of_others() -> None:
    """A handler with the filter may name the fields in its own format; a program's own field stays."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(logs.ContextFilter())
    handler.setFormatter(logging.Formatter("%(job)s/%(uid)s/%(subtask)s/%(attempt)s"))
    logger = logging.getLogger("test.fields")
    logger.propagate = False
    logger.addHandler(handler)
    logs.use_task_context(logs.TaskContext("streaks", "count", 0, 1))
    logger.warning("x")
    logger.warning("x", extra={"job": "mine"})
    logs.clear_task_context()
    logger.warning("x")
    assert stream.getvalue().splitlines() == ["streaks/count/0/1", "mine/count/0/1", "-/-/-/-"]


def test_lines_follow_the_standard_error(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a live display has replaced the standard error, lines go through it."""
    logs.set_up_logging()
    replaced = io.StringIO()
    monkeypatch.setattr(sys, "stderr", replaced)
    logging.getLogger("x").warning("above the line")
    assert written() == []
    assert "above the line" in replaced.getvalue()
    (handler,) = [h for h in logging.getLogger().handlers if isinstance(h, logs._StderrHandler)]
    with pytest.raises(AttributeError, match="always writes"):
        handler.stream = replaced


def test_a_chatty_library_is_kept_quiet(written: Written) -> None:
    """py4j tells of every connection at INFO; its warnings are kept."""
    logs.set_up_logging()
    logging.getLogger("py4j.clientserver").info("closing down")
    logging.getLogger("py4j.clientserver").warning("broken")
    assert len(written()) == 1


def test_the_former_name_of_the_filter_works_and_says_what_it_is_called_now() -> None:
    """A logging configuration that was written for the module's former place goes on working."""
    sys.modules.pop("headgate.runtime.logs", None)
    with pytest.warns(DeprecationWarning, match="headgate.common.process.logs"):
        former = importlib.import_module("headgate.runtime.logs")
    assert former.ContextFilter is logs.ContextFilter
