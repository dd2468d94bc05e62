"""``headgate check-upgrade``: what becomes of every state, as a table for people or as JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import msgspec
from rich.markup import escape
from rich.table import Table

from headgate.cli.exit_codes import ExitCode
from headgate.cli.terminal_tables import lines, table
from headgate.offline.upgrade import OperatorReport, UpgradeReport, Verdict

_COLORS: Final = {
    Verdict.AS_IS: "green",
    Verdict.RECONFIGURED: "green",
    Verdict.AFTER_MIGRATION: "yellow",
    Verdict.ONLY_IN_PROGRAM: "blue",
    Verdict.ONLY_IN_SNAPSHOT: "red",
    Verdict.LEFT_BEHIND: "yellow",
    Verdict.INCOMPATIBLE: "red",
}
_ENDS: Final = {
    Verdict.AS_IS: "the program goes on from the snapshot as it is",
    Verdict.RECONFIGURED: "the program goes on from the snapshot as it is",
    Verdict.AFTER_MIGRATION: "the program goes on from the snapshot; values are converted by the restore",
    Verdict.ONLY_IN_SNAPSHOT: "state would be lost, so the restore is refused; declare it, or leave it "
    "behind with --allow-non-restored-state",
    Verdict.LEFT_BEHIND: "the program goes on from the snapshot, and what is only in the snapshot is left "
    "behind",
    Verdict.INCOMPATIBLE: "the program cannot go on from the snapshot",
}

NOT_READ: Final = "data files were not read; `headgate checkpoint verify` shows whether they are intact"


def exit_code(report: UpgradeReport, exact: bool = False) -> ExitCode:
    """Return the exit code of the command for a report.
    INCOMPATIBLE: a restore is refused or loses state; NEEDS_MIGRATION: only if `exact`, values are converted.
    """
    if not report.restorable:
        return ExitCode.INCOMPATIBLE
    if exact and report.converts:
        return ExitCode.NEEDS_MIGRATION
    return ExitCode.FINISHED


def as_json(report: UpgradeReport) -> str:
    plain = {"verdict": report.verdict.value, "restorable": report.restorable} | msgspec.to_builtins(report)
    return json.dumps(plain, indent=2)


def render(report: UpgradeReport, color: bool = False) -> str:
    form = "" if report.format is None else f", {report.format}"
    shown = [
        f"{report.kind} {report.checkpoint} of job {report.job!r}{form}: {report.snapshot}",
        f"program {report.program}",
        _compared("key groups", report.max_parallelism_stored, report.max_parallelism),
        "",
        *lines(_table(report.operators), color),
        "",
    ]
    shown += [one.suggestion for one in report.operators if one.suggestion]
    shown += [f"refused: {why}" for why in report.refusals]
    return "\n".join([*shown, NOT_READ, _end(report)])


def _end(report: UpgradeReport) -> str:
    if report.verdict is Verdict.ONLY_IN_SNAPSHOT and any(one.lacks_uid for one in report.operators):
        # To leave state behind is no way out: a job with checkpoints needs the uid all the same.
        return "state would be lost, so the restore is refused; give each operator with state its uid"
    if report.verdict is Verdict.LEFT_BEHIND and report.converts:
        return f"{_ENDS[report.verdict]}; values are converted by the restore"
    return _ENDS[report.verdict]


def _compared(what: str, stored: int | None, now: int | None) -> str:
    if stored == now:
        return f"{what}: {now}"
    known = ["unknown" if number is None else str(number) for number in (stored, now)]
    return f"{what}: {known[0]} in the snapshot, {known[1]} in the program"


WHY_WIDTH: Final = 48  # characters of a line of reasons: these are sentences, and wrapped


def _table(operators: Sequence[OperatorReport]) -> Table:
    names = ("operator", "subtasks", "what", "name", "in the snapshot", "in the program", "verdict")
    made = table(names)
    made.add_column("why", max_width=WHY_WIDTH)
    for operator in operators:
        for place, item in enumerate(operator.items):
            head = _head(operator) if place == 0 else ("", "")
            verdict = f"[{_COLORS[item.verdict]}]{item.verdict.value}[/]"
            texts = [item.name, item.stored or "-", item.declared or "-"]
            made.add_row(*head, item.part, *map(escape, texts), verdict, escape(item.why or ""))
    return made


def _head(operator: OperatorReport) -> tuple[str, str]:
    name = operator.uid if operator.name in (None, operator.uid) else f"{operator.name} ({operator.uid})"
    stored, now = ("-" if n is None else str(n) for n in (operator.parallelism_stored, operator.parallelism))
    return escape(name), now if stored == now else f"{stored} -> {now}"
