"""Runs three versions of a program, each from the state of the one before, and shows what became of it.

    python examples/evolve/run.py          # local Spark
    python examples/evolve/run.py --mini   # workers as threads of this process

Each version reads a third of the commits. Its final checkpoint is what the next one begins from. At the
end every author's state is compared with a plain loop over the same commits; exit code 1 if it differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import profiles
from profiles import Commit, Line, Version1, Version2, Version3
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.opening import open_checkpoint
from headgate.connectors.files import json_source
from headgate.serde.evolution.judging_types import judge
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import (
    AfterMigration,
    AsIs,
    Compatibility,
    Incompatible,
    Reconfigured,
    combined,
)
from headgate.testing import MiniCluster

DATA = Path(__file__).parents[1] / "data" / "commits.jsonl.gz"
VERSIONS = ((Version1(), 2), (Version2(), 2), (Version3(), 3))
"""Each with its parallelism."""
VERDICTS = {
    AsIs: "as is",
    Reconfigured: "reconfigured",
    AfterMigration: "after migration",
    Incompatible: "[red]incompatible[/]",
}
EXAMPLES = 3
"""Authors that are shown."""
PLAIN_WIDTH = 140
"""Characters of a line where the output is no terminal."""


def build(env: hg.Environment, function: Any, number: int, folder: Path) -> None:
    """The dataflow of each version. The operator that keeps state has the same uid in all of them."""
    # Another input has another uid: the last version's was read to its end.
    source = json_source(str(folder / f"in-{number}.jsonl"))
    commits = env.from_source(source, uid=f"commits-{number}")
    told = commits.key_by("author").process(function, uid="profiles")
    told.write_json(str(folder / f"out-{number}"), uid=f"answers-{number}")


def run_version(number: int, folder: Path, restore_from: str | None, mini: bool) -> str:
    """Run one version to the end of its input; gives the folder of its checkpoints."""
    function, parallelism = VERSIONS[number - 1]
    # Each version reads another input, so what the last one's source had read is left behind on purpose.
    config = {"execution.state-recovery.ignore-unclaimed-state": True}
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster() if mini else "spark", config=config)
    env.checkpoints(every="1s", storage=str(folder / "checkpoints"))
    build(env, function, number, folder)
    result = env.execute(f"version-{number}", restore_from=restore_from)
    return str(folder / "checkpoints" / result.job_id)


# -- input and output


def write_inputs(folder: Path, commits: Sequence[Commit]) -> list[Sequence[Commit]]:
    """A third of the commits for each version; all authors known by then are asked before and after it."""
    third = -(-len(commits) // 3)
    thirds = [commits[number * third : (number + 1) * third] for number in range(3)]
    known: dict[str, None] = {}
    for number, part in enumerate(thirds, 1):
        before = [{"author": author, "ask": "before"} for author in known]
        known.update(dict.fromkeys(commit["author"] for commit in part))
        after = [{"author": author, "ask": "after"} for author in known]
        lines = [json.dumps(record) + "\n" for record in (*before, *part, *after)]
        (folder / f"in-{number}.jsonl").write_text("".join(lines))
    return thirds


def answers(folder: Path, number: int, ask: str) -> dict[str, Line]:
    """Author -> what a version knew of them before, or after, its third."""
    files = sorted((folder / f"out-{number}").glob("[!._]*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {line.pop("author"): line for line in lines if line.pop("ask") == ask}


def batch_answer(thirds: Sequence[Sequence[Commit]]) -> dict[str, Line]:
    """What must be known of each author at the end, by a plain loop."""
    known: dict[str, Line] = {}
    for number, part in enumerate(thirds, 1):
        for commit in part:
            new = {"profile": {"count": 0, "lines": 0.0, "last": None}, "size": "small", "most_files": None}
            author = known.setdefault(commit["author"], new)
            lines = commit["insertions"] + (commit["deletions"] / 2 if number > 1 else 0)
            author["profile"]["count"] += 1
            author["profile"]["lines"] += lines
            author["size"] = "large" if lines > 100 else "small"
            if number > 1 and lines > 1000:
                author["size"] = "huge"
            if number == 3:
                author["profile"]["last"] = {"repo": commit["repo"], "at_ms": commit["author_ms"]}
                author["most_files"] = max(author["most_files"] or 0, commit["files"])
    return known


# -- what became of the state


def judged(checkpoint: str, function: Any) -> Table:
    """Each state as a checkpoint holds it and as a program declares it."""
    stored = open_checkpoint(checkpoint)[1].state_types["profiles"]
    table = Table("state", "stored as", "declared as", "verdict", "what was done", show_lines=True)
    for name, state in declared_state(function).items():
        current = [serializer_for(hint) for hint in state.types]
        now = [serializer.describe() for serializer in current]
        if name not in stored:
            table.add_row(name, "-", _shown(state.kind, now), "new", "begins empty")
            continue
        was = stored[name]["of"]
        verdict = combined(map(judge, was, current))
        if stored[name]["kind"] != state.kind:
            verdict = Incompatible("its kind changed")
        done = escape("\n".join(_done(verdict, now[0])))
        cells = _shown(stored[name]["kind"], was), _shown(state.kind, now), VERDICTS[type(verdict)], done
        table.add_row(name, *cells)
    for name in stored.keys() - declared_state(function):
        shown = _shown(stored[name]["kind"], stored[name]["of"])
        table.add_row(name, shown, "-", "no longer declared", "refused unless it is empty")
    return table


def _done(verdict: Compatibility, now: dict[str, Any]) -> Iterator[str]:
    """What happens to the whole and to each of its fields, in words."""
    if isinstance(verdict, Incompatible):
        yield verdict.why
        return
    changes = () if isinstance(verdict, AsIs) else verdict.changes
    for change in changes:
        yield change.replace(f" of {now.get('name')}", "").replace(f"{profiles.__name__}.", "")
    for field in now.get("fields", ()):
        if not any(repr(field) in change for change in changes):
            yield f"field {field!r} is as it was"


def _shown(kind: str, types: Sequence[dict[str, Any]]) -> str:
    fields = [f"\n  {name}: {_type(part)}" for of in types for name, part in of.get("fields", {}).items()]
    return f"{kind} of {', '.join(_type(of).partition('(')[0] for of in types)}{''.join(fields)}"


def _type(of: dict[str, Any]) -> str:
    """The description of a type, short."""
    match of["kind"]:
        case "dataclass":
            fields = ", ".join(f"{name}: {_type(part)}" for name, part in of["fields"].items())
            return f"{of['name'].rpartition('.')[2]}({fields})"
        case "union":
            return " | ".join(map(_type, of["of"]))
        case "literal":
            return " | ".join(of["values"])
    return str(of["kind"])


def examples(number: int, authors: Iterable[str], before: dict[str, Line], after: dict[str, Line]) -> Table:
    """A few authors as the last version left them and as this one found them."""
    table = Table("author", f"left by version {number - 1}", f"found by version {number}", show_lines=True)
    for author in islice(authors, EXAMPLES):
        table.add_row(author, _values(before[author]), _values(after[author]))
    return table


def _values(line: Line) -> str:
    beside = {name: value for name, value in line.items() if name != "profile"}
    return "\n".join(f"{name}: {value}" for name, value in {**line["profile"], **beside}.items())


def main(arguments: Sequence[str]) -> int:
    """What the command line asks for; gives the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mini", action="store_true", help="run on the mini cluster, without Spark")
    parser.add_argument("--events", type=int, help="read only so many commits")
    options = parser.parse_args(arguments)
    with gzip.open(DATA, "rt") as data:
        commits = [json.loads(line) for line in islice(data, options.events)]
    with tempfile.TemporaryDirectory(prefix="headgate-evolve-") as folder:
        return evolve(Path(folder), commits, options.mini)


def evolve(folder: Path, commits: Sequence[Commit], mini: bool) -> int:
    """Run all three versions, showing each step; 0 when the result is that of the batch."""
    console, checkpoint = Console(), None
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    thirds = write_inputs(folder, commits)
    for number, (function, parallelism) in enumerate(VERSIONS, 1):
        console.rule(f"version {number}: {len(thirds[number - 1]):,} commits, parallelism {parallelism}")
        if checkpoint is not None:
            console.print(judged(checkpoint, function))
        checkpoint = run_version(number, folder, checkpoint, mini)
        if number > 1:
            authors = dict.fromkeys(commit["author"] for commit in thirds[number - 2])
            before, after = answers(folder, number - 1, "after"), answers(folder, number, "before")
            console.print(examples(number, authors, before, after))
    found, expected = answers(folder, 3, "after"), batch_answer(thirds)
    wrong = [author for author in found | expected if found.get(author) != expected.get(author)]
    console.rule("the result")
    compared = f"{len(expected):,} authors compared with a plain loop over the same commits"
    console.print(f"{compared}: {f'{len(wrong)} differ, such as {wrong[0]}' if wrong else 'all equal'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
