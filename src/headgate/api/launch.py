"""What the command line tells the program it runs, and how a program file is run.

A program is an ordinary script, so options reach it through the process's environment: settings of
the command line, the checkpoint to begin from, and whether the plan is only to be captured. Reading
that environment happens here and nowhere else.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol

from headgate.common.errors import PlanError, TerminatedError

OPTIONS_VARIABLE = "HEADGATE_OPTIONS"
RESTORE_VARIABLE = "HEADGATE_RESTORE_FROM"
CAPTURE_VARIABLE = "HEADGATE_CAPTURE"

_executed: list[str] = []
_started: list[Started] = []


class Started(Protocol):
    """A job that a program started and that goes on beside it."""

    def result(self) -> Any:
        """Wait for its end."""
        ...

    def cancel(self) -> None:
        """End it."""
        ...

    def hand_over(self) -> bool:
        """Leave it to the next driver where there can be one, else end it; whether it goes on."""
        ...


def command_line_options() -> list[str]:
    """The ``key=value`` texts behind ``-D``; empty outside ``headgate run``."""
    found = json.loads(os.environ.get(OPTIONS_VARIABLE, "[]"))
    return [str(assignment) for assignment in found]


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
    _executed.append(name)


def note_started(job: Started) -> None:
    """A job of this process goes on beside the program."""
    _started.append(job)


def run_program(path: str | Path, arguments: Sequence[str] = ()) -> None:
    """Run a program file in this process, as ``python path arguments...`` would.

    A file that never calls ``execute`` but has ``def build(env)`` is given an Environment, and the
    job that it builds is executed under the file's name. Jobs that go on beside the program are waited
    for, or cancelled when the program raises.

    Raises:
        PlanError: there is no such file, or it neither executes a job nor has ``build``.
    """
    file = Path(path)
    if not file.is_file():
        raise PlanError(f"there is no program {str(path)!r}; give the path of a Python file")
    try:
        text = file.read_bytes()
    except OSError as error:
        raise PlanError(f"program {str(path)!r} cannot be read: {error.strerror or error}") from None
    before = len(_executed)
    with _as_script(file, arguments) as module, _waiting_for_jobs():
        exec(compile(text, str(file), "exec"), vars(module))  # noqa: S102 - the user's program
        if len(_executed) == before:
            _build(file, vars(module))


@contextmanager
def _waiting_for_jobs() -> Iterator[None]:
    _started.clear()
    try:
        yield
        while _started:
            _started[0].result()
            del _started[0]
    except TerminatedError as error:
        while _started:
            error.goes_on = _started.pop().hand_over()
        raise
    except BaseException:
        while _started:
            _started.pop().cancel()
        raise


def _build(file: Path, names: Mapping[str, Any]) -> None:
    from headgate.api.environment import Environment

    build = names.get("build")
    if not callable(build):
        raise PlanError(
            f"program {str(file)!r} ended without a job; it should call execute() on its Environment, "
            "or define build(env)"
        )
    environment = Environment()
    build(environment)
    environment.execute(file.stem)


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


def program_traceback(error: BaseException) -> str:
    """The traceback of what a program raised, from the program's first frame on.

    An error that has no frame of the program's, such as a syntax error, is shown without any.
    """
    trace = error.__traceback__
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _is_ours(trace: TracebackType) -> bool:
    # By module name; the frames of `exec` bring their own globals, those of the program's `__main__`.
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "headgate"


@contextmanager
def _as_script(file: Path, arguments: Sequence[str]) -> Iterator[ModuleType]:
    # The module stays `__main__` until the job has ended: annotations of the program's classes are
    # resolved, and its classes are shipped, through that name.
    module = ModuleType("__main__")
    module.__file__ = str(file)
    argv, path, main = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [str(file), *arguments], module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        yield module
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
