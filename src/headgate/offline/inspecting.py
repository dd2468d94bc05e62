"""Runs work that needs the program's classes in the process that captures its plan; returns the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NotRequired, TypedDict, TypeVar

import msgspec

from headgate.api.jobs.plan_capture import Inspection, capture
from headgate.checkpoint.storage.settings import storage_settings, use_storage_settings
from headgate.common import errors
from headgate.common.decoders import converter
from headgate.common.errors import HeadgateError, InternalError
from headgate.common.settings.config import Config

T = TypeVar("T")


class Answer(TypedDict, Generic[T]):
    """The result of an inspection: its answer as plain values, or class name and message of an error."""

    answer: NotRequired[T]
    error: NotRequired[tuple[str, str]]


def answered(config: Config, work: Callable[[], T]) -> Answer[T]:
    """Return the result of `work()`, with storage settings of `config`, or the HeadgateError it raises."""
    try:
        use_storage_settings(storage_settings(config))
        made: T = msgspec.to_builtins(work())
        return {"answer": made}
    except HeadgateError as error:
        return {"error": (type(error).__name__, str(error))}


def asked(
    kind: type[T],
    inspector: str,
    request: Mapping[str, Any],
    program: str | Path,
    arguments: Sequence[str],
    options: Sequence[str],
    timeout_s: float | None,
) -> T:
    """Plan a program in its own process (else UsageError), return the inspector's answer, or raise its error.
    `inspector`, "module:function", gets `request`, nodes, plan and settings there; its answer becomes a
    `kind`. `arguments` and `options` are the program's; `timeout_s` bounds all of it; None: no limit.
    """
    facts = capture(program, arguments, options, timeout_s, Inspection(inspector, request))
    found = facts.get("inspection")
    if found is None:
        raise InternalError(f"program {str(program)!r} was planned, but not compared; please report this")
    if "error" in found:
        name, message = found["error"]
        raise getattr(errors, name, HeadgateError)(message)
    return converter(kind)(found["answer"])
