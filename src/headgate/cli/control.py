"""The commands for a running job: they find it, ask its driver, and report the outcome in one line."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from headgate.cli.command_parameters import AsJson, Job, SavepointFormat, Timeout
from headgate.cli.exit_codes import ending_of_wait, print_outcome
from headgate.common.errors import UsageError

if TYPE_CHECKING:
    from headgate.api.jobs.remote_job import RemoteJob

Answer = tuple[str, dict[str, str | int]]
"""The line that a command prints for people, and the facts that its JSON has besides the job's id."""

Directory = Annotated[
    str | None,
    typer.Option(
        "--savepoint-dir", "--dir", "-d", metavar="DIR", help="Gets the savepoint; else as configured."
    ),
]
Format = Annotated[
    SavepointFormat, typer.Option("--format", help="Parquet tables, or the backend's own files.")
]

_BEGINS_JSON: Final = ("{", "[")
"""How a key that is meant as JSON begins; otherwise a mistake in it would turn it into text."""

checkpoint_app = typer.Typer(
    help="Take, and look after, the checkpoints of jobs.", no_args_is_help=True, rich_markup_mode=None
)


def list_jobs(as_json: AsJson = False) -> None:
    """List this user's running jobs, and those whose driver died: these are listed only once."""

    def text() -> str:
        from headgate.cli.pages.jobs_page import listed, look
        from headgate.common.files.job_files import known_jobs

        seen = look(known_jobs())
        shown = (
            json.dumps({"jobs": [each.facts() for each in seen]})
            if as_json
            else listed(seen, sys.stdout.isatty())
        )
        for each in seen:
            if each.job.exited:
                each.job.forget()
        return shown

    print_outcome(text, as_json, ending_of_wait)


def status(job: Job, as_json: AsJson = False) -> None:
    """Show a running job: its state, checkpoints and operators."""

    def text() -> str:
        from headgate.api.jobs.remote_job import connect
        from headgate.cli.pages.jobs_page import shown

        found = connect(job).status()
        return json.dumps(msgspec.to_builtins(found)) if as_json else shown(found, sys.stdout.isatty())

    print_outcome(text, as_json, ending_of_wait)


def cancel(job: Job, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """End a job now; its last checkpoint is kept unless the job's settings say otherwise."""

    def request(found: RemoteJob) -> Answer:
        state = found.cancelled(timeout)
        return f"job {found.name!r} is {state}", {"state": state}

    _ask(job, "waiting for the end of job {}", as_json, request)


def stop(
    job: Job,
    drain: Annotated[
        bool, typer.Option("--drain", help="Let event time end first: all event-time timers fire.")
    ] = False,
    savepoint_dir: Directory = None,
    format: Format = SavepointFormat.CANONICAL,  # noqa: A002 - the name that users know
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """End a job with a savepoint; its output up to there is committed."""

    def request(found: RemoteJob) -> Answer:
        uri = found.stop(savepoint_dir, format.value, drain, timeout)
        return f"job {found.name!r} has stopped with savepoint {uri}", {"savepoint": uri}

    _ask(job, "waiting for the savepoint that ends job {}", as_json, request)


def create_savepoint(
    job: Job,
    savepoint_dir: Directory = None,
    format: Format = SavepointFormat.CANONICAL,  # noqa: A002 - the name that users know
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running job, which goes on."""

    def request(found: RemoteJob) -> Answer:
        uri = found.savepoint(savepoint_dir, format.value, timeout)
        return f"savepoint {uri}", {"savepoint": uri}

    _ask(job, "waiting for a savepoint of job {}", as_json, request)


@checkpoint_app.command("create")
def create_checkpoint(job: Job, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Take a checkpoint of a running job now."""

    def request(found: RemoteJob) -> Answer:
        uri = found.checkpoint(timeout)
        return f"checkpoint {uri}", {"checkpoint": uri}

    _ask(job, "waiting for a checkpoint of job {}", as_json, request)


def rescale(
    job: Job,
    parallelism: Annotated[int, typer.Option("--parallelism", "-p", min=1, help="Subtasks of operators.")],
    from_last: Annotated[
        bool, typer.Option("--from-last", help="Where no checkpoint can be taken, the last one will do.")
    ] = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Have a job go on at another parallelism, from a checkpoint that is taken for it."""

    def request(found: RemoteJob) -> Answer:
        found.rescale(parallelism, from_last, timeout)
        return f"job {found.name!r} runs at parallelism {parallelism}", {"parallelism": parallelism}

    _ask(job, f"waiting until job {{}} runs at parallelism {parallelism}", as_json, request)


def query(
    job: Job,
    uid: Annotated[str, typer.Argument(metavar="UID", help="Of the operator.")],
    state: Annotated[str, typer.Argument(metavar="STATE", help="Name of the state.")],
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="JSON; other text, not beginning with { or [, is text. The text 42: '\"42\"'."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show the value that keyed state of a running job holds under a key."""

    def text() -> str:
        from headgate.api.jobs.remote_job import connect

        found = connect(job).look(uid, state, key_typed(key))
        return json.dumps(found) if as_json else str(found["text"])

    print_outcome(text, as_json, ending_of_wait)


def key_typed(text: str) -> Hashable:
    """Return the key that `text` means: JSON, else text; UsageError if it begins with { or [ and is no key.

    Example:
        >>> key_typed("ada"), key_typed("42"), key_typed('"42"'), key_typed('["ada", 1]')
        ('ada', 42, '42', ('ada', 1))
    """
    from headgate.common.keys.key_text import key_of_text

    try:
        key: Hashable = key_of_text(text)
        return key
    except UsageError as error:
        if text.lstrip()[:1] in _BEGINS_JSON:
            literal = shlex.quote(json.dumps(text, ensure_ascii=False))
            raise UsageError(f"KEY {text!r}: {error}; if it is meant as text, give {literal}") from None
    return text


@checkpoint_app.callback()
def _group() -> None:
    """Take, and look after, the checkpoints of jobs."""


def _ask(job: str, waiting: str, as_json: bool, request: Callable[[RemoteJob], Answer]) -> None:
    # `waiting` is shown meanwhile; {} in it stands for the job's name.
    def text() -> str:
        from headgate.api.jobs.remote_job import connect

        found = connect(job)
        what = waiting.format(repr(found.name))
        with Console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext():
            line, facts = request(found)
        return json.dumps({"job_id": found.job_id, **facts}) if as_json else line

    print_outcome(text, as_json, ending_of_wait)
