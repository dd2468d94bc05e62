"""``headgate replay``: what a keyed operator does with one key, from a snapshot on, step by step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from headgate.cli.command_parameters import Arguments, AsJson, Brings, Define, Program, Requirements
from headgate.cli.control import key_typed
from headgate.cli.exit_codes import ExitCode, Outcome, ending_without_job, print_outcome
from headgate.cli.run import RunRequest, assignments

if TYPE_CHECKING:
    from headgate.offline.replay.replay_report import Change, ReplayReport, Step


class Until(StrEnum):
    """The values of ``--until``."""

    FAILURE = "failure"


_SHOWN: Final = 160  # characters of a record or value


def replay_key(
    program: Program,
    arguments: Arguments = None,
    uid: Annotated[str, typer.Option("--uid", metavar="UID", help="Of a keyed operator.")] = "",
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="JSON; other text is text, as for `headgate query`.")
    ] = "",
    from_: Annotated[
        str, typer.Option("--from", metavar="CHECKPOINT", help="Where its state comes from, a path or URI.")
    ] = "",
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="CHECKPOINT", help="Stop where this one was taken, and compare."),
    ] = None,
    until: Annotated[
        Until | None,
        typer.Option("--until", help="Go on over all checkpoints until it fails or the state differs."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, metavar="N", help="Stop after N records of the key.")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option("--save", metavar="TEST.PY", help="Write the replay as a test of the function."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--pdb", help="Open a debugger where the function is called, and where it raises.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Do not replay again, to find what differs.")] = False,
    records: Annotated[
        str | None,
        typer.Option(
            "--records", metavar="FILE", help="JSON lines in place of a source that cannot go back."
        ),
    ] = None,
    side_effects: Annotated[
        bool,
        typer.Option("--allow-side-effects", help="Also run functions that reach outside of the job."),
    ] = False,
    define: Define = None,
    as_json: AsJson = False,
    brings: Brings = None,
    requirements: Requirements = None,
) -> None:
    """Run one key of an operator again from a checkpoint on, and show each record, state and timer."""

    def text() -> Outcome:
        from headgate.offline.replay.replaying import replay

        settings = assignments(RunRequest("", (), define or (), None, brings or (), requirements))
        found = replay(
            program, needed("--uid", uid), key_typed(needed("--key", key)), needed("--from", from_), to,
            arguments or (), settings, count=count, records=records, save=save, twice=not once, debug=debug,
            side_effects=side_effects, until_failure=until is Until.FAILURE,
        )  # fmt: skip
        shown = as_json_text(found) if as_json else "\n".join(page(found))
        return Outcome(shown, exit_code(found))

    print_outcome(text, as_json, ending_without_job)


def needed(option: str, value: str) -> str:
    """Return the value of an option that has to be given; UsageError without it."""
    from headgate.common.errors import UsageError

    if not value:
        raise UsageError(f"replay needs {option}; headgate replay --help shows what it means")
    return value


def exit_code(found: ReplayReport) -> ExitCode:
    """Return USER_CODE if the program's code raised, INCOMPATIBLE if the state or a second replay differs.

    A state that may differ for a reason which the report names is no error.
    """
    if found.failure is not None:
        return ExitCode.USER_CODE
    differs = bool(found.differences) and not found.inexact
    return ExitCode.INCOMPATIBLE if differs or found.unlike else ExitCode.FINISHED


def as_json_text(found: ReplayReport) -> str:
    facts = msgspec.to_builtins(found) | {"as_recorded": found.as_recorded}
    return json.dumps(facts, indent=2)


def page(found: ReplayReport) -> Iterator[str]:
    """Yield the lines of a report for people."""
    yield (
        f"{found.operator} ({found.uid}), key {found.key}: key group {found.key_group}, subtask "
        f"{found.subtask} of job {found.job!r}, from checkpoint {found.begins}"
    )
    if found.passed:
        yield f"  at checkpoints {', '.join(map(str, found.passed))} nothing was wrong"
    yield from changed(found.state) if found.state else ["  no state"]
    for step in found.steps:
        yield from _step(step)
    yield ""
    keyed = sum(step.kind == "record" for step in found.steps)
    yield f"{keyed} records of the key, of {found.records_read} that were read; {found.ended}"
    if found.failure is not None:
        yield found.failure.rstrip()
    yield from _verdict(found)


def _step(step: Step) -> Iterator[str]:
    at = "" if step.timestamp is None else f" at {step.timestamp}"
    sender = "" if step.sender is None else f"  from {step.sender}"
    yield ""
    yield f"{step.number}. {step.kind} {shortened(step.what)}{at}{sender}"
    yield from changed(step.changes)
    yield from (f"  + timer {timer}" for timer in step.timers_set)
    yield from (f"  - timer {timer}" for timer in step.timers_gone)
    yield from (f"  > {shortened(record)}" for record in step.output)
    yield from (f"  > {tag}: {shortened(record)}" for tag, record in step.side_output)
    if step.error is not None:
        yield f"  raised {shortened(step.error)}"


def changed(changes: list[Change]) -> Iterator[str]:
    for change in changes:
        before = "" if change.before is None else f"{shortened(change.before)} -> "
        after = "removed" if change.after is None else shortened(change.after)
        yield f"  {change.state}: {before}{after}"


def _verdict(found: ReplayReport) -> Iterator[str]:
    if found.differences is not None:
        if found.as_recorded:
            yield f"the state is that of checkpoint {found.ends}, byte for byte"
        else:
            yield f"the state is not that of checkpoint {found.ends}:"
        for each in found.differences:
            recorded = "nothing" if each.recorded is None else shortened(each.recorded)
            replayed = "nothing" if each.replayed is None else shortened(each.replayed)
            yield f"  {each.state}: {recorded} recorded, {replayed} replayed"
    if found.unlike:
        yield "a second replay did not do the same, so the program is not deterministic:"
        yield from (f"  {what}" for what in found.unlike)
    if found.inexact:
        yield "a replay need not be exact here:"
        yield from (f"  {why}" for why in found.inexact)


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
