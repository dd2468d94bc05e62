"""``headgate savepoint``: shows, compares, rewrites and deletes snapshots; no running job is needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from headgate.cli.command_parameters import Arguments, AsJson, DefineStorage, SavepointFormat, Snapshot
from headgate.cli.exit_codes import ending_of_look, ending_without_job, print_outcome
from headgate.common.errors import UsageError

app = typer.Typer(
    help="Look at savepoints and checkpoints, and rewrite them; no job is started.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A folder for the new savepoint; not there yet.")
]
Groups = Annotated[int, typer.Option("--max-parallelism", min=1, help="The new number of key groups.")]
Format = Annotated[
    SavepointFormat | None, typer.Option("--format", help="Parquet tables, or blobs; else as it was.")
]


@app.command("show")
def show(snapshot: Snapshot, define: DefineStorage = None, as_json: AsJson = False) -> None:
    """Show what is in a checkpoint or savepoint."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import render
        from headgate.offline.snapshot_pages import describe_snapshot

        facts = describe_snapshot(snapshot, define or ())
        return json.dumps(facts, indent=2) if as_json else render(facts, sys.stdout.isatty())

    print_outcome(text, as_json, ending_of_look)


@app.command("describe")
def describe(
    snapshot: Snapshot,
    samples: Annotated[int, typer.Option("--keys", min=0, help="Keys shown of each state.")] = 10,
    define: DefineStorage = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a checkpoint or savepoint, with the types of keys and some keys of each state."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import described
        from headgate.offline.snapshot_pages import describe_with_keys

        facts = describe_with_keys(snapshot, define or (), samples)
        return json.dumps(facts, indent=2) if as_json else described(facts, sys.stdout.isatty())

    print_outcome(text, as_json, ending_of_look)


@app.command("reslice")
def reslice_(
    snapshot: Snapshot,
    target: Target,
    max_parallelism: Groups,
    program: Annotated[
        str | None, typer.Argument(metavar="JOB.PY", help="The program, where only it can take values apart.")
    ] = None,
    arguments: Arguments = None,
    define: DefineStorage = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Write a snapshot anew with another number of key groups; a program is seldom needed."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import rewritten, with_progress
        from headgate.offline.migrating import reslice

        made = with_progress(
            lambda progress: reslice(
                snapshot,
                target,
                max_parallelism,
                None if form is None else form.value,
                progress,
                program=program,
                arguments=arguments or (),
                options=define or (),
            )
        )
        return rewritten(made, as_json)

    print_outcome(text, as_json, ending_without_job)


@app.command("migrate")
def migrate_(
    snapshot: Snapshot,
    target: Target,
    program: Annotated[str, typer.Argument(metavar="JOB.PY", help="The program whose types are wanted.")],
    arguments: Arguments = None,
    rekey: Annotated[
        list[str] | None,
        typer.Option("--rekey", metavar="UID=FUNCTION", help="New keys, by a function of the program."),
    ] = None,
    max_parallelism: Annotated[
        int | None, typer.Option("--max-parallelism", min=1, help="Another number of key groups.")
    ] = None,
    allow: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Leave behind what the program lacks.")
    ] = False,
    spark: Annotated[
        bool | None,
        typer.Option("--spark/--no-spark", help="As a job of Spark; else from 1 GiB of keyed state on."),
    ] = None,
    define: DefineStorage = None,
    form: Format = None,
    as_json: AsJson = False,
) -> None:
    """Write a snapshot anew with all values of the types that a program declares; keys may change, too."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import rewritten, with_progress
        from headgate.offline.migrating import migrate
        from headgate.stateprocessor.ranges_rewriting import INSPECTOR

        keys = new_keys(rekey or ())
        made = with_progress(
            lambda progress: migrate(
                snapshot,
                target,
                program,
                arguments or (),
                define or (),
                rekey=keys,
                max_parallelism=max_parallelism,
                form=None if form is None else form.value,
                allow_non_restored=allow,
                progress=progress,
                inspector=INSPECTOR,
                spark=spark,
            )
        )
        return rewritten(made, as_json)

    print_outcome(text, as_json, ending_without_job)


@app.command("delete")
def delete_(
    savepoint: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Its folder, a path or URI.")],
    program: Annotated[
        str | None, typer.Argument(metavar="JOB.PY", help="The program whose sinks let go of what it held.")
    ] = None,
    arguments: Arguments = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    claimed: Annotated[bool, typer.Option("--claimed", help="Also one that a job has claimed.")] = False,
    define: DefineStorage = None,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint; with the program, its sinks also release the output that the savepoint holds."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import deleted
        from headgate.offline.deleting import delete_savepoint

        if not yes and not sys.stdin.isatty():
            raise UsageError(f"nothing was deleted; give --yes to delete {savepoint}")
        if not yes and not typer.confirm(f"Delete the savepoint {savepoint}?", err=True):
            raise UsageError("nothing was deleted")
        made = delete_savepoint(savepoint, program, arguments or (), define or (), claimed=claimed)
        return json.dumps(made._asdict(), indent=2) if as_json else deleted(made)

    print_outcome(text, as_json, ending_without_job)


@app.command("diff")
def diff_(
    before: Annotated[str, typer.Argument(metavar="A", help="A checkpoint or savepoint, a path or URI.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    state: Annotated[
        str | None, typer.Option("--state", metavar="UID[/STATE]", help="Nothing but that.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=0, help="Keys shown of each kind of change, for each state.")
    ] = 5,
    define: DefineStorage = None,
    as_json: AsJson = False,
) -> None:
    """Report which keys of each keyed state B has changed, added or removed, compared with A."""

    def text() -> str:
        from headgate.cli.pages.savepoint_page import differences, differences_json
        from headgate.stateprocessor.diff import compare

        found = compare(before, after, state, samples, define or ())
        return differences_json(found) if as_json else differences(found)

    print_outcome(text, as_json, ending_of_look)


def new_keys(texts: Sequence[str]) -> dict[str, str]:
    """Return the functions' names by operator uid, from texts ``UID=FUNCTION`` of --rekey; else UsageError.

    Example:
        >>> new_keys(["count=without_region"])
        {'count': 'without_region'}
    """
    found = {}
    for text in texts:
        uid, equals, function = text.rpartition("=")
        if not (uid and equals and function):
            raise UsageError(f"--rekey got {text!r}; expected UID=FUNCTION, such as count=new_key")
        found[uid] = function
    return found
