"""``headgate usercode``: which copy of a module a job's code would get, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, TypedDict

import typer
from rich.markup import escape

from headgate.cli.command_parameters import AsJson, Requirements
from headgate.cli.exit_codes import print_outcome
from headgate.cli.terminal_tables import lines, table
from headgate.common.errors import InternalError, UsageError
from headgate.common.settings.config import assigned

# In a process of its own: to see whether the framework has a part of a package, Python imports the package.
_CHILD: Final = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from headgate.usercode.explaining import child_main; child_main()"
)
_ANSWER: Final = "headgate-usercode: "
_EXAMPLE: Final = "-D classloader.native-modules=process"
_COLORS: Final = {"user": "green", "dependency layer": "cyan", "framework": "yellow"}


class PackageFacts(TypedDict):
    """A package with compiled parts, and where (in which process) and why it would run there."""

    package: str
    version: str
    runs: str
    reason: str


class ModuleFacts(TypedDict):
    """A module and the copy that a job gets: the user's, the framework's, or that of a dependency layer."""

    module: str
    copy: str
    file: str | None
    reason: str
    native: list[PackageFacts]


class ExplainedFacts(TypedDict):
    """The explanation of a program's modules; `isolated`: why the program is isolated, None: it is not."""

    modules: list[ModuleFacts]
    native_packages: list[PackageFacts]
    isolated: str | None
    own_processes: bool
    warnings: list[str]


app = typer.Typer(help="Look at how a job's code is loaded.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keeps `explain` a command of its own while there is no other."""


@app.command()
def explain(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="The job's Python file; it is not run.")],
    modules: Annotated[list[str], typer.Argument(metavar="MODULE...", help="Names of modules.")],
    others: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PATH", help="A folder, archive or wheel that the job brings."),
    ] = None,
    requirements: Requirements = None,
    define: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", metavar="KEY=VALUE", help="A setting of how user code is loaded."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report which copy of a module a name means in a job, from which file, and why; nothing is started."""

    def text() -> str:
        found = asked(program, modules, others or (), requirements, assigned(define or (), _EXAMPLE))
        return json.dumps(found, indent=2) if as_json else render(found, sys.stdout.isatty())

    print_outcome(text, as_json)


def asked(
    program: str,
    modules: Sequence[str],
    others: Sequence[str],
    requirements: str | None,
    settings: Mapping[str, str],
) -> ExplainedFacts:
    """Ask a child process which copy of modules a program with artifacts `others` gets; else UsageError."""
    request = {
        "program": program,
        "modules": list(modules),
        "others": list(others),
        "requirements": requirements,
        "settings": dict(settings),
    }
    sources = str(Path(__file__).resolve().parents[2])
    ended = subprocess.run(  # noqa: S603 - our own interpreter and our own code
        [sys.executable, "-P", "-c", _CHILD, sources],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(_ANSWER)]
    if not lines:
        raise InternalError(f"no explanation came, and the process printed: {ended.stderr.strip()[-2_000:]}")
    answer = json.loads(lines[-1].removeprefix(_ANSWER))
    if "refused" in answer:
        raise UsageError(answer["refused"])
    found: ExplainedFacts = answer["explanation"]
    return found


def render(found: ExplainedFacts, color: bool = False) -> str:
    native = any(row["native"] for row in found["modules"])
    made = table(["module", "copy", "file", "why", *(["compiled parts run"] if native else [])])
    for row in found["modules"]:
        copy = f"[{_COLORS[row['copy']]}]{row['copy']}[/]"
        cells = [escape(row["module"]), copy, escape(row["file"] or "-"), escape(row["reason"])]
        made.add_row(*cells, *([escape(_native(row["native"]))] if native else []))
    notes = [f"warning: {warning}" for warning in found["warnings"]]
    if found["isolated"]:
        notes.insert(0, f"the program is isolated: {found['isolated']}")
    if found["own_processes"]:
        notes.insert(0, "the job needs worker processes of its own")
    return "\n".join([*lines(made, color), *([""] if notes else []), *notes])


def _native(placed: Sequence[PackageFacts]) -> str:
    return "; ".join(
        f"{one['package']} {one['version']}: {one['runs']} ({one['reason']})" for one in placed
    ) or "-"  # fmt: skip
