"""What a worker's process sends of its log: before which messages, and nothing when there is nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.worker_logs import logs_sent

LOG = logging.getLogger("of.a.program")


def texts(said: list[Any]) -> list[Any]:
    """The messages by name; of log lines, the texts."""
    return [
        [line.message for line in each.lines] if isinstance(each, m.Logged) else type(each).__name__
        for each in said
    ]


@pytest.mark.parametrize(
    "message",
    [m.Heartbeat(1, 0, 0, []), m.TaskFailed(1, 0, 0, "OperatingError", [], None), m.Idle(1, [])],
    ids=["heartbeat", "failure", "end of an attempt"],
)
def test_lines_come_before_what_may_be_the_last_message(message: Any) -> None:
    """A worker that fails has told why; without new lines nothing is added."""
    said: list[Any] = []
    with logs_sent(SimpleNamespace(send=said.append, close=lambda: None)) as link:
        LOG.warning("it fails")
        link.send(m.Deployed(1))
        link.send(message)
        link.send(message)
    assert texts(said) == ["Deployed", ["it fails"], type(message).__name__, type(message).__name__]


def test_the_last_lines_are_sent_at_the_end() -> None:
    """What closing a subtask has logged."""
    said: list[Any] = []
    with logs_sent(SimpleNamespace(send=said.append, close=lambda: None)):
        LOG.warning("closing: no")
    assert texts(said) == [["closing: no"]]


def test_lines_that_cannot_be_sent_are_counted_and_stop_nothing() -> None:
    """The heartbeat behind them is sent; the next lines say how many are lacking."""
    said: list[Any] = []

    def send(message: Any) -> None:
        if isinstance(message, m.Logged) and message.lines and message.lines[0].message == "bad":
            raise ValueError("it has no form")
        said.append(message)

    beat = m.Heartbeat(1, 0, 0, [])
    with logs_sent(SimpleNamespace(send=send, close=lambda: None)) as link:
        LOG.warning("bad")
        link.send(beat)
        LOG.warning("good")
        link.send(beat)
    assert texts(said) == ["Heartbeat", ["good"], "Heartbeat"]
    assert said[1].left_out == 1
