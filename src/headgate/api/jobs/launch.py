"""What the command line tells the program it runs, and how a program file is run.

A program is an ordinary script, so options reach it through the process's environment: settings of
the command line, the checkpoint to begin from, and whether the plan is only to be captured. Reading
that environment happens here and nowhere else. Several isolated programs may run in one process, each in a
thread: what they are told and have begun is each one's own. One that is not isolated is the process's own.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from headgate.common.errors import PlanError, TerminatedError
from headgate.common.ports import IsolatedCode
from headgate.common.settings.config import Config

OPTIONS_VARIABLE = "HEADGATE_OPTIONS"
RESTORE_VARIABLE = "HEADGATE_RESTORE_FROM"
CAPTURE_VARIABLE = "HEADGATE_CAPTURE"


class Started(Protocol):
    """A job that a program started and that goes on beside it."""

    def result(self) -> Any:
        """Wait for its end."""
        ...

    def cancel(self, timeout_s: float | None = 0) -> None:
        """End it, and wait for that as long as said."""
        ...

    def hand_over(self) -> bool:
        """Leave it to the next driver where there can be one, else end it; whether it goes on."""
        ...


@dataclass
class _Running:
    """A program that runs.

    Attributes:
        options: what it is told in place of the process's environment; None: what that says.
        code: its own modules, where it is isolated.
        executed: names of the jobs that it has executed.
        started: its jobs that go on beside it.
    """

    options: list[str] | None = None
    code: IsolatedCode | None = None
    executed: list[str] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)


_of_process = _Running()
"""Of all threads that belong to no isolated program."""
_isolated: Final[dict[IsolatedCode, _Running]] = {}
"""Of isolated programs."""
_begun: Final = itertools.count()
"""How many programs have begun in this process."""


def _current() -> _Running:
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


def run_program(
    path: str | Path, arguments: Sequence[str] = (), options: Sequence[str] | None = None
) -> None:
    """Run a program file in this process, as ``python path arguments...`` would.

    A file that never calls ``execute`` but has ``def build(env)`` is given an Environment, and the
    job that it builds is executed under the file's name. Jobs that go on beside the program are waited
    for, or cancelled when the program raises.

    The program is isolated: it, the modules in its folder and what ``headgate.user-code.path`` names are kept
    from the framework's and other programs' packages, here and in its workers, as the caller is a program in
    this process, too. Several programs may run in one process, each in a thread of its own, on one Spark.
    ``headgate.user-code.apart=false`` loads them among everything else.

    Args:
        path: of the Python file.
        arguments: its ``sys.argv`` behind the file name; of programs that run at the same time only one can
            have some.
        options: ``key=value`` settings, as behind ``-D``; None takes those of the command line.

    Raises:
        PlanError: there is no such file, or it neither executes a job nor has ``build``.
        ConfigError: an option does not exist or has a wrong value.
        UserCodeLoadError: something that the program brings is not there, or cannot be used; or this
            interpreter isolates no two programs, and this process has run another one.

    Example:
        >>> import pathlib, tempfile
        >>> program = pathlib.Path(tempfile.mkdtemp(), "job.py")
        >>> _ = program.write_text('''
        ... import headgate as hg
        ... env = hg.Environment(executor="mini-cluster")
        ... doubled = env.from_collection([1, 2, 3]).map(lambda number: 2 * number).collect_later()
        ... env.execute("doubled")
        ... print(sorted(doubled.records))
        ... ''')
        >>> run_program(program, options=["parallelism.default=1"])
        [2, 4, 6]
    """
    next(_begun)
    _run(path, arguments, options, shared=True)


def run_alone(path: str | Path, arguments: Sequence[str] = ()) -> None:
    """:func:`run_program` in a process for this one program, which is isolated only where it needs that.

    Args:
        path: of the Python file.
        arguments: its ``sys.argv`` behind the file name.
    """
    _run(path, arguments, None, shared=next(_begun) > 0)


def _run(path: str | Path, arguments: Sequence[str], options: Sequence[str] | None, shared: bool) -> None:
    file = Path(path)
    if not file.is_file():
        raise PlanError(f"there is no program {str(path)!r}; give the path of a Python file")
    try:
        text = file.read_bytes()
    except OSError as error:
        raise PlanError(f"program {str(path)!r} cannot be read: {error.strerror or error}") from None
    with _running(file, options, shared) as running, _as_script(file, arguments, running.code) as module:

        def run() -> None:
            # What this file has from `__future__` is not the program's.
            code = compile(text, str(file), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - the user's program
            if not running.executed:
                _build(file, vars(module))

        with _waiting_for_jobs(running.started):
            if running.code is None:
                run()
            else:
                running.code.call(run)


@contextmanager
def _running(file: Path, options: Sequence[str] | None, shared: bool) -> Iterator[_Running]:
    """The program that begins; where it is isolated, what it brings is opened for its time."""
    global _of_process
    told = command_line_options() if options is None else list(options)
    code = _opened(file, Config().with_command_line(told), shared)
    if code is None:
        before, _of_process = _of_process, _Running(None if options is None else told)
        try:
            yield _of_process
        finally:
            _of_process = before
        return
    _isolated[code] = running = _Running(told, code)
    try:
        yield running
    finally:
        del _isolated[code]
        code.close()


def _opened(file: Path, config: Config, shared: bool) -> IsolatedCode | None:
    """Where the modules of an isolated program are to live; None: it is not isolated."""
    from headgate.usercode.isolation import why_isolated

    if why_isolated(file, config, shared) is None:
        return None
    from headgate.usercode.program_code import open_program

    return open_program(file, config)


@contextmanager
def _waiting_for_jobs(started: list[Started]) -> Iterator[None]:
    try:
        yield
        while started:
            started[0].result()
            del started[0]
    except TerminatedError as error:
        while started:
            error.goes_on = started.pop().hand_over()
        raise
    except BaseException:
        while started:
            started.pop().cancel(timeout_s=0)
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


@contextmanager
def _as_script(file: Path, arguments: Sequence[str], code: IsolatedCode | None) -> Iterator[ModuleType]:
    argv = sys.argv
    if code is not None:
        code.main.__file__ = str(file)
        # It is the whole process's: of programs in several threads only those have it that cannot do without.
        has_arguments = bool(arguments) or threading.current_thread() is threading.main_thread()
        if has_arguments:
            sys.argv = [str(file), *arguments]
        try:
            yield code.main
        finally:
            if has_arguments:
                sys.argv = argv
        return
    # The module stays `__main__` until the job has ended: annotations of the program's classes are
    # resolved, and its classes are shipped, through that name.
    module = ModuleType("__main__")
    module.__file__ = str(file)
    path, main = list(sys.path), sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [str(file), *arguments], module
    sys.path.insert(0, str(file.resolve().parent))
    try:
        yield module
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, path, main
