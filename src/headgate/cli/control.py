"""The commands for a running job: they find it, ask its driver, and say in one line what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from headgate.cli.exit_codes import ExitCode, ending_of
from headgate.common.errors import InternalError, OperatingError

Job = Annotated[str, typer.Argument(metavar="JOB", help="Its name, its id, or the beginning of its id.")]
Directory = Annotated[
    str | None,
    typer.Option(
        "--savepoint-dir", "--dir", "-d", metavar="DIR", help="Gets the savepoint; else as configured."
    ),
]
Format = Annotated[str, typer.Option("--format", help="canonical (Parquet tables) or native.")]
Json = Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait; else as long.")
]

checkpoint_app = typer.Typer(
    help="Take, and look after, the checkpoints of jobs.", no_args_is_help=True, rich_markup_mode=None
)


def list_jobs(as_json: Json = False) -> None:
    """List the running jobs of this user on this machine, and those whose driver died."""

    def text() -> str:
        from headgate.cli.jobs import listed, look
        from headgate.common.job_files import known_jobs

        seen = look(known_jobs())
        shown = (
            json.dumps({"jobs": [each.facts() for each in seen]})
            if as_json
            else listed(seen, sys.stdout.isatty())
        )
        for each in seen:
            if each.job.gone:
                each.job.forget()
        return shown

    _ended(text)


def status(job: Job, as_json: Json = False) -> None:
    """Show a running job: its state, checkpoints and operators."""

    def text() -> str:
        from headgate.api.remote_job import connect
        from headgate.cli.jobs import shown

        found = connect(job).status()
        return json.dumps(msgspec.to_builtins(found)) if as_json else shown(found, sys.stdout.isatty())

    _ended(text)


def cancel(job: Job, timeout: Timeout = None, as_json: Json = False) -> None:
    """End a job now; its last checkpoint is kept unless the job says otherwise."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job)
        with _awaiting(f"waiting for the end of job {found.name!r}"):
            state = found.cancelled(timeout)
        return _said(f"job {found.name!r} is {state}", as_json, job_id=found.job_id, state=state)

    _ended(text)


def stop(
    job: Job,
    drain: Annotated[
        bool, typer.Option("--drain", help="Let event time end first: all timers and windows fire.")
    ] = False,
    savepoint_dir: Directory = None,
    format: Format = "canonical",  # noqa: A002 - the name that users know
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """End a job with a savepoint; its output up to there is committed."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job)
        with _awaiting(f"waiting for the savepoint that ends job {found.name!r}"):
            uri = found.stop(savepoint_dir, format, drain, timeout)
        line = f"job {found.name!r} has stopped with savepoint {uri}"
        return _said(line, as_json, job_id=found.job_id, savepoint=uri)

    _ended(text)


def create_savepoint(
    job: Job,
    savepoint_dir: Directory = None,
    format: Format = "canonical",  # noqa: A002 - the name that users know
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Take a savepoint of a running job, which goes on."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job)
        with _awaiting(f"waiting for a savepoint of job {found.name!r}"):
            uri = found.savepoint(savepoint_dir, format, timeout)
        return _said(f"savepoint {uri}", as_json, job_id=found.job_id, savepoint=uri)

    _ended(text)


@checkpoint_app.command("create")
def create_checkpoint(job: Job, timeout: Timeout = None, as_json: Json = False) -> None:
    """Take a checkpoint of a running job now."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job)
        with _awaiting(f"waiting for a checkpoint of job {found.name!r}"):
            uri = found.checkpoint(timeout)
        return _said(f"checkpoint {uri}", as_json, job_id=found.job_id, checkpoint=uri)

    _ended(text)


def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Option("--parallelism", "-p", min=1, help="Subtasks of operators.")],
    from_last: Annotated[
        bool, typer.Option("--from-last", help="Where no checkpoint can be taken, the last one will do.")
    ] = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Have a job go on at another parallelism."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job)
        with _awaiting(f"waiting until job {found.name!r} runs at parallelism {parallelism}"):
            found.rescale(parallelism, from_last, timeout)
        line = f"job {found.name!r} runs at parallelism {parallelism}"
        return _said(line, as_json, job_id=found.job_id, parallelism=parallelism)

    _ended(text)


def query(
    job: Job,
    uid: Annotated[str, typer.Argument(metavar="UID", help="Of the operator.")],
    state: Annotated[str, typer.Argument(metavar="STATE", help="Name of the state.")],
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="JSON; what is none is text. The text 42 is '\"42\"'.")
    ],
    as_json: Json = False,
) -> None:
    """Show what keyed state of a running job holds under a key."""

    def text() -> str:
        from headgate.api.remote_job import connect

        found = connect(job).look(uid, state, key_typed(key))
        return json.dumps(found) if as_json else str(found["text"])

    _ended(text)


def key_typed(text: str) -> Any:
    """The key that somebody typed: JSON, or else the text itself.

    Example:
        >>> key_typed("ada"), key_typed("42"), key_typed('"42"'), key_typed('["ada", 1]')
        ('ada', 42, '42', ('ada', 1))
    """
    from headgate.common.errors import UsageError
    from headgate.common.key_text import key_of_text

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        return key_of_text(text)
    except UsageError:
        return text


@checkpoint_app.callback()
def _group() -> None:
    """Take, and look after, the checkpoints of jobs."""


def _said(line: str, as_json: bool, **facts: Any) -> str:
    return json.dumps(facts) if as_json else line


@contextmanager
def _awaiting(what: str) -> Iterator[None]:
    """Show a person what is waited for; a machine has no use for it."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield


def _ended(text: Callable[[], str]) -> None:
    """Print a text, or the reason why there is none."""
    try:
        found = text()
    except KeyboardInterrupt:
        print("headgate: not waiting any more; what was asked of the job goes on", file=sys.stderr)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except TimeoutError as error:
        print(f"headgate: {error}", file=sys.stderr)
        raise typer.Exit(ExitCode.JOB_FAILED) from None
    except (OperatingError, InternalError) as error:
        # No job failed: the wish did.
        print(f"headgate: {error}", file=sys.stderr)
        code = ExitCode.INTERNAL if isinstance(error, InternalError) else ExitCode.JOB_FAILED
        raise typer.Exit(code) from None
    except Exception as error:
        ending = ending_of(error)
        print(ending.text, file=sys.stderr)
        raise typer.Exit(ending.code) from None
    print(found)
