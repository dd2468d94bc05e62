"""``headgate checkpoint``: whether stored checkpoints are whole, and what in a storage nothing needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from headgate.cli.exit_codes import ExitCode, ending_of_look
from headgate.cli.telling import Told, tell
from headgate.common.errors import UsageError
from headgate.common.time import duration_ms

Define = Annotated[
    list[str] | None,
    typer.Option(
        "--define", "-D", metavar="KEY=VALUE", help="A setting of the storage, such as s3.endpoint."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")]


def verify_stored(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A storage, a job's folder, a checkpoint, a savepoint or a `_metadata`."
        ),
    ],
    define: Define = None,
    as_json: Json = False,
) -> None:
    """Read every byte that the snapshots need, and tell what is damaged or left over."""

    def text() -> Told:
        from headgate.cli.checkpoint_page import verified, verified_json, verify_with_progress
        from headgate.offline.storages import storage_options

        with storage_options(define or ()):
            report = verify_with_progress(path)
        shown = verified_json(report) if as_json else verified(report)
        return Told(shown, ExitCode.FINISHED if report.clean else ExitCode.DAMAGED)

    tell(text, as_json, ending_of_look)


def prune_stored(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A storage or a job's folder.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete; otherwise only tell.")] = False,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="For files of checkpoints that may be on their way: longer than any may take.",
        ),
    ] = "1h",
    define: Define = None,
    as_json: Json = False,
    unlogged: Annotated[
        bool, typer.Option("--unlogged", help="Also checkpoints whose log entry may have been lost.")
    ] = False,
) -> None:
    """Delete files that certainly no checkpoint refers to, now or later; jobs may be running."""

    def text() -> str:
        from headgate.checkpoint.pruning import prune
        from headgate.cli.checkpoint_page import pruned
        from headgate.offline.storages import storage_options

        try:
            age_ms = duration_ms(older_than, "--older-than")
        except ValueError as error:
            raise UsageError(str(error)) from None
        with storage_options(define or ()):
            found = prune(path, delete=yes, older_than_ms=age_ms, unlogged=unlogged)
        return json.dumps(asdict(found), indent=2) if as_json else pruned(found)

    tell(text, as_json, ending_of_look)
