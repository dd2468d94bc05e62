"""Texts of any length: what errors, messages and logs keep of them."""

from __future__ import annotations

import inspect
import logging
import pickle

import msgspec
import pytest

from headgate.common import errors
from headgate.common.errors import HeadgateError, UserFunctionError
from headgate.common.process.logs import JsonFormatter, PlainFormatter
from headgate.common.refusals.texts import TEXT_CHARS_MAX, shortened
from headgate.common.refusals.users_frames import users_traceback
from headgate.runtime.driver.endpoint.served import error_facts
from headgate.runtime.protocol.error_messages import describe_error, rebuild_error

LONG = "head " + "x" * 20_000_000 + " tail"
KEPT_MAX = TEXT_CHARS_MAX + 100

ERRORS = [
    cls
    for cls in vars(errors).values()
    if inspect.isclass(cls) and issubclass(cls, HeadgateError) and cls is not UserFunctionError
]


def test_head_and_tail_are_kept() -> None:
    """And how much was between them; a short text is itself."""
    assert shortened("x" * TEXT_CHARS_MAX) == "x" * TEXT_CHARS_MAX
    found = shortened(LONG)
    assert found.startswith("head ")
    assert found.endswith(" tail")
    assert f"{len(LONG) - TEXT_CHARS_MAX:,} characters left out" in found
    assert len(found) < KEPT_MAX


@pytest.mark.parametrize("cls", ERRORS)
def test_an_error_does_not_grow(cls: type[HeadgateError]) -> None:
    """In memory, on its way through a process border, and as the endpoint tells it."""
    error = cls(f"it failed: {LONG}")
    for found in (error, pickle.loads(pickle.dumps(error)), rebuild_error(*describe_error(error))):
        assert len(str(found)) < KEPT_MAX
        assert str(found).endswith(" tail")
    assert len(str(error_facts(error))) < KEPT_MAX + 200


def test_what_a_users_function_raised_does_not_grow() -> None:
    """20 MB of text are said in the first line and in the traceback: neither is whole."""
    try:
        raise ValueError(LONG)
    except ValueError as raised:
        told = users_traceback(raised)
        (kind, arguments) = describe_error(raised)
    assert len(told) < KEPT_MAX
    error = UserFunctionError("'map' (uid 'm')", LONG, told, 2)
    for found in (error, pickle.loads(pickle.dumps(error)), rebuild_error(*describe_error(error))):
        assert isinstance(found, UserFunctionError)
        assert found.attempt == 2
        assert max(len(found.record), len(found.traceback_text)) < KEPT_MAX
        assert len(str(found)) < 3 * KEPT_MAX
        assert found.traceback_text.rstrip().endswith(" tail")
    assert kind == "InternalError"
    assert len(arguments[0]) < KEPT_MAX


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_a_line_of_the_log_does_not_grow(formatter: logging.Formatter) -> None:
    """Neither by its message nor by what was raised."""
    try:
        raise ValueError(LONG)
    except ValueError as raised:
        info = type(raised), raised, raised.__traceback__
    record = logging.LogRecord("user", logging.ERROR, __file__, 1, "it failed: %s", (LONG,), info)
    assert len(formatter.format(record)) < 3 * KEPT_MAX


HALF = "half a character \ud800 of JSON"


@pytest.mark.parametrize("cls", ERRORS)
def test_halves_of_characters_are_written_out(cls: type[HeadgateError]) -> None:
    """No encoding takes them, so an error that held one could not be told to the driver, or written."""
    found = rebuild_error(*describe_error(cls(HALF)))
    assert str(found).endswith("half a character \\ud800 of JSON")
    assert b"\\ud800" in msgspec.json.encode(error_facts(found))


def test_what_a_users_function_raised_can_be_told_to_the_driver() -> None:
    """Whatever its text; the worker's loop does not end of it."""
    try:
        raise ValueError(HALF)
    except ValueError as raised:
        kind, arguments = describe_error(UserFunctionError("'map'", str(raised), users_traceback(raised), 1))
    assert b"\\ud800" in msgspec.msgpack.encode((kind, arguments))
