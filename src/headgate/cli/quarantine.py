"""The commands for records that were quarantined: what is there, and one by one with their errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from headgate.cli.command_parameters import AsJson
from headgate.cli.exit_codes import print_outcome

quarantine_app = typer.Typer(
    help="Look at records on which functions failed, and that were quarantined.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Place = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The checkpoint directory, quarantine.dir, or a folder in one of them."
    ),
]
Operator = Annotated[str | None, typer.Option("--uid", metavar="UID", help="Those of one operator only.")]
Job = Annotated[str | None, typer.Option("--job", metavar="NAME", help="Those of one job only.")]
Last = Annotated[int, typer.Option("--last", min=1, help="So many of the newest.")]

_FOLDER: Final = "quarantine"


class Kept(msgspec.Struct, frozen=True):
    """A record as it lies in the quarantine, with the names of its job and the file."""

    operator: str
    subtask: int
    attempt: int
    failed_ms: int
    kind: str
    message: str
    line: str
    traceback: str
    key: str | None
    record: str | None
    timestamp: int | None
    timer: bool
    data: str | None
    source: str | None = None
    split: str | None = None
    position: str | None = None
    skip: int | None = None
    job: str = ""
    file: str = ""


@quarantine_app.command("list")
def list_kept(place: Place, uid: Operator = None, job: Job = None, as_json: AsJson = False) -> None:
    """List how many records are quarantined, by job, operator, exception and line of the program."""

    def text() -> str:
        found = Counter((each.job, each.operator, each.kind, each.line) for each in kept_in(place, uid, job))
        rows = [(*names, count) for names, count in sorted(found.items())]
        fields = ("job", "operator", "kind", "line", "records")
        if as_json:
            return json.dumps({"quarantined": [dict(zip(fields, row, strict=True)) for row in rows]})
        return _table(rows) if rows else f"nothing is quarantined in {place}"

    print_outcome(text, as_json)


@quarantine_app.command("show")
def show_kept(
    place: Place, uid: Operator = None, job: Job = None, last: Last = 10, as_json: AsJson = False
) -> None:
    """Show quarantined records with their errors, the newest last."""

    def text() -> str:
        found = sorted(kept_in(place, uid, job), key=lambda each: each.failed_ms)[-last:]
        if as_json:
            return json.dumps({"records": [msgspec.to_builtins(each) for each in found]})
        return "\n\n".join(map(_shown, found)) if found else f"nothing is quarantined in {place}"

    print_outcome(text, as_json)


def kept_in(place: Path, uid: str | None = None, job: str | None = None) -> Iterator[Kept]:
    """Yield the records in the quarantines below a folder. UsageError: there is no such folder; StorageError:
    a file cannot be read.
    """
    from headgate.common.decoders import UNDECODABLE, json_decoder
    from headgate.common.errors import StorageError, UsageError

    if not place.is_dir():
        raise UsageError(f"there is no folder {place}; name the checkpoint directory, or quarantine.dir")
    decoder = json_decoder(Kept)
    root = place / _FOLDER if (place / _FOLDER).is_dir() else place
    for path in sorted(root.rglob("part-*.jsonl")):
        folders = path.relative_to(root).parts[:-1]
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                found = decoder.decode(line)
            except UNDECODABLE as error:
                raise StorageError(
                    f"{path}, line {number}, is no quarantined record ({error}); it is damaged, or no file "
                    "of a quarantine"
                ) from None
            named = msgspec.structs.replace(found, job=folders[0] if len(folders) > 1 else "", file=str(path))
            if uid in (None, named.operator) and job in (None, named.job):
                yield named


def _table(rows: Sequence[tuple[str | int, ...]]) -> str:
    from rich.markup import escape

    from headgate.cli.terminal_tables import lines, table

    made = table(["job", "operator", "exception", "at", ">records"])
    for *names, count in rows:
        made.add_row(*(escape(_plain(str(name))) for name in names), f"{count:,}")
    return "\n".join(lines(made, color=False)).rstrip()


def _shown(kept: Kept) -> str:
    from headgate.cli.terminal_tables import moment

    what = f"timer at {kept.timestamp}" if kept.timer else f"record {kept.record}"
    key = "" if kept.key is None else f", key {kept.key}"
    head = f"{moment(kept.failed_ms)} {kept.operator}[{kept.subtask}] of job {kept.job!r}{key}: {what}"
    lines = kept.traceback.splitlines()
    if kept.split is not None:
        at = "its beginning" if kept.position == "null" else kept.position
        lines.insert(0, f"read by source {kept.source!r} from split {kept.split!r}, {kept.skip:,} after {at}")
    return "\n".join([_plain(head), *(f"    {_plain(line)}" for line in lines)])


def _plain(text: str) -> str:
    # What users wrote may have control characters, which a terminal would obey.
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
