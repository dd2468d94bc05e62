"""The command ``headgate``: its commands and their options; what they do is in other files here."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from headgate.cli import (
    checkpoint,
    control,
    looking,
    nexmark,
    quarantine,
    replay,
    report,
    savepoint,
    ui,
    usercode,
)
from headgate.cli.command_parameters import (
    Arguments,
    AsJson,
    Brings,
    Define,
    Parallelism,
    Program,
    Requirements,
    Snapshot,
)
from headgate.cli.exit_codes import Outcome, ending_of_look, print_outcome
from headgate.cli.pages.options_page import page
from headgate.cli.run import RunRequest, assignments
from headgate.cli.run import run as run_request
from headgate.common.errors import UsageError

PLAIN_WIDTH: Final = 160  # characters of a line where the output is no terminal

_COMMITS: Final = (
    "4,668 commits of one open-source project in the order in which they arrived; each line is a JSON object "
    "with repo, commit, author, author_ms, commit_ms (milliseconds since 1970), files, insertions, deletions"
)
EXAMPLES: Final = {"commits": ("commits.jsonl.gz", _COMMITS)}
"""Name of an example: its file, and what is in it."""

app = typer.Typer(
    name="headgate",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(control.checkpoint_app, name="checkpoint")
app.add_typer(usercode.app, name="usercode")
app.add_typer(quarantine.quarantine_app, name="quarantine")
control.checkpoint_app.command("verify")(checkpoint.verify_stored)
control.checkpoint_app.command("prune")(checkpoint.prune_stored)
savepoint.app.command("create")(control.create_savepoint)
app.command("list")(control.list_jobs)
_CONTROLS: Final = (control.status, control.stop, control.cancel, control.rescale, control.query)
_LOOKING: Final = (looking.top, looking.why, looking.trace, looking.logs, looking.log_level)
for _command in (*_CONTROLS, *_LOOKING, ui.ui, report.report):
    app.command()(_command)
app.command("nexmark")(nexmark.nexmark)
app.command("replay")(replay.replay_key)


@app.command()
def run(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Define = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="CHECKPOINT", help="Begin from this snapshot, a path or URI."),
    ] = None,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master.")] = None,
    ha: Annotated[
        str | None,
        typer.Option(
            "--ha", metavar="TYPE", help="filesystem or zookeeper: go on where this job's last driver died."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object per line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    allow: Annotated[
        bool,
        typer.Option("--allow-non-restored-state", help="With --from: leave behind what the program lacks."),
    ] = False,
    brings: Brings = None,
    requirements: Requirements = None,
    allow_second: Annotated[
        bool, typer.Option("--allow-second", help="Also beside a running job of its name, or in its output.")
    ] = False,
) -> None:
    """Run a program and show its job until it ends."""
    request = RunRequest(
        program,
        arguments or (),
        define or (),
        parallelism,
        brings or (),
        requirements,
        restore_from=from_,
        master=master,
        as_json=as_json,
        quiet=quiet,
        allow_non_restored=allow,
        ha=ha,
        allow_second=allow_second,
    )
    raise typer.Exit(run_request(request))


@app.command()
def plan(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Define = None,
    as_json: AsJson = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Show what a program would run; nothing is started."""

    def show() -> str:
        from headgate.api.jobs.plan_capture import capture
        from headgate.graph.explain import render

        settings = _settings(define, parallelism, brings, requirements)
        facts = capture(program, arguments or (), settings)
        return json.dumps(facts, indent=2) if as_json else render(facts)

    print_outcome(show, as_json)


@app.command()
def types(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Define = None,
    as_json: AsJson = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Show the type and serializer of every stream and state; nothing is started."""

    def text() -> str:
        from headgate.api.jobs.plan_capture import capture
        from headgate.cli.types import render

        facts = capture(program, arguments or (), _settings(define, parallelism, brings, requirements))
        if as_json:
            return json.dumps({"job": facts["job"], **facts["types"]}, indent=2)
        return render(facts["job"], facts["types"], sys.stdout.isatty())

    print_outcome(text, as_json)


@app.command("check-upgrade")
def check_upgrade(
    snapshot: Snapshot,
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Define = None,
    allow: Annotated[
        bool,
        typer.Option("--allow-non-restored-state", help="What is only in the snapshot may be left behind."),
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="End with code 4 when values would be converted.")
    ] = False,
    as_json: AsJson = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Report whether a changed program can go on from a snapshot; nothing is started."""

    def text() -> Outcome:
        from headgate.cli.check_upgrade import as_json as json_of
        from headgate.cli.check_upgrade import exit_code, render
        from headgate.offline.upgrade import check_upgrade

        settings = _settings(define, parallelism, brings, requirements)
        found = check_upgrade(snapshot, program, arguments or (), settings, allow_non_restored=allow)
        shown = json_of(found) if as_json else render(found, sys.stdout.isatty())
        return Outcome(shown, exit_code(found, exact))

    print_outcome(text, as_json, ending_of_look)


@app.command()
def checkpoints(
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A checkpoint directory, or a job's folder in it.")
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="The newest one in full, and why it was slow.")
    ] = False,
    checkpoint: Annotated[
        int | None, typer.Option("--id", min=1, metavar="N", help="This one in full.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="NAME", help="Id or name of a job, where there are several."),
    ] = None,
    define: Define = None,
    as_json: AsJson = False,
) -> None:
    """Show the checkpoints of a job, running or not, and where their time went."""

    def text() -> str:
        from headgate.cli.checkpoints import CheckpointsRequest, show

        request = CheckpointsRequest(path, last, checkpoint, job, define or (), as_json)
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else PLAIN_WIDTH
        return show(request, width, terminal)

    print_outcome(text, as_json)


@app.command()
def options(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="An option, or the beginning of several.")
    ] = None,
) -> None:
    """List the settings there are, or show everything about one."""
    print_outcome(lambda: page(key, min(100, shutil.get_terminal_size().columns)))


def _show_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def headgate(
    _: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the versions, and end."),
    ] = False,
) -> None:
    """Exactly-once, stateful stream processing on Spark."""


@app.command()
def version() -> None:
    """Show the versions of Headgate, Python and Spark."""
    print(f"headgate {importlib.metadata.version('headgate')}")
    print(f"python {platform.python_version()} ({sys.executable})")
    try:
        print(f"pyspark {importlib.metadata.version('pyspark')}")
    except importlib.metadata.PackageNotFoundError:
        print("pyspark is not installed")


@app.command()
def example(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(EXAMPLES)}.")],
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where it is put.")] = Path(),
) -> None:
    """Put a file of example data into a folder, the current one if none is named."""
    print_outcome(lambda: _put_example(name, folder))


def _put_example(name: str, folder: Path) -> str:
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}; expected one of: {', '.join(EXAMPLES)}")
    file, what = EXAMPLES[name]
    data = (resources.files("headgate.cli") / "examples" / file).read_bytes()
    target = folder / file
    if target.exists() and target.read_bytes() != data:
        raise UsageError(f"{target} exists and is another file; remove it, or name another folder")
    try:
        target.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written ({error.strerror}); name a folder that exists"
        ) from None
    return f"{target}: {what}"


def _settings(
    define: Sequence[str] | None,
    parallelism: int | None,
    brings: Sequence[str] | None,
    requirements: str | None,
) -> list[str]:
    return assignments(RunRequest("", (), define or (), parallelism, brings or (), requirements))


def main() -> None:
    """Run the command ``headgate``; the entry point of the installed script."""
    app()
