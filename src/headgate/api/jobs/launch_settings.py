"""Settings that the command line passes to the program it runs, and the jobs that the program has begun.

A program is an ordinary script, so options reach it through the process's environment: settings of the
command line, the checkpoint to begin from, and whether the plan is only to be captured: then `execute()`
writes it as plain values and ends the program. That environment is read here and nowhere else. Several
isolated programs may run in one process, each in a thread, with options and jobs of its own. One that is not
isolated has those of the process.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from headgate.api.jobs.executor_contract import JobResult
from headgate.common.errors import TerminatedError
from headgate.common.ports import IsolatedCode
from headgate.common.process.process_exceptions import PastAllHandlers
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan

OPTIONS_VARIABLE = "HEADGATE_OPTIONS"
RESTORE_VARIABLE = "HEADGATE_RESTORE_FROM"
CAPTURE_VARIABLE = "HEADGATE_CAPTURE"
CAPTURE_FORMAT: Final = 1  # version of the captured structure

INSPECTION_VARIABLE: Final = "HEADGATE_INSPECTION"
"""Environment variable that holds an inspector and its request as JSON."""


class Started(Protocol):
    """A background job that a program started, as the runner of the program waits for it or ends it."""

    def result(self) -> JobResult:
        """Wait for the end of the job, and return its result."""

    def cancel(self, timeout_s: float | None = 0) -> None:
        """Cancel the job, and wait for its end at most `timeout_s` seconds; None: as long as it takes."""

    def terminate(self) -> None:
        """Begin to end the job as is configured for signals that end the process; do not wait."""

    def leave(self, error: TerminatedError) -> None:
        """End the job so, wait for a savepoint that it is to have, and note what became of it in `error`."""


@dataclass
class RunningProgram:
    """A program that runs in this process: its settings, its isolated code and its jobs."""

    options: list[str] | None = None  # its settings; None: those of the process's environment
    code: IsolatedCode | None = None  # its own modules, where it is isolated
    executed: list[str] = field(default_factory=list)  # names of the jobs that it has executed
    started: list[Started] = field(default_factory=list)  # its jobs that run in the background


_of_process = RunningProgram()  # of all threads that belong to no isolated program
_isolated: Final[dict[IsolatedCode, RunningProgram]] = {}


def _current() -> RunningProgram:
    if not _isolated:
        return _of_process
    from headgate.usercode.program_code import running_code

    code = running_code()
    return _of_process if code is None else _isolated.get(code, _of_process)


def command_line_options() -> list[str]:
    """Return the ``key=value`` settings of ``-D``, or of `run_program(options=)`; empty if there are none."""
    options = _current().options
    return list(map(str, json.loads(os.environ.get(OPTIONS_VARIABLE, "[]")) if options is None else options))


def user_code() -> IsolatedCode | None:
    """Return the isolated modules of the running program; None if it is not isolated."""
    return _current().code


def restore_from() -> str | None:
    """Return the checkpoint or savepoint of ``--from`` to begin from; None if there is none."""
    return os.environ.get(RESTORE_VARIABLE) or None


def capture_file() -> Path | None:
    """Return the file into which ``execute`` writes the plan instead of running the job; None: run it."""
    name = os.environ.get(CAPTURE_VARIABLE)
    return Path(name) if name else None


def launch_variables(
    options: Sequence[str] = (), restore: str | None = None, capture: Path | None = None
) -> dict[str, str]:
    """Return the environment variables that give a program its launch settings: `options` are ``key=value``
    texts as of ``-D``, `restore` is a snapshot to begin from (path or URI), `capture` the file that gets the
    plan at ``execute()``, in place of a run. None: that variable is not among them.
    """
    variables = {OPTIONS_VARIABLE: json.dumps(list(options))}
    if restore is not None:
        variables[RESTORE_VARIABLE] = restore
    if capture is not None:
        variables[CAPTURE_VARIABLE] = str(capture)
    return variables


def note_execution(name: str) -> None:
    _current().executed.append(name)


def note_started(job: Started) -> None:
    """Record a background job of the running program; the program's end waits for the job's."""
    _current().started.append(job)


@contextmanager
def running(options: list[str] | None, code: IsolatedCode | None) -> Iterator[RunningProgram]:
    """Register a program as running within the block, for the threads of its isolated modules `code` or,
    without `code`, for all threads that belong to no isolated program. `options` replace the settings of the
    process's environment, unless None. `code` is closed at the end of the block.
    """
    global _of_process
    program = RunningProgram(options, code)
    if code is None:
        before, _of_process = _of_process, program
        try:
            yield program
        finally:
            _of_process = before
        return
    _isolated[code] = program
    try:
        yield program
    finally:
        del _isolated[code]
        code.close()


@contextmanager
def launched(options: Sequence[str] = (), restore: str | None = None) -> Iterator[None]:
    """Set the variables of :func:`launch_variables` in this process for the time of the block, and the values
    from before after it. `restore` None: within the block there is no snapshot to begin from.
    """
    with variables_set({RESTORE_VARIABLE: None, **launch_variables(options, restore)}):
        yield


@contextmanager
def variables_set(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of this process for the time of the block, and the values from before after it; None: the
    variable is not there.
    """
    before = {name: os.environ.get(name) for name in variables}
    try:
        _put(variables)
        yield
    finally:
        _put(before)


def _put(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class CaptureComplete(PastAllHandlers):
    """Ends the program once its plan is written; no ``except Exception`` of the program's holds it up."""


def inspected(nodes: Sequence[Node], plan: PhysicalPlan, config: Config) -> dict[str, Any]:
    """Return ``{"inspection": ...}``, what the function that `capture()` asked for gives; {} without one."""
    wanted = os.environ.get(INSPECTION_VARIABLE)
    if wanted is None:
        return {}
    inspector, request = json.loads(wanted)
    module, _, function = inspector.partition(":")
    return {"inspection": getattr(importlib.import_module(module), function)(request, nodes, plan, config)}


def write_captured(file: Path, facts: Mapping[str, Any], *, ends: bool = True) -> None:
    """Write a plan, `facts`, to `file`, in the child process that captures it. With `ends`, as at
    `execute()`, raise `CaptureComplete`, which ends the program. Without it, as at ``preview()``, a later
    `execute()` overwrites the plan.
    """
    file.write_text(json.dumps({"format": CAPTURE_FORMAT, **facts}), encoding="utf-8")
    if ends:
        raise CaptureComplete
