"""Texts that ``headgate savepoint`` prints: contents, differences, new savepoints, progress."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from headgate.cli.terminal_tables import lines, table
from headgate.offline.deleting import Deleted
from headgate.offline.rewriting import Progress as Told
from headgate.offline.rewriting import Rewritten
from headgate.offline.snapshot_pages import OperatorFacts, SnapshotFacts

if TYPE_CHECKING:
    from headgate.stateprocessor.diff import Sample, StateDifference

V = TypeVar("V")

_SIGNS: Final = {"changed": "~", "added": "+", "removed": "-"}
_WIDEST: Final = 100


def render(facts: SnapshotFacts, color: bool = False) -> str:
    moment = dt.datetime.fromtimestamp(facts["time_ms"] / 1000, dt.UTC).isoformat(" ", "seconds")
    form = "" if facts["format"] is None else f" ({facts['format']})"
    what = f"{facts['kind']}{form} {facts['checkpoint']}"
    shown = [
        f"{what} of job {facts['job_name']!r} ({facts['job']}), taken {moment}",
        f"{facts['max_parallelism']} key groups, {facts['size']:,} bytes of state: {facts['uri']}",
    ]
    shown += [f"made from {facts['origin']}"] if facts["origin"] else []
    shown += ["", *lines(_table(facts["operators"]), color)]
    shown += [f"in flight to {uid!r}: {count:,} records" for uid, count in facts["in_flight"].items()]
    return "\n".join(shown)


def described(facts: SnapshotFacts, color: bool = False) -> str:
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
        if operator["committables"]:
            rows.append(("prepared output", "committables", operator["committables"]))
        subtasks = operator["parallelism"]
        head = (escape(operator["uid"]), "-" if subtasks is None else str(subtasks), f"{operator['size']:,}")
        for place, (name, type_, entries) in enumerate(rows or [("-", "-", None)]):
            shown = "-" if entries is None else f"{entries:,}"
            made.add_row(*(head if place == 0 else ("", "", "")), escape(name), escape(type_), shown)
    return made


def rewritten(made: Rewritten, as_json: bool = False) -> str:
    if as_json:
        return json.dumps(made._asdict(), indent=2)
    lines = [f"wrote and verified {made.uri}: {made.max_parallelism} key groups, {made.entries:,} entries"]
    lines += [f"left behind: state of {', '.join(map(repr, made.left_behind))}"] if made.left_behind else []
    return "\n".join(lines)


def deleted(made: Deleted) -> str:
    """Return the report on a deleted savepoint as text for people.

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
    """Return the result of `work`, which gets a function to report its progress to, or None.

    On a terminal the function moves a progress bar on standard error; without one it is None.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        return work(None)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        return work(
            lambda what, done, of: bar.update(task, description=what, completed=done, total=max(1, of))
        )


def differences(found: Sequence[StateDifference]) -> str:
    """Return the differences of all states between two snapshots as text for people.

    Example:
        >>> from headgate.stateprocessor.diff import Sample, StateDifference
        >>> one = StateDifference("counts", "count", ("value[int]", "value[int]"), same=3, changed=1)
        >>> one.samples.append(Sample("changed", "'ada'", 1, 2))
        >>> print(differences([one]))
        counts/count  value[int]: 1 changed, 0 added, 0 removed, 3 the same
          ~ 'ada': 1 -> 2
    """
    if not found:
        return "neither snapshot has keyed state"
    lines = [line for one in found for line in _of_state(one)]
    if not any(one.differs for one in found):
        lines.append("the keyed state of both is the same")
    return "\n".join(lines)


def _of_state(one: StateDifference) -> list[str]:
    before, after = one.types
    types = (before or after or "") if before == after or None in one.types else f"{before} -> {after}"
    head = f"{one.uid}/{one.state}  {types}: "
    if one.unread is not None:
        return [head + one.unread]
    counts = f"{one.changed:,} changed, {one.added:,} added, {one.removed:,} removed, {one.same:,} the same"
    return [head + counts, *map(_sample, one.samples)]


def _sample(sample: Sample) -> str:
    shown = {
        "changed": f": {_text(sample.before)} -> {_text(sample.after)}",
        "added": f": {_text(sample.after)}",
        "removed": f": {_text(sample.before)}",
    }
    timer = sample.before is None and sample.after is None
    return f"  {_SIGNS[sample.change]} {sample.key}{'' if timer else shown[sample.change]}"


def _text(value: V) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def differences_json(found: Sequence[StateDifference]) -> str:
    facts = {"same": not any(one.differs for one in found), "states": [asdict(one) for one in found]}
    return json.dumps(facts, default=str, indent=2)
