"""How a command ends: what it prints, and its exit code; `docs/cli-output.md` lists the codes."""

from __future__ import annotations

import json
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NamedTuple

import typer

from headgate.common.errors import (
    DamagedFileError,
    FencedError,
    HeadgateError,
    InternalError,
    JobCancelledError,
    OperatingError,
    StorageError,
    TerminatedError,
    UsageError,
    UserFunctionError,
)
from headgate.common.refusals.users_frames import users_traceback
from headgate.display.progress_status import error_facts

DEBUG_VARIABLE: Final = "HEADGATE_DEBUG"

_OURS: Final = str(Path(__file__).resolve().parents[1])
_OPENING: Final = str(Path(_OURS, "checkpoint", "opening.py"))


class ExitCode(IntEnum):
    """The exit codes of ``headgate``; a program under `run` that calls ``sys.exit`` chooses its own.
    REFUSED: program, settings or command are wrong; USER_CODE: the program's code raised; INTERNAL: an error
    of Headgate's own; HUNG_UP, INTERRUPTED, TERMINATED: ended by a signal, or the job was cancelled.
    """

    FINISHED = 0
    JOB_FAILED = 1
    INCOMPATIBLE = 1  # of `check-upgrade`: the program cannot go on from the snapshot, or would lose state
    DAMAGED = 1  # of `checkpoint verify`: something that a snapshot needs is missing or not intact
    REFUSED = 2
    USER_CODE = 3
    NEEDS_MIGRATION = 4  # of `check-upgrade --exact`: it can, but values are converted
    INTERNAL = 70
    NOT_LEADING = 75
    """Of `run`: another driver leads the job, or took it over; the job continues there."""
    HUNG_UP = 129
    INTERRUPTED = 130
    """The user cancelled the job, by Ctrl-C or by `headgate cancel`: to the job it is the same."""
    TERMINATED = 143


class SignalledError(TerminatedError):
    """Raised when a signal ends the command; the job is cancelled or, if `goes_on`, left to a next driver."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code, self.by_sigterm = code, code is ExitCode.TERMINATED


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ends after an error: its exit code, and the text for the standard error."""

    code: int
    text: str = ""


def ending_of(error: BaseException) -> Ending:
    """Return how a command that runs a program ends after `error`: the exit code, and the text for stderr.

    Headgate's own traceback is part of the text only for an error of Headgate's own, or when the environment
    variable HEADGATE_DEBUG is 1. A SystemExit with a number keeps that as its code.
    """
    return _with_details(_ending_of(error), error)


def ending_without_job(error: BaseException) -> Ending:
    """Return how an error ends a command that runs no job: as :func:`ending_of` but for OperatingErrors.

    Of these a missing or damaged snapshot gives REFUSED, as trying again is of no use; any other JOB_FAILED.
    """
    if isinstance(error, OperatingError):
        hopeless = isinstance(error, DamagedFileError) or _no_such_snapshot(error)
        code = ExitCode.REFUSED if hopeless else ExitCode.JOB_FAILED
        return _with_details(Ending(code, f"headgate: {error}"), error)
    return ending_of(error)


def ending_of_look(error: BaseException) -> Ending:
    """Return how an error ends a command that only reads stored snapshots: any StorageError is REFUSED."""
    if isinstance(error, StorageError):
        return _with_details(Ending(ExitCode.REFUSED, f"headgate: {error}"), error)
    return ending_without_job(error)


def ending_of_wait(error: BaseException) -> Ending:
    """Return how an error ends a command that asks a running job; Ctrl-C or time-out: only the wait ends."""
    if isinstance(error, KeyboardInterrupt):
        return Ending(ExitCode.INTERRUPTED, "headgate: not waiting any more; the request to the job goes on")
    if isinstance(error, TimeoutError):
        return Ending(ExitCode.JOB_FAILED, f"headgate: {error}")
    return ending_without_job(error)


def _with_details(ending: Ending, error: BaseException) -> Ending:
    if os.environ.get(DEBUG_VARIABLE) == "1" and not isinstance(error, SystemExit):
        details = "".join(traceback.format_exception(error))
        return Ending(ending.code, f"{ending.text}\n\n{details.rstrip()}".strip())
    return ending


def _ending_of(error: BaseException) -> Ending:
    match error:
        case SystemExit():
            if error.code is None or isinstance(error.code, int):
                return Ending(error.code or ExitCode.FINISHED)
            return Ending(ExitCode.JOB_FAILED, str(error.code))
        case SignalledError():
            return Ending(error.code, f"headgate: {_signalled(error)}")
        case KeyboardInterrupt():
            return Ending(ExitCode.INTERRUPTED, "headgate: cancelled")
        case UserFunctionError():
            head = f"headgate: {error.operator} raised {error.raised}\n  record:  {error.record}\n"
            text = f"{head}  attempt: {error.attempt}\n\n{error.traceback_text.rstrip()}"
            return Ending(ExitCode.USER_CODE, text)
        case InternalError():
            return Ending(ExitCode.INTERNAL, _please_report(str(error)))
        case FencedError():
            return Ending(ExitCode.NOT_LEADING, f"headgate: {error}")
        case JobCancelledError():
            return Ending(ExitCode.INTERRUPTED, f"headgate: {error}")
        case UsageError() | StorageError() if isinstance(error, UsageError) or _no_such_snapshot(error):
            return Ending(ExitCode.REFUSED, f"headgate: {error}")
        case HeadgateError():
            return Ending(ExitCode.JOB_FAILED, f"headgate: the job failed: {error}")
    if _raised_by_headgate(error):
        return Ending(ExitCode.INTERNAL, _please_report("".join(traceback.format_exception(error))))
    return Ending(ExitCode.USER_CODE, f"headgate: the program raised\n\n{users_traceback(error).rstrip()}")


def _signalled(error: SignalledError) -> str:
    if error.savepoint is not None:
        return f"stopped by a signal; `headgate run --from {error.savepoint}` goes on"
    return "stopped by a signal; the next driver goes on" if error.goes_on else "cancelled by a signal"


def _no_such_snapshot(error: BaseException) -> bool:
    # False for a storage that did not answer: to try again may help.
    missing = isinstance(error, DamagedFileError) or isinstance(error.__context__, FileNotFoundError)
    return missing and any(
        frame.f_code.co_name == "open_checkpoint" and frame.f_code.co_filename == _OPENING
        for frame in _frames(error)
    )


def _please_report(details: str) -> str:
    return (
        "headgate: this is an error in Headgate itself; please report it with the lines below\n\n"
        f"{details.rstrip()}"
    )


def _raised_by_headgate(error: BaseException) -> bool:
    # An error in a call that builds the dataflow is most likely the call's, so the program's.
    codes = [frame.f_code for frame in _frames(error)]
    executing = any(code.co_name == "execute" and code.co_filename.startswith(_OURS) for code in codes)
    if not executing:
        # Without a frame of the program's it was the command itself; a script that does not compile has none.
        return not isinstance(error, SyntaxError) and all(
            code.co_filename.startswith(_OURS) or _of_library(code) for code in codes
        )
    last = next((code for code in reversed(codes) if not _of_library(code)), None)
    return last is not None and last.co_filename.startswith(_OURS)


def _frames(error: BaseException) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(error.__traceback__))


def _of_library(code: CodeType) -> bool:
    paths = {*sysconfig.get_paths().values(), *site.getsitepackages()}
    # A program that lies in the environment's own folder is still the user's.
    libraries = (*(paths - {sys.prefix, sys.base_prefix}), "<frozen")
    return not code.co_filename.startswith(_OURS) and code.co_filename.startswith(libraries)


class Outcome(NamedTuple):
    """What a command prints, and the code it ends with."""

    text: str
    code: int = ExitCode.FINISHED


def print_outcome(
    work: Callable[[], str | Outcome],
    as_json: bool = False,
    ending: Callable[[BaseException], Ending] = ending_of,
) -> None:
    """Print the text that `work` returns, or the error that it raises; typer.Exit unless the code is 0.

    `ending` gives an error's text and code; standard error gets it, with `as_json` standard output, too.
    """
    try:
        found = work()
    except (Exception, KeyboardInterrupt) as error:
        ended = ending(error)
        print(ended.text, file=sys.stderr)
        if as_json:
            print(json.dumps({"error": error_facts(error)}))
        raise typer.Exit(ended.code) from None
    outcome = Outcome(found) if isinstance(found, str) else found
    print(outcome.text)
    if outcome.code != ExitCode.FINISHED:
        raise typer.Exit(outcome.code)
