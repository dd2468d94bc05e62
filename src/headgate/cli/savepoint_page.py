"""What ``headgate savepoint`` shows: a snapshot's content, a new savepoint, and how far its making is."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from headgate.cli.terminal_tables import lines, table
from headgate.offline.deleting import Deleted
from headgate.offline.rewriting import Progress as Told
from headgate.offline.rewriting import Rewritten
from headgate.offline.snapshot_pages import OperatorFacts, SnapshotFacts


def render(facts: SnapshotFacts, color: bool = False) -> str:
    """What `describe_snapshot` gave, as text."""
    moment = dt.datetime.fromtimestamp(facts["time_ms"] / 1000, dt.UTC).isoformat(" ", "seconds")
    form = "" if facts["format"] is None else f" ({facts['format']})"
    what = f"{facts['kind']}{form} {facts['checkpoint']}"
    shown = [
        f"{what} of job {facts['job_name']!r} ({facts['job']}), drawn {moment}",
        f"{facts['max_parallelism']} key groups, {facts['size']:,} bytes of state: {facts['uri']}",
    ]
    shown += [f"made from {facts['origin']}"] if facts["origin"] else []
    shown += ["", *lines(_table(facts["operators"]), color)]
    shown += [f"in flight to {uid!r}: {count:,} records" for uid, count in facts["in_flight"].items()]
    return "\n".join(shown)


def described(facts: SnapshotFacts, color: bool = False) -> str:
    """What `describe_with_keys` gave, as text."""
    lines = [render(facts, color)]
    for operator in facts["operators"]:
        if "key_types" not in operator:
            continue
        kinds = " and ".join(operator["key_types"]) or "none seen"
        lines += ["", f"keys of {operator['uid']!r}: {kinds}"]
        for state in operator["states"]:
            if "keys" in state:
                lines.append(f"  {state['name']}: {', '.join(state['keys']) or 'no entries'}")
        if not operator["keys_read"]:
            lines.append("  (RocksDB's files are too large to be fetched for their keys)")
    return "\n".join(lines)


def _table(operators: Sequence[OperatorFacts]) -> Table:
    made = table(["operator", "subtasks", ">bytes", "state", "type", ">entries"])
    for operator in operators:
        rows = [(state["name"], state["type"], state["entries"]) for state in operator["states"]]
        rows += [(name, "list", count) for name, count in operator["lists"].items()]
        rows += (
            [("prepared output", "committables", operator["committables"])]
            if operator["committables"]
            else []
        )
        subtasks = operator["parallelism"]
        head = (escape(operator["uid"]), "-" if subtasks is None else str(subtasks), f"{operator['size']:,}")
        for place, (name, type_, entries) in enumerate(rows or [("-", "-", None)]):
            shown = "-" if entries is None else f"{entries:,}"
            made.add_row(*(head if place == 0 else ("", "", "")), escape(name), escape(type_), shown)
    return made


def rewritten(made: Rewritten, as_json: bool = False) -> str:
    """What is said of a new savepoint."""
    if as_json:
        return json.dumps(made._asdict(), indent=2)
    lines = [f"wrote and verified {made.uri}: {made.max_parallelism} key groups, {made.entries:,} entries"]
    lines += [f"left behind: state of {', '.join(map(repr, made.left_behind))}"] if made.left_behind else []
    return "\n".join(lines)


def deleted(made: Deleted) -> str:
    """What is said of a savepoint that is gone.

    Example:
        >>> print(deleted(Deleted("file:///sp/a", 3, [], {"out": 2}, [])))
        deleted file:///sp/a: 3 files
        'out' keeps 2 pieces of unpublished output for it: the program (JOB.PY) can let them go
    """
    lines = [f"deleted {made.uri}: {made.files} files"]
    lines += [f"{uid!r} holds nothing for it any more" for uid in made.released]
    lines += [
        f"{uid!r} keeps {count} pieces of unpublished output for it: the program (JOB.PY) can let them go"
        for uid, count in made.still_held.items()
    ]
    lines += [f"stays, as it is not of the savepoint: {name}" for name in made.left]
    return "\n".join(lines)


def with_progress(work: Callable[[Told | None], Rewritten]) -> Rewritten:
    """Shows a bar on the standard error while it is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return work(None)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        return work(
            lambda what, done, of: bar.update(task, description=what, completed=done, total=max(1, of))
        )
