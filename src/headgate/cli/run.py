"""``headgate run``: runs a program in this process, shows its job, and ends with a code for scripts."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Final

from headgate.api.jobs.launch import run_alone
from headgate.api.jobs.launch_settings import launched
from headgate.cli.exit_codes import Ending, ExitCode, SignalledError, ending_of
from headgate.common.errors import JobCancelledError, TerminatedError, UsageError
from headgate.common.process import logs
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import USER_CODE_PATH, USER_CODE_REQUIREMENTS
from headgate.common.settings.options import ProgressDisplay
from headgate.display.event_texts import Facts
from headgate.display.progress_json import LineWriter, reserve_stdout
from headgate.display.progress_status import error_facts

_SIGNALS: Final = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGHUP: ExitCode.HUNG_UP}


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments and options of ``headgate run``; `options` are settings, `brings` paths of user code."""

    program: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    parallelism: int | None = None
    brings: Sequence[str] = ()
    requirements: str | None = None  # a locked requirements file whose wheels the program brings, too
    restore_from: str | None = None
    master: str | None = None
    as_json: bool = False
    quiet: bool = False
    allow_non_restored: bool = False
    ha: str | None = None
    allow_second: bool = False


def assignments(request: RunRequest) -> list[str]:
    """Return the settings, ``key=value``; options like --parallelism win over -D. UsageError: a wrong one."""
    if request.as_json and request.quiet:
        raise UsageError("--json and --quiet exclude each other; give one of them")
    display = ProgressDisplay.JSON if request.as_json else ProgressDisplay.OFF if request.quiet else None
    named = {
        o.PARALLELISM_DEFAULT.key: request.parallelism,
        o.SPARK_MASTER.key: request.master,
        o.IGNORE_UNCLAIMED_STATE.key: "true" if request.allow_non_restored else None,
        o.ALLOW_SECOND.key: "true" if request.allow_second else None,
        o.HIGH_AVAILABILITY.key: request.ha,
        USER_CODE_PATH.key: ";".join(request.brings) or None,
        USER_CODE_REQUIREMENTS.key: request.requirements,
        o.PROGRESS.key: None if display is None else display.value,
    }
    given = [f"{key}={value}" for key, value in named.items() if value is not None]
    found = [*request.options, *given]
    # Refused here, before the program has done anything.
    Config().with_command_line(found)
    return found


def run(request: RunRequest) -> int:
    """Run a program in this process to its end; return the exit code. Errors are shown on standard error."""
    with reserve_stdout() if request.as_json else nullcontext() as writer, _logging():
        ending = _run(request, writer)
        if ending.text:
            logs.report(ending.text)
    return ending.code


def _run(request: RunRequest, writer: LineWriter | None) -> Ending:
    try:
        settings = assignments(request)
        all_json = Config().with_command_line(settings).get(o.LOGS_FORMAT) is o.LogFormat.JSON
        logs.set_up_logging(request.as_json, all_json=all_json)
        with _signals_cancel(), launched(settings, request.restore_from):
            run_alone(request.program, request.arguments)
    except BaseException as error:
        ending = ending_of(error)
        if writer is not None and ending.code != ExitCode.FINISHED:
            _write_last_line(writer, error)
        return ending
    return Ending(ExitCode.FINISHED)


def _write_last_line(writer: LineWriter, error: BaseException) -> None:
    if writer.last_event in ("failed", "cancelled"):
        return
    if isinstance(error, TerminatedError) and error.savepoint is not None:  # `finished` is what became of it
        return
    line: Facts = {"time_ms": time.time_ns() // 1_000_000, "job": None}
    if isinstance(error, (KeyboardInterrupt, JobCancelledError)):
        writer.show("cancelled", line)
    else:
        writer.show("failed", {**line, "error": error_facts(error)})


@contextmanager
def _signals_cancel() -> Iterator[None]:
    # In the main thread only; a signal that is ignored, as under nohup, stays so.
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def cancel(number: int, _: FrameType | None) -> None:
        raise SignalledError(_SIGNALS[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as under nohup
            signal.signal(number, cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging() -> Iterator[None]:
    # Set up once the settings are known; what the command reports at its end is a line of the log, too.
    level = logging.getLogger().level
    try:
        yield
    finally:
        logs.remove_logging()
        logging.getLogger().setLevel(level)
