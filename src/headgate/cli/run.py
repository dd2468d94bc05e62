"""``headgate run``: runs a program in this process, shows its job, and ends with a code for scripts."""

from __future__ import annotations

import logging
import signal
import sys
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
from headgate.common.errors import JobCancelledError, UsageError
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
    """What the user typed.

    Attributes:
        requirements: a locked requirements file whose wheels it brings, too.
        allow_second: whether to begin beside a running job of its name, or one that writes to its output.
    """

    program: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    parallelism: int | None = None
    restore_from: str | None = None
    master: str | None = None
    as_json: bool = False
    quiet: bool = False
    allow_non_restored: bool = False
    ha: str | None = None
    brings: Sequence[str] = ()
    requirements: str | None = None
    allow_second: bool = False


def assignments(request: RunRequest) -> list[str]:
    """All settings of the command line as ``key=value``; the named options win over ``-D``."""
    if request.as_json and request.quiet:
        raise UsageError("--json and --quiet exclude each other; give one of them")
    found = list(request.options)
    if request.parallelism is not None:
        found.append(f"{o.PARALLELISM_DEFAULT.key}={request.parallelism}")
    if request.master is not None:
        found.append(f"{o.SPARK_MASTER.key}={request.master}")
    if request.allow_non_restored:
        found.append(f"{o.IGNORE_UNCLAIMED_STATE.key}=true")
    if request.allow_second:
        found.append(f"{o.ALLOW_SECOND.key}=true")
    if request.ha is not None:
        found.append(f"{o.HIGH_AVAILABILITY.key}={request.ha}")
    if request.brings:
        found.append(f"{USER_CODE_PATH.key}={';'.join(request.brings)}")
    if request.requirements is not None:
        found.append(f"{USER_CODE_REQUIREMENTS.key}={request.requirements}")
    if request.as_json or request.quiet:
        display = ProgressDisplay.JSON if request.as_json else ProgressDisplay.OFF
        found.append(f"{o.PROGRESS.key}={display.value}")
    # Refused here, before the program has done anything.
    Config().with_command_line(found)
    return found


def run(request: RunRequest) -> int:
    """Run a program to its end; errors are told on the standard error."""
    with reserve_stdout() if request.as_json else nullcontext() as writer:
        ending = _run(request, writer)
        if ending.text:
            print(ending.text, file=sys.stderr, flush=True)
    return ending.code


def _run(request: RunRequest, writer: LineWriter | None) -> Ending:
    try:
        settings = assignments(request)
        with _signals_cancel(), _logging(request.as_json), launched(settings, request.restore_from):
            run_alone(request.program, request.arguments)
    except BaseException as error:
        ending = ending_of(error)
        if writer is not None and ending.code != ExitCode.FINISHED:
            _write_last_line(writer, error)
        return ending
    return Ending(ExitCode.FINISHED)


def _write_last_line(writer: LineWriter, error: BaseException) -> None:
    """End the lines of a run that went wrong, unless its job has told so itself."""
    if writer.last_event in ("failed", "cancelled"):
        return
    line: Facts = {"time_ms": time.time_ns() // 1_000_000, "job": None}
    if isinstance(error, (KeyboardInterrupt, JobCancelledError)):
        writer.write("cancelled", line)
    else:
        writer.write("failed", {**line, "error": error_facts(error)})


@contextmanager
def _signals_cancel() -> Iterator[None]:
    """Within it the signals of a service manager or a closed terminal cancel the job as Ctrl-C does."""
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
def _logging(as_json: bool) -> Iterator[None]:
    level = logging.getLogger().level
    logs.set_up_logging(as_json)
    try:
        yield
    finally:
        logs.remove_logging()
        logging.getLogger().setLevel(level)
