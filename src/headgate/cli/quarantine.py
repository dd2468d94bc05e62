"""The commands for records that were quarantined: what is there, and what becomes of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headgate.cli.command_parameters import Arguments, AsJson, Brings, Define, Program, Requirements
from headgate.cli.exit_codes import ExitCode, Outcome, ending_without_job, print_outcome
from headgate.cli.replay import changed, needed, shortened
from headgate.cli.run import RunRequest, assignments
from headgate.common.refusals.texts import visible

if TYPE_CHECKING:
    from headgate.connectors.quarantine.quarantined_records import Kept
    from headgate.offline.replay.quarantined_report import QuarantineReport

quarantine_app = typer.Typer(
    help="Look at records on which functions failed, and that were quarantined; try or discard them.",
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
All = Annotated[bool, typer.Option("--all", help="Also those that were discarded.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this one, as `show` names it; repeatable."),
]


@quarantine_app.command("list")
def list_kept(
    place: Place, uid: Operator = None, job: Job = None, everything: All = False, as_json: AsJson = False
) -> None:
    """List how many records are quarantined, by job, operator, exception and line of the program."""

    def text() -> str:
        found = Counter(
            (each.job, each.operator, each.kind, each.line, *[_state(each)] * everything)
            for each in chosen(place, uid, job, everything=everything)
        )
        rows: list[tuple[str | int, ...]] = [(*names, count) for names, count in sorted(found.items())]
        fields = ("job", "operator", "kind", "line", *["state"] * everything, "records")
        if as_json:
            return json.dumps({"quarantined": [dict(zip(fields, row, strict=True)) for row in rows]})
        return _table(fields, rows) if rows else f"nothing is quarantined in {place}"

    print_outcome(text, as_json)


@quarantine_app.command("show")
def show_kept(
    place: Place,
    uid: Operator = None,
    job: Job = None,
    ids: Ids = None,
    last: Last = 10,
    everything: All = False,
    as_json: AsJson = False,
) -> None:
    """Show quarantined records with their errors, the newest last."""

    def text() -> str:
        taken = chosen(place, uid, job, ids, everything=everything)
        found = sorted(taken, key=lambda each: each.failed_ms)[-last:]
        if as_json:
            return json.dumps({"records": [msgspec.to_builtins(each) for each in found]})
        return "\n\n".join(map(_shown, found)) if found else f"nothing is quarantined in {place}"

    print_outcome(text, as_json)


@quarantine_app.command("discard")
def discard_kept(
    place: Place,
    uid: Operator = None,
    job: Job = None,
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--everything", help="All that are there now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Mark quarantined records as dealt with: those chosen, of what is there now. Files stay as they are."""

    def text() -> str:
        from headgate.common.errors import UsageError
        from headgate.connectors.quarantine.quarantined_records import discard

        if not (uid or job or ids or everything):
            raise UsageError("discard needs to know which: give --id, --uid or --job, or --everything")
        found = chosen(place, uid, job, ids, everything=bool(ids))
        count = discard(found)
        if as_json:
            return json.dumps({"discarded": [each.id for each in found if not each.discarded]})
        return f"{count:,} discarded; `headgate quarantine list --all` still has them"

    print_outcome(text, as_json)


@quarantine_app.command("replay")
def replay_kept(
    program: Program,
    place: Annotated[Path, typer.Option("--quarantine", metavar="DIR", help="Where the records are.")],
    arguments: Arguments = None,
    uid: Annotated[str, typer.Option("--uid", metavar="UID", help="Of the operator.")] = "",
    job: Job = None,
    ids: Ids = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="CHECKPOINT", help="Where the state of keys comes from, a path or URI."
        ),
    ] = None,
    side_effects: Annotated[
        bool,
        typer.Option("--allow-side-effects", help="Also run a function that reaches outside of the job."),
    ] = False,
    define: Define = None,
    as_json: AsJson = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Run the operator on its quarantined records, in one process, and show whether they now succeed.

    Nothing is written: neither state nor output changes, and the records stay where they are.
    """

    def text() -> Outcome:
        from headgate.offline.replay.quarantined import replay_quarantined

        settings = assignments(RunRequest("", (), define or (), None, brings or (), requirements))
        records = chosen(place, needed("--uid", uid), job, ids)
        found = replay_quarantined(
            program, uid, records, from_, arguments or (), settings, side_effects=side_effects
        )
        shown = json.dumps(msgspec.to_builtins(found), indent=2) if as_json else "\n".join(replay_page(found))
        return Outcome(shown, ExitCode.USER_CODE if found.failed else ExitCode.FINISHED)

    print_outcome(text, as_json, ending_without_job)


def chosen(
    place: Path,
    uid: str | None = None,
    job: str | None = None,
    ids: Sequence[str] | None = None,
    *,
    everything: bool = False,
) -> list[Kept]:
    """Return the records that are meant; without `everything` none that were discarded. UsageError: there is
    no such folder, or none with one of `ids`; StorageError: a file cannot be read.
    """
    from headgate.common.errors import UsageError
    from headgate.connectors.quarantine.quarantined_records import kept_in

    found = [each for each in kept_in(place, uid, job) if everything or not each.discarded]
    if not ids:
        return found
    known = {each.id for each in found}
    if missing := [each for each in ids if each not in known]:
        raise UsageError(
            f"{place} has no such record {missing[0]!r}; `headgate quarantine show --all` has all ids"
        )
    return [each for each in found if each.id in ids]


def _state(kept: Kept) -> str:
    return "discarded" if kept.discarded else "held" if kept.held else "open"


def replay_page(found: QuarantineReport) -> Iterator[str]:
    """Yield the lines of a report."""
    begins = f", with the state of checkpoint {found.begins} of job {found.job!r}"
    yield visible(f"{found.operator} ({found.uid}){begins if found.begins is not None else ''}")
    for each in found.records:
        key = "" if each.key is None else f", key {each.key}"
        yield ""
        yield visible(f"{each.id}{key}: {shortened(each.record)}")
        yield from map(visible, changed(each.changes))
        yield from (f"  + timer {timer}" for timer in each.timers_set)
        yield from (f"  - timer {timer}" for timer in each.timers_gone)
        yield from (visible(f"  > {shortened(record)}") for record in each.output)
        yield from (visible(f"  > {tag}: {shortened(record)}") for tag, record in each.side_output)
        if each.error is not None:
            yield visible(f"  fails again: {shortened(each.error)}")
        if each.left_out is not None:
            yield visible(f"  left out: {each.left_out}")
    yield ""
    yield f"{found.succeeded:,} succeed, {found.failed:,} fail again, {found.left_out:,} were left out"


def _table(fields: Sequence[str], rows: Sequence[tuple[str | int, ...]]) -> str:
    from rich.markup import escape

    from headgate.cli.terminal_tables import lines, table

    heads = {"kind": "exception", "line": "at", "records": ">records"}
    made = table([heads.get(field, field) for field in fields])
    for *names, count in rows:
        made.add_row(*(escape(visible(str(name))) for name in names), f"{count:,}")
    return "\n".join(lines(made, color=False)).rstrip()


def _shown(kept: Kept) -> str:
    from headgate.cli.terminal_tables import moment

    what = f"timer at {kept.timestamp}" if kept.timer else f"record {kept.record}"
    key = "" if kept.key is None else f", key {kept.key}"
    gone = (", held for the next release" if kept.held else "") + (", discarded" if kept.discarded else "")
    head = f"{moment(kept.failed_ms)} {kept.operator}[{kept.subtask}] of job {kept.job!r}{key}: {what}"
    lines = [f"id {kept.id}{gone}", *kept.traceback.splitlines()]
    if kept.split is not None:
        at = "its beginning" if kept.position == "null" else kept.position
        lines.insert(1, f"read by source {kept.source!r} from split {kept.split!r}, {kept.skip:,} after {at}")
    return "\n".join([visible(head), *(f"    {visible(line)}" for line in lines)])
