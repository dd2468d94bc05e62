"""Shows checkpoints on the terminal: a table of all of them, or one in full with its slowest path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from headgate.checkpoint.history_file import (
    CheckpointRecord,
    CheckpointStatus,
    History,
    Hop,
    SlowestPath,
    SubtaskRecord,
    amount,
    slowest_path,
    span,
)
from headgate.cli.terminal_tables import lines, moment, table

_STYLES: Final = {
    CheckpointStatus.COMPLETED: "green",
    CheckpointStatus.FAILED: "red",
    CheckpointStatus.IN_PROGRESS: "yellow",
}
_FIGURES: Final[Mapping[str, Callable[[SubtaskRecord], str]]] = {
    "acknowledged": lambda seen: span(seen.ack_latency_ms),
    "start delay": lambda seen: span(seen.start_delay_ms),
    "alignment": lambda seen: span(seen.alignment_ms),
    "processed": lambda seen: amount(seen.bytes_processed),
    "persisted": lambda seen: amount(seen.bytes_persisted),
    "sync": lambda seen: span(seen.sync_ms),
    "async": lambda seen: span(seen.async_ms),
    "written": lambda seen: amount(seen.bytes_written),
}
_ALWAYS: Final = ("acknowledged", "start delay", "alignment", "sync", "async")
_SHOWN_MS: Final = 0.05  # parts of a hop that took less are left out


def overview(history: History, width: int, color: bool = False) -> str:
    """Return the table of a job's checkpoints as text, newest first.
    `width`: characters in which its title is wrapped; the table keeps its own width. `color`: as on a
    terminal.
    """
    made = table(
        ["id", "kind", "status", "triggered (UTC)", ">took", ">state", ">in flight", "unaligned", "slowest"]
    )
    for record in reversed(history.records):
        made.add_row(
            str(record.checkpoint),
            record.kind,
            f"[{_STYLES[record.status]}]{record.status.value}[/]",
            moment(record.trigger_ms),
            span(record.duration_ms),
            amount(record.size),
            amount(record.bytes_in_flight),
            "yes" if record.unaligned else "no",
            escape(_slowest(record)),
        )
    title = f"job {history.job_name!r} ({history.job}): {len(history.records)} checkpoints"
    return _text([escape(title), made], width, color)


def detail(record: CheckpointRecord, remark: str, width: int, color: bool = False) -> str:
    """Return the page of one checkpoint: a `remark`, its subtasks, the slowest path, and why it was slow."""
    path = slowest_path(record)
    return _text([*_head(record, remark), _subtasks(record, path), *foot(path)], width, color)


def foot(path: SlowestPath) -> list[RenderableType]:
    hops = [_hop(hop, first=number == 0) for number, hop in enumerate(path.hops)]
    ends = {"stored": path.storing_ms, "committed": path.committing_ms}
    hops += [f"{name} {span(ms)}" for name, ms in ends.items() if ms >= _SHOWN_MS]
    line = " -> ".join(hops) or "none"
    return [f"[bold]slowest path:[/] {escape(line)}", f"[bold]why:[/] {escape(path.why)}"]


def _head(record: CheckpointRecord, remark: str) -> list[RenderableType]:
    status = f"[{_STYLES[record.status]}]{record.status.value}[/]"
    facts = [
        f"{record.kind}, attempt {record.attempt}, triggered {moment(record.trigger_ms)} UTC",
        f"took {span(record.duration_ms)}",
        f"state {amount(record.size)}",
        f"in flight {amount(record.bytes_in_flight)}",
    ]
    lines: list[RenderableType] = [escape(remark)] if remark else []
    lines.append(f"[bold]checkpoint {record.checkpoint}[/] {status}: {escape(', '.join(facts))}")
    if record.reason is not None:
        because = record.reason_text + (f": {record.detail}" if record.detail else "")
        lines.append(f"[bold]failed because[/] {escape(because)}")
    return lines


def _subtasks(record: CheckpointRecord, path: SlowestPath) -> Table:
    figures = {
        seen.task: {name: figure(seen) for name, figure in _FIGURES.items()} for seen in record.subtasks
    }
    shown = [
        name
        for name in _FIGURES
        if name in _ALWAYS or any(row[name] not in ("0 ms", "0 B") for row in figures.values())
    ]
    made = table(["", "subtask", *(f">{name}" for name in shown), ""])
    on_path = {(hop.vertex, hop.subtask) for hop in path.hops}
    for task in sorted({*figures, *record.missing}):
        mark, label = "*" if task in on_path else "", escape(record.topology.label(task))
        seen = record.subtask(task)
        if seen is None:
            made.add_row(mark, label, *["-"] * len(shown), "[red]not acknowledged[/]")
        else:
            notes = [*(["unaligned"] if seen.unaligned else []), *(["finished"] if seen.finished else [])]
            made.add_row(mark, label, *(figures[task][name] for name in shown), ", ".join(notes))
    return made


def _slowest(record: CheckpointRecord) -> str:
    if record.missing:
        more = f" and {len(record.missing) - 1} more" if len(record.missing) > 1 else ""
        return f"{record.topology.label(record.missing[0])}{more} missing"
    last = record.last_acknowledged
    return "" if last is None else f"{record.topology.label(last.task)} {span(last.ack_latency_ms)}"


def _hop(hop: Hop, first: bool) -> str:
    if hop.missing:
        return f"{hop.label} (not acknowledged)"
    parts = {
        "trigger" if first else "barrier": hop.travel_ms,
        "alignment": hop.alignment_ms,
        "sync": hop.sync_ms,
        "async": hop.async_ms,
        "other": hop.other_ms,
    }
    shown = ", ".join(f"{name} {span(ms)}" for name, ms in parts.items() if ms >= _SHOWN_MS)
    return f"{hop.label} ({shown or 'at once'})"


def _text(parts: list[RenderableType], width: int, color: bool) -> str:
    shown: list[str] = []
    for part in parts:
        shown += ["", *lines(part, color), ""] if isinstance(part, Table) else lines(part, color, width)
    return "\n".join(shown).rstrip()
