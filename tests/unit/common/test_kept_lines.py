"""The newest log lines of a process: how many are kept, what is dropped first, and that no text does harm."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from headgate.common.masking import Mask
from headgate.common.process.kept_lines import (
    BYTES_MAX,
    LINES_MAX,
    LOOKED_AT_MAX,
    MESSAGE_CHARS_MAX,
    LogLine,
    NewLines,
    new_lines,
)
from headgate.common.process.log_lines import LoggedJob, TaskContext
from headgate.common.process.logs import clear_task_context, job_of_process, use_task_context

LOG = logging.getLogger("of.a.program")


@pytest.fixture
def kept() -> Iterator[NewLines]:
    """What the process of worker 3 keeps, whose job has a secret."""
    before = LOG.level
    LOG.setLevel(logging.DEBUG)
    mask = Mask(["opensesame"])
    with job_of_process(LoggedJob("words", "words-1", worker=3, mask=mask)), new_lines() as lines:
        yield lines
    LOG.setLevel(before)


def test_a_line_says_who_wrote_it(kept: NewLines) -> None:
    """With the operator of the thread, the traceback, and nothing of the secret."""
    use_task_context(TaskContext("words-1", "count", 3, 2))
    try:
        raise ValueError("opensesame")
    except ValueError:
        LOG.exception("with %s", "opensesame", extra={"checkpoint": 7})
    finally:
        clear_task_context()
    (line,), left_out = kept.take()
    assert (line.level, line.logger, line.message, left_out) == ("ERROR", "of.a.program", "with ******", 0)
    assert (line.worker, line.uid, line.subtask, line.attempt, line.checkpoint) == (3, "count", 3, 2, 7)
    assert abs(line.time_ms / 1000 - time.time()) < 60
    assert line.exception is not None
    assert line.exception.endswith("ValueError: ******")
    assert kept.take() == ([], 0)


def test_a_storm_is_counted_and_errors_find_room(kept: NewLines) -> None:
    """Of many lines at once the first are kept; a warning takes the place of the oldest line."""
    for n in range(LINES_MAX + 5):
        LOG.info("line %d", n)
    LOG.warning("careful")
    lines, left_out = kept.take()
    assert [line.message for line in lines] == [*(f"line {n}" for n in range(1, LINES_MAX)), "careful"]
    assert left_out == 6
    for n in range(2 * LOOKED_AT_MAX):
        LOG.error("line %d", n)
    lines, left_out = kept.take()
    assert lines[-1].message == f"line {LOOKED_AT_MAX - 1}"
    assert len(lines) + left_out == 2 * LOOKED_AT_MAX


def test_a_storm_costs_little(kept: NewLines) -> None:
    """What is only counted is not formatted."""

    class Costly:
        formatted = 0

        def __str__(self) -> str:
            Costly.formatted += 1
            return "x"

    for _ in range(10 * LINES_MAX):
        LOG.info("%s", Costly())
    others = Costly.formatted - LINES_MAX  # pytest's own handlers format, too
    assert others % (10 * LINES_MAX) == 0


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, "\ud800 half", b"\xff\xfe".decode("utf-8", "surrogateescape"), "\x1b[31m\x00", "<b>"],
    ids=["a megabyte", "half a character", "no UTF-8", "control characters", "markup"],
)
def test_any_text_can_be_sent(kept: NewLines, text: str) -> None:
    """Cut, and as something that MessagePack and JSON can say."""
    # Not by a logger: what pytest keeps of a log has to be sent as UTF-8 by parallel runs.
    kept.handle(logging.makeLogRecord({"name": "x", "msg": "%s", "args": (text,), "uid": text}))
    kept.handle(logging.makeLogRecord({"name": "x", "msg": "%d", "args": (text,)}))  # which do not fit
    lines, _ = kept.take()
    assert len(lines) == 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(lines), type=list[LogLine]) == lines
    msgspec.json.encode(lines)
    assert max(len(line.message) for line in lines) < MESSAGE_CHARS_MAX + 100


def test_bytes_are_limited_too(kept: NewLines) -> None:
    """Large lines are fewer."""
    for _ in range(LINES_MAX):
        LOG.warning("ä" * MESSAGE_CHARS_MAX)
    lines, left_out = kept.take()
    assert 0 < sum(line.size for line in lines) <= BYTES_MAX
    assert len(lines) + left_out == LINES_MAX


def test_nothing_is_heard_after_the_end() -> None:
    """The handler is gone from the root logger."""
    before = list(logging.getLogger().handlers)
    with new_lines() as lines:
        pass
    LOG.warning("too late")
    assert lines.take() == ([], 0)
    assert logging.getLogger().handlers == before


@pytest.mark.parametrize("number", [2**70, -(2**70), True, 1.5])
def test_numbers_that_nobody_can_send_are_left_out(kept: NewLines, number: Any) -> None:
    """What a program gives as `extra` has no bounds; a line that cannot be sent would stop what is behind."""
    kept.handle(logging.makeLogRecord({"name": "x", "msg": "y", "checkpoint": number, "attempt": number}))
    lines, _ = kept.take()
    assert [(line.checkpoint, line.attempt) for line in lines] == [(None, None)]
    msgspec.msgpack.encode(lines)


def test_lines_can_be_taken_while_the_program_makes_a_text(kept: NewLines) -> None:
    """A heartbeat takes them, and must not wait for code of the program."""
    begun, over = threading.Event(), threading.Event()

    class Slow:
        def __str__(self) -> str:
            begun.set()
            assert over.wait(30)
            return "slow"

    record = logging.makeLogRecord({"name": "x", "msg": "%s", "args": (Slow(),)})
    logs = threading.Thread(target=kept.handle, args=(record,))
    logs.start()
    assert begun.wait(30)
    assert kept.take() == ([], 0)
    over.set()
    logs.join(30)
    assert [line.message for line in kept.take()[0]] == ["slow"]
