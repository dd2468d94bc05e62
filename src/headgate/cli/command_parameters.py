"""Arguments and options that several commands have, each with its help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class SavepointFormat(StrEnum):
    """The values of ``--format``; any other is refused before a job is asked."""

    CANONICAL = "canonical"
    NATIVE = "native"


Program = Annotated[
    str, typer.Argument(metavar="JOB.PY", help="A script that executes a job, or defines build(env).")
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The program's own; those that begin with a dash go after --."),
]
Parallelism = Annotated[
    int | None, typer.Option("--parallelism", "-p", min=1, help="Subtasks of operators that set none.")
]
Define = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="KEY=VALUE", help="A setting; see `headgate options`."),
]
DefineStorage = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="KEY=VALUE", help="A setting, such as s3.endpoint."),
]
Brings = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="PATH", help="A folder, archive or wheel that the program brings."),
]
Requirements = Annotated[
    str | None,
    typer.Option("--requirements", metavar="LOCKED", help="Its requirements file, pinned with hashes."),
]
Snapshot = Annotated[
    str, typer.Argument(metavar="SNAPSHOT", help="A checkpoint or savepoint, a path or URI.")
]
Job = Annotated[str, typer.Argument(metavar="JOB", help="Its name, its id, or the beginning of its id.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait; else as long.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: one JSON object.")]
