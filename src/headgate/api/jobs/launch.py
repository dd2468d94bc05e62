"""Runs a program file in this process, under the settings that the command line gives it."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from headgate.api.environment import Environment
from headgate.api.jobs.launch_settings import Started, command_line_options, running
from headgate.api.site import user_site
from headgate.common.errors import PlanError, UsageError
from headgate.common.ports import IsolatedCode
from headgate.common.process.signal_handlers import signal_behind
from headgate.common.settings.config import Config

_begun: Final = itertools.count()  # how many programs have begun in this process


def run_program(
    path: str | Path, arguments: Sequence[str] = (), options: Sequence[str] | None = None
) -> None:
    """Run a program file in this process, as ``python path arguments...`` would, and raise what it raises.

    A file that runs no job, not even ``collect()``, but has ``def build(env)`` gets an Environment, and what
    it builds is executed under the file's name. Jobs in the background of the program are waited for, or
    cancelled when the program raises.

    The program is isolated, as the caller is a program in this process, too: the file, modules in its folder
    and what ``headgate.user-code.path`` names are kept from the framework's and other programs' packages here
    and in workers. Several programs may run in one process, each in a thread of its own, on one Spark.
    ``headgate.user-code.apart=false`` loads them among everything else.

    Args:
        path: of the Python file.
        arguments: its ``sys.argv`` after the file name; of programs that run at the same time only one can
            have some.
        options: ``key=value`` settings, as for ``-D``; None takes those of the command line.

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
    """Run a program as :func:`run_program` does, under the settings of the command line. It is isolated only
    if it brings packages of its own, its modules' names are taken here, the settings say so, or this process
    has begun another program before. ``headgate run``, and the child that captures a plan, call this.
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
    settings = command_line_options() if options is None else list(options)
    own = _opened(file, Config().with_command_line(settings), shared)
    with (
        running(None if options is None and own is None else settings, own) as program,
        _as_script(file, arguments, own) as module,
    ):

        def run() -> None:
            # What this file has from `__future__` is not the program's.
            code = compile(text, str(file), "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 - the user's program
            if not program.executed:
                _build(file, vars(module).get("build"))

        with _waiting_for_jobs(program.started):
            if own is None:
                run()
            else:
                own.call(run)


def _opened(file: Path, config: Config, shared: bool) -> IsolatedCode | None:
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
    except BaseException as error:
        by_signal = signal_behind(error)
        if by_signal is not None and by_signal.by_sigterm:
            for job in started:  # all of them at once
                job.terminate()
        while started:
            job = started.pop()
            job.cancel(timeout_s=0) if by_signal is None else job.leave(by_signal)
        raise


def _build(file: Path, build: Callable[[Environment], object] | None) -> None:
    if not callable(build):
        raise PlanError(
            f"program {str(file)!r} ended without a job; it should call execute() on its Environment, "
            "or define build(env)"
        )
    environment = Environment()
    build(environment)
    environment.execute(file.stem)


@contextmanager
def _as_script(file: Path, arguments: Sequence[str], code: IsolatedCode | None) -> Iterator[ModuleType]:
    argv = sys.argv
    if code is not None:
        code.main.__file__ = str(file)
        # There is one `sys.argv` in the process: of programs in several threads only those set it that need
        # it.
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


def register_release_hook(name: str, hook: Callable[[], object]) -> None:
    """Have a function called once when the job's code is released in this process.

    That is when the last task of the job, or the program on the driver, has ended: the place to stop what a
    library keeps in threads, caches and handles. Where code is not isolated it is the end of the process,
    which Spark's workers may not reach. A hook that raises is logged, and the others are called all the same.

    Args:
        name: of the hook; one that is registered is left as it is, so that every subtask may register it.
        hook: called without arguments, among the job's own modules.

    Raises:
        UsageError: the job has ended, or the hook cannot be called.

    Example:
        >>> import headgate as hg
        >>> hg.register_release_hook("connections", lambda: None)
    """
    from headgate.usercode.code_release import register

    if not callable(hook):
        raise UsageError(
            f"register_release_hook() ({user_site()}) got {hook!r} of type {type(hook).__name__} as hook "
            f"{name!r}; expected a function without arguments"
        )
    register(name, hook)
