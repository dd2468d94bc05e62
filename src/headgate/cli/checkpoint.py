"""``headgate checkpoint``: whether stored checkpoints are intact, and what in a storage nothing needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from headgate.cli.command_parameters import AsJson, DefineStorage
from headgate.cli.exit_codes import ExitCode, Outcome, ending_of_look, print_outcome
from headgate.common.errors import UsageError
from headgate.common.time import duration_ms


def verify_stored(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A storage, a job's folder, a checkpoint, a savepoint or a `_metadata`."
        ),
    ],
    define: DefineStorage = None,
    as_json: AsJson = False,
) -> None:
    """Read every byte that the snapshots need, and report what is damaged or left over."""

    def text() -> Outcome:
        from headgate.cli.pages.checkpoint_page import verified, verify_with_progress
        from headgate.offline.storages import storage_options

        with storage_options(define or ()):
            report = verify_with_progress(path)
        facts = {"clean": report.clean, **asdict(report)}
        shown = json.dumps(facts, indent=2) if as_json else verified(report)
        return Outcome(shown, ExitCode.FINISHED if report.clean else ExitCode.DAMAGED)

    print_outcome(text, as_json, ending_of_look)


def prune_stored(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A storage or a job's folder.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete; otherwise only report.")] = False,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="For files of checkpoints that may be on their way: longer than any may take.",
        ),
    ] = "1h",
    define: DefineStorage = None,
    as_json: AsJson = False,
    unlogged: Annotated[
        bool, typer.Option("--unlogged", help="Also checkpoints whose log entry may have been lost.")
    ] = False,
) -> None:
    """Report, and with --yes delete, files that no checkpoint will ever need; no job has to stop."""

    def text() -> str:
        from headgate.checkpoint.pruning import prune
        from headgate.cli.pages.checkpoint_page import pruned
        from headgate.offline.storages import storage_options

        try:
            age_ms = duration_ms(older_than, "--older-than")
        except ValueError as error:
            raise UsageError(str(error)) from None
        with storage_options(define or ()):
            found = prune(path, delete=yes, older_than_ms=age_ms, unlogged=unlogged)
        return json.dumps(asdict(found), indent=2) if as_json else pruned(found)

    print_outcome(text, as_json, ending_of_look)
