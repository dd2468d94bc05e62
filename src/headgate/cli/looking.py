"""The commands that look at a running job: `top` follows it, `why` says what holds it up, `trace` follows
single records.

`logs` shows what it says itself, in its log, and `log-level` changes how much that is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headgate.cli.command_parameters import AsJson, DefineStorage, Job
from headgate.cli.exit_codes import ending_of_wait, print_outcome
from headgate.cli.ui import Which, is_place
from headgate.common.plain_data import Json
from headgate.common.process.log_levels import Level

if TYPE_CHECKING:
    from headgate.api.jobs.remote_job import RemoteJob

EVERY_S: Final = 1.0

JobOrPlace = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A running job: its name, its id, or the beginning of its id. For a job that is over: its "
        "checkpoint directory, a path with a slash or a URI.",
    ),
]
Process = Annotated[
    str | None,
    typer.Option("--process", metavar="NAME", help="driver, workers, or one such as worker-0; else all."),
]
Least = Annotated[
    str | None,
    typer.Option("--level", metavar="LEVEL", help="The least: debug, info, warning or error; else all."),
]
Text = Annotated[
    str, typer.Option("--text", metavar="TEXT", help="Lines whose message, logger or uid contains it.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=2_000, help="Most lines; the newest ones.")]
Once = Annotated[bool, typer.Option("--once", help="Print it once and end; so where there is no terminal.")]


def top(job: Job, once: Once = False, as_json: AsJson = False) -> None:
    """Follow a running job: what each operator does now, and what holds the job up; until Ctrl-C.

    With --json, one object a second, with the fields of GET /v1/snapshot; with --once too, one only.
    """

    def text() -> str:
        from headgate.api.jobs.remote_job import connect
        from headgate.cli.pages.top_page import shown
        from headgate.cli.terminal_tables import lines

        found = connect(job)
        if as_json and not once:
            return _each_second(found)
        if not once and sys.stdout.isatty():
            return _live(found)
        facts = found.snapshot()
        if as_json:
            return json.dumps(facts)
        return "\n".join(lines(shown(facts, found.plan()), sys.stdout.isatty()))

    print_outcome(text, as_json, ending_of_wait)


def _each_second(job: RemoteJob) -> str:
    while not (facts := job.snapshot())["over"]:
        print(json.dumps(facts), flush=True)
        time.sleep(EVERY_S)
    return json.dumps(facts)


def _live(job: RemoteJob) -> str:
    from rich.console import Console
    from rich.live import Live

    from headgate.cli.pages.top_page import shown

    plan, plans = job.plan(), 0
    with Live(console=Console(), auto_refresh=False, screen=False, transient=True) as live:
        while not (facts := job.snapshot())["over"]:
            if facts["plans"] != plans:
                plan, plans = job.plan(), facts["plans"]
            live.update(shown(facts, plan), refresh=True)
            time.sleep(EVERY_S)
    return f"job {job.name!r} is {facts['state']}"


def why(job: JobOrPlace, which: Which = None, define: DefineStorage = None, as_json: AsJson = False) -> None:
    """Say what holds a running job up: which operator, why, and what helps. The workers are watched for 3 s.

    With --json, the fields of GET /v1/why. For a job that is over: what its kept page said last.
    """

    def text() -> str:
        found = _kept(job, which, define or ()) if is_place(job) else _asked(job)
        return json.dumps(found) if as_json else str(found["text"])

    print_outcome(text, as_json, ending_of_wait)


def _asked(job: str) -> dict[str, Json]:
    from headgate.api.jobs.remote_job import connect

    return connect(job).why()


def _kept(place: str, which: str | None, define: Sequence[str]) -> dict[str, Json]:
    from headgate.offline.kept_pages import kept_why
    from headgate.offline.storages import storage_options

    with storage_options(define):
        return kept_why(place, which)


def trace(
    job: Job,
    every: Annotated[
        int, typer.Option("--every", min=1, max=1_000_000_000, help="One record in so many, of each subtask.")
    ] = 1_000,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=60, help="For how long.")] = 5,
    show: Annotated[int, typer.Option("--show", min=0, help="How many of the slowest to show.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Follow single records through a running job: where each went, and how long it took there and between.

    With --json, the fields of GET /v1/traces.
    """

    def text() -> str:
        from headgate.api.jobs.remote_job import connect
        from headgate.cli.pages.trace_page import shown
        from headgate.cli.terminal_tables import lines

        found = connect(job)
        facts = found.trace(every, seconds)
        if as_json:
            return json.dumps(facts)
        return "\n".join(lines(shown(facts, found.plan(), show), sys.stdout.isatty()))

    print_outcome(text, as_json, ending_of_wait)


def logs(
    job: JobOrPlace,
    process: Process = None,
    level: Least = None,
    text: Text = "",
    limit: Limit = 200,
    which: Which = None,
    define: DefineStorage = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest log lines of a job's driver and workers, merged by time; secrets are masked.

    With --json, the fields of GET /v1/logs. For a job that is over: what its kept page has.
    """

    def shown() -> str:
        from headgate.api.jobs.remote_job import connect
        from headgate.display.log_text import log_text

        given = {"process": process, "level": level, "text": text, "limit": str(limit)}
        wanted = {name: value for name, value in given.items() if value}
        found = _kept_logs(job, which, define or (), wanted) if is_place(job) else connect(job).logs(**wanted)
        return json.dumps(found) if as_json else log_text(found)

    print_outcome(shown, as_json, ending_of_wait)


def _kept_logs(
    place: str, which: str | None, define: Sequence[str], wanted: dict[str, str]
) -> dict[str, Json]:
    from headgate.offline.kept_pages import kept_logs
    from headgate.offline.storages import storage_options

    with storage_options(define):
        return kept_logs(place, which, wanted)


def log_level(
    job: Job,
    level: Annotated[Level, typer.Argument(help="The least level that is logged; unset: as before.")],
    logger: Annotated[
        str, typer.Option("--logger", metavar="NAME", help="Of this logger and those below it; else of all.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Change how much a running job logs, in its driver and all its workers, until it ends."""

    def text() -> str:
        from headgate.api.jobs.remote_job import connect

        found = connect(job)
        told = found.log_level(level.value, logger)
        if as_json:
            return json.dumps({"job": found.job_id, "logs": told})
        return f"job {found.name!r} logs: {told}"

    print_outcome(text, as_json, ending_of_wait)
