"""What the command line gives to the program that it runs, and which jobs that program has begun.

A program is an ordinary script, so options reach it through the process's environment: settings of
the command line, the checkpoint to begin from, and whether the plan is only to be captured. Reading
that environment happens here and nowhere else. Several isolated programs may run in one process, each in a
thread, with options and jobs of its own. One that is not isolated has those of the process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from headgate.api.jobs.executor_contract import JobResult
from headgate.common.ports import IsolatedCode

OPTIONS_VARIABLE = "HEADGATE_OPTIONS"
RESTORE_VARIABLE = "HEADGATE_RESTORE_FROM"
CAPTURE_VARIABLE = "HEADGATE_CAPTURE"


class Started(Protocol):
    """A job that a program started and that runs in the background."""

    def result(self) -> JobResult:
        """Wait for the end of the job."""
        ...

    def cancel(self, timeout_s: float | None = 0) -> None:
        """End the job, and wait for that as long as `timeout_s` says."""
        ...

    def hand_over(self) -> bool:
        """Leave the job to the next driver where there can be one, else end it; whether it goes on."""
        ...


@dataclass
class RunningProgram:
    """A program that runs.

    Attributes:
        options: its settings; None: those of the process's environment.
        code: its own modules, where it is isolated.
        executed: names of the jobs that it has executed.
        started: its jobs that run in the background.
    """

    options: list[str] | None = None
    code: IsolatedCode | None = None
    executed: list[str] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)


_of_process = RunningProgram()
"""Of all threads that belong to no isolated program."""
_isolated: Final[dict[IsolatedCode, RunningProgram]] = {}
"""Of isolated programs."""


def _current() -> RunningProgram:
    if not _isolated:
        return _of_process
    from headgate.usercode.program_code import running_code

    code = running_code()
    return _of_process if code is None else _isolated.get(code, _of_process)


def command_line_options() -> list[str]:
    """The ``key=value`` texts behind ``-D``; empty outside ``headgate run``."""
    told = _current().options
    if told is not None:
        return list(told)
    found = json.loads(os.environ.get(OPTIONS_VARIABLE, "[]"))
    return [str(assignment) for assignment in found]


def user_code() -> IsolatedCode | None:
    """Where the modules of the running program live; None: among everything else."""
    return _current().code


def restore_from() -> str | None:
    """The checkpoint behind ``--from``."""
    return os.environ.get(RESTORE_VARIABLE) or None


def capture_file() -> Path | None:
    """Where ``execute`` is to write the plan instead of running it; None to run."""
    name = os.environ.get(CAPTURE_VARIABLE)
    return Path(name) if name else None


def launch_variables(
    options: Sequence[str] = (), restore: str | None = None, capture: Path | None = None
) -> dict[str, str]:
    """The environment that tells a program these things."""
    variables = {OPTIONS_VARIABLE: json.dumps(list(options))}
    if restore is not None:
        variables[RESTORE_VARIABLE] = restore
    if capture is not None:
        variables[CAPTURE_VARIABLE] = str(capture)
    return variables


def note_execution(name: str) -> None:
    """A job of this process was executed, or captured."""
    _current().executed.append(name)


def note_started(job: Started) -> None:
    """A job of this process goes on beside the program."""
    _current().started.append(job)


@contextmanager
def running(options: list[str] | None, code: IsolatedCode | None) -> Iterator[RunningProgram]:
    """Make a program the running one: of the threads of its code, or of all that are not isolated.

    Args:
        options: ``key=value`` settings in place of those of the process's environment; None: those.
        code: its own modules, closed in the end; None: it is not isolated.
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
    """Within it, programs of this process are told these things; see :func:`launch_variables`."""
    variables = launch_variables(options, restore)
    before = {name: os.environ.get(name) for name in (OPTIONS_VARIABLE, RESTORE_VARIABLE)}
    os.environ.pop(RESTORE_VARIABLE, None)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
