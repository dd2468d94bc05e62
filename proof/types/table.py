"""The recorded outcomes as a table: for the terminal, and as the page ``docs/types.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from proof.types.cells import PLACES, ROOT, RUNS, Outcome, Way
from proof.types.kinds import KINDS
from proof.types.program import SPARK_USES, USES

RECORD: Final = ROOT / "docs" / "proof" / "types.json"
PAGE: Final = ROOT / "docs" / "types.md"
NOT_RUN: Final = "·"
_LETTERS: Final = "abcdefghijklmnop"

Cells = dict[tuple[str, str, str, str], Outcome]
"""Kind, place, way and use -> what became of it."""

_HEAD: Final = """# Types that a program defines

A program's own types may be records, parts of them, and what state holds, wherever the program defines
them: in the script itself, in a module next to it, in a cell of a notebook, in a package that it brings.
Records go from process to process by their fields, as state does, where a type is declared: by `schema=`,
or by the annotation of the function that gives them.

The tables show what was seen, and no more: each row is a job on real worker processes that puts a type of
its kind to every use, and compares what comes out with what went in, in value and in class. `make
types-matrix` runs them all again and writes this page; a test compares each row with this page.
The three uses on the right need Spark; thirteen jobs exercise them.

The column `interpreter` shows whether the program was [isolated](user-code.md): what brings packages
(`--requirements`) always is, what Python has loaded itself (`python job.py`, a notebook) never, and of the
other places each kind of type was isolated in one, by `headgate.user-code.apart=true`.

| sign | means |
| --- | --- |
| + | works |
| a number | is refused before the job starts, in the sentence of that number below |
| **fails** | is a fault of Headgate |
| · | no job has tried it |

"""

_TAIL: Final = """
Each second program begins with `from __future__ import annotations`. An Enum stands for itself where
records flow, and is a field of a dataclass where a record must have fields (schema, `write_json`,
DataFrames). The notebook's cells are compiled and run as IPython does it, in a `__main__` without a file,
and the cell that defines the type is run twice. State lies in RocksDB, so that each access reads stored
bytes. `side of a broadcast` includes broadcast state. `not declared` are records of functions without
annotations, alone and within tuples.
"""


def recorded(file: Path = RECORD) -> Cells:
    """What was seen the last time."""
    if not file.exists():
        return {}
    return {
        (kind, place, way, use): Outcome(*outcome)
        for kind, places in json.loads(file.read_text()).items()
        for place, ways in places.items()
        for way, uses in ways.items()
        for use, outcome in uses.items()
    }


def record(cells: Cells, file: Path = RECORD) -> None:
    """Keep what was seen, and write the page."""
    tree: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = {}
    for (kind, place, way, use), outcome in in_order(cells).items():
        said = [outcome.said] if outcome.said else []
        ways = tree.setdefault(kind, {}).setdefault(place, {})
        ways.setdefault(way, {})[use] = [outcome.state, *said]
    file.write_text(json.dumps(tree, indent=1) + "\n")
    PAGE.write_text(page(cells))


def in_order(cells: Cells) -> Cells:
    """The same, by kind, place, way and use in the order of the table."""
    uses = (*USES, *SPARK_USES)
    keys = [
        (kind.name, place.name, way.value, use)
        for kind in KINDS
        for place in PLACES
        for way in place.ways
        for use in uses
    ]
    return {key: cells[key] for key in keys if key in cells}


def page(cells: Cells) -> str:
    """The page of the docs."""
    refusals = _refusals(cells)
    notes = "".join(f"{number}. {said}\n" for said, number in refusals.items())
    tables = "\n".join(
        f"## {place.name[0].upper()}{place.name[1:]}\n\n{_table(cells, place.name, refusals)}"
        for place in PLACES
    )
    return f"{_HEAD}{tables}\n## Refusals\n\n{notes}{_TAIL}"


def printed(cells: Cells) -> str:
    """The same for a terminal, with what does not work in words."""
    refusals = _refusals(cells)
    uses = [f"{letter} {use}" for letter, use in zip(_LETTERS, (*USES, *SPARK_USES), strict=False)]
    parts = [f"{place.name}\n{_aligned(_rows(cells, place.name, refusals))}" for place in PLACES]
    notes = [f"{number}: refused before the start: {said}" for said, number in refusals.items()]
    fails = [f"{' / '.join(key)} fails: {one.said}" for key, one in cells.items() if one.state == "fails"]
    works = sum(one.state == "works" for one in cells.values())
    missing = len(RUNS) * len(uses) - len(cells)
    refused = len(cells) - works - len(fails)
    total = f"{works} work, {refused} are refused, {len(fails)} fail, {missing} were not run ({NOT_RUN})"
    return "\n\n".join(["\n".join(uses), *parts, "\n".join([*notes, *fails, total])])


def _refusals(cells: Cells) -> dict[str, int]:
    said = [one.said for one in in_order(cells).values() if one.state == "refused"]
    return {text: number for number, text in enumerate(dict.fromkeys(said), 1)}


def _rows(cells: Cells, place: str, refusals: Mapping[str, int]) -> list[list[str]]:
    uses = (*USES, *SPARK_USES)
    seen = {(kind, way) for kind, where, way, _ in cells if where == place}
    rows = [
        [
            kind.name,
            way.value,
            *(_sign(cells.get((kind.name, place, way, use)), refusals) for use in uses),
        ]
        for kind in KINDS
        for way in Way
        if (kind.name, way) in seen
    ]
    return [["", "interpreter", *uses], *rows]


def _sign(outcome: Outcome | None, refusals: Mapping[str, int]) -> str:
    if outcome is None:
        return NOT_RUN
    return {"works": "+", "fails": "**fails**"}.get(outcome.state) or str(refusals[outcome.said])


def _table(cells: Cells, place: str, refusals: Mapping[str, int]) -> str:
    head, *rows = _rows(cells, place, refusals)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    rest = [[", ".join(row[:2]), *row[2:]] for row in rows[1:]]
    first = max(len(row[0]) for row in rest)
    top = " " * first + "".join(f"{letter:>6}" for letter in _LETTERS[: len(rows[0]) - 2])
    lines = [f"{row[0]:<{first}}" + "".join(f"{sign.strip('*'):>6}" for sign in row[1:]) for row in rest]
    return "\n".join([top, *lines])
