"""The command ``headgate``: its commands and their options; what they do is in the files beside it."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from headgate.cli import checkpoint, control, example, savepoint, usercode
from headgate.cli.exit_codes import ending_of_look
from headgate.cli.options_page import page
from headgate.cli.run import RunRequest, assignments
from headgate.cli.run import run as run_request
from headgate.cli.telling import Told, tell

PLAIN_WIDTH: Final = 160
"""Characters of a line where the output is no terminal."""

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
control.checkpoint_app.command("verify")(checkpoint.verify_stored)
control.checkpoint_app.command("prune")(checkpoint.prune_stored)
savepoint.app.command("create")(control.create_savepoint)
app.command("list")(control.list_jobs)
for _command in (control.status, control.stop, control.cancel, control.rescale, control.query):
    app.command()(_command)

Program = Annotated[
    str, typer.Argument(metavar="JOB.PY", help="A script that executes a job, or defines build(env).")
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The program's own; those that begin with a dash go behind --."),
]
Parallelism = Annotated[
    int | None, typer.Option("--parallelism", "-p", min=1, help="Subtasks of operators that set none.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="KEY=VALUE", help="A setting; see `headgate options`."),
]
Brings = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="PATH", help="A folder, archive or wheel that the program brings."),
]
Requirements = Annotated[
    str | None,
    typer.Option("--requirements", metavar="LOCKED", help="A requirements file of it, pinned with hashes."),
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: one JSON object per line.")]


@app.command()
def run(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Options = None,
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
    as_json: AsJson = False,
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
        from_,
        master,
        as_json,
        quiet,
        allow,
        ha,
        brings or (),
        requirements,
        allow_second,
    )
    raise typer.Exit(run_request(request))


@app.command()
def plan(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as one JSON object.")] = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Show what a program would run; nothing is started."""

    def show() -> str:
        from headgate.api.jobs.plan_capture import capture
        from headgate.graph.explain import render

        request = _looked_at(program, arguments, define, parallelism, brings, requirements)
        facts = capture(program, request.arguments, assignments(request))
        return json.dumps(facts, indent=2) if as_json else render(facts)

    tell(show, as_json)


@app.command()
def types(
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")] = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Show the type and serializer of every stream and state; nothing is started."""

    def text() -> str:
        from headgate.cli.types import show

        settings = assignments(_looked_at(program, arguments, define, parallelism, brings, requirements))
        return show(program, arguments or (), settings, as_json, sys.stdout.isatty())

    tell(text, as_json)


@app.command("check-upgrade")
def check_upgrade(
    snapshot: Annotated[
        str, typer.Argument(metavar="SNAPSHOT", help="A checkpoint or savepoint, a path or URI.")
    ],
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    define: Options = None,
    allow: Annotated[
        bool,
        typer.Option("--allow-non-restored-state", help="What is only in the snapshot may be left behind."),
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="End with code 4 when values would be converted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")] = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Tell whether a changed program can go on from a snapshot; nothing is started."""

    def text() -> Told:
        from headgate.cli.check_upgrade import UpgradeRequest, check

        settings = assignments(_looked_at(program, arguments, define, parallelism, brings, requirements))
        request = UpgradeRequest(snapshot, program, arguments or (), settings, allow, exact, as_json)
        return Told(*check(request, sys.stdout.isatty()))

    tell(text, as_json, ending_of_look)


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
    define: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")] = False,
) -> None:
    """Show the checkpoints of a job, running or not, and where their time went."""

    def text() -> str:
        from headgate.cli.checkpoints import CheckpointsRequest, show

        request = CheckpointsRequest(path, last, checkpoint, job, define or (), as_json)
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else PLAIN_WIDTH
        return show(request, width, terminal)

    tell(text, as_json)


@app.command()
def options(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="An option, or the beginning of several.")
    ] = None,
) -> None:
    """List the settings there are, or tell everything about one."""
    tell(lambda: page(key, min(100, shutil.get_terminal_size().columns)))


def _tell_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def headgate(
    _: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_tell_version, help="Tell the versions, and end."),
    ] = False,
) -> None:
    """Exactly-once, stateful stream processing on Spark."""


@app.command()
def version() -> None:
    """Tell the versions of Headgate, Python and Spark."""
    print(f"headgate {importlib.metadata.version('headgate')}")
    print(f"python {platform.python_version()} ({sys.executable})")
    try:
        print(f"pyspark {importlib.metadata.version('pyspark')}")
    except importlib.metadata.PackageNotFoundError:
        print("pyspark is not installed")


app.command()(example.example)


def _looked_at(
    program: str,
    arguments: Sequence[str] | None,
    define: Sequence[str] | None,
    parallelism: int | None,
    brings: Sequence[str] | None,
    requirements: str | None,
) -> RunRequest:
    """A program whose plan is asked for."""
    return RunRequest(
        program, arguments or (), define or (), parallelism, brings=brings or (), requirements=requirements
    )


def main() -> None:
    """What the installed command calls."""
    app()
