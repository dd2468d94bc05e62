"""Texts that ``headgate checkpoint`` prints: the result of a verification, and what is or would be pruned."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.checkpoint.pruning import Orphan, Pruning
from headgate.checkpoint.verifying import Report, verify

LISTED_MAX: Final = 20  # files of a kind that are listed for a person; machines get all


def verify_with_progress(path: str) -> Report:
    """Verify the snapshots at `path` and return the report; a terminal shows a progress bar meanwhile."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return verify(path)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        return verify(
            path, lambda what, done, of: bar.update(task, description=what[-50:], completed=done, total=of)
        )


def verified(report: Report) -> str:
    """Return the report of a verification as text for people.

    Example:
        >>> print(verified(Report("file:///cp", "storage", jobs=1, checkpoints=2, files=3, bytes=4096)))
        file:///cp: intact
        jobs 1, completed checkpoints 2, savepoints 0, files 3, 4,096 bytes read
    """
    lines = [f"{report.place}: {'intact' if report.clean else 'DAMAGED'}"]
    lines.append(
        f"jobs {report.jobs}, completed checkpoints {report.checkpoints}, savepoints {report.savepoints}, "
        f"files {report.files:,}, {report.bytes:,} bytes read"
    )
    lines += [f"damaged: {what}" for what in report.damaged]
    lines += _listed("not in the log", report.unlogged)
    lines += _listed("perhaps complete, and not pruned", report.perhaps_complete)
    lines += _listed("nothing complete refers to", report.orphans)
    lines += _listed("may belong to a damaged checkpoint, and is never pruned", report.of_damaged)
    lines += _listed("unfinished", report.unfinished)
    lines += [f"note: {note}" for note in report.notes]
    if report.orphans or report.unfinished:
        lines.append(
            "what is left over does no harm; `headgate checkpoint prune` deletes what nothing will need"
        )
    return "\n".join(lines)


def pruned(found: Pruning) -> str:
    """Return the report of files that were pruned, or without --yes would be pruned, as text for people.

    Example:
        >>> print(pruned(Pruning("file:///cp", (), ())))
        file:///cp: nothing is left over
    """
    if not found.orphans and not found.refused:
        return f"{found.place}: nothing is left over"
    kept = [orphan for orphan in found.orphans if not orphan.removable]
    verb = "deleted" if found.deleting else "would be deleted"
    lines = [f"{found.place}: {len(found.removable)} files {verb}, {len(kept)} stay"]
    lines += _listed(verb, [_text(orphan) for orphan in found.removable])
    lines += _listed("stays", [_text(orphan) for orphan in kept])
    lines += [f"refused: {why}" for why in found.refused]
    if found.removable and not found.deleting:
        lines.append("nothing was deleted; give --yes")
    return "\n".join(lines)


def _text(orphan: Orphan) -> str:
    return f"{orphan.uri} ({orphan.why})"


def _listed(what: str, names: list[str]) -> list[str]:
    lines = [f"{what}: {name}" for name in names[:LISTED_MAX]]
    more = len(names) - LISTED_MAX
    return lines if more <= 0 else [*lines, f"{what}: {more:,} more (--json lists them)"]
