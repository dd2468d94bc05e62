"""What an engine's program is told, as a file in JSON; nothing here needs more than Python's own library.

Programs in environments of their own import this module by its file's folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one table.

    Attributes:
        folder: where they lie.
        columns: (name, type) of each, the type in words of SQL: bigint, string, timestamp.
    """

    folder: str
    columns: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Order:
    """One run of one query.

    Attributes:
        query: its name.
        text: what this engine is asked, as its entry in the table of queries has it; "" for Headgate.
        format: "parquet" or "json".
        tables: name in the query -> files.
        columns: (name, type) of the answer, also double and decimal(23,3).
        timed: whether event time is needed.
        work: an empty folder for checkpoints, which the harness removes.
        out: folder for the answer as files; None: into a sink that only receives it.
        files_per_batch: of a micro-batch.
        rows: of the right answer, for engines that do not see the end of their input.
        counted: column of counts, or None; with `total`, what its values come to.
        total: see `counted`.
    """

    query: str
    text: str
    format: str
    tables: dict[str, TableFiles]
    columns: Sequence[Sequence[str]]
    timed: bool
    work: str
    out: str | None
    files_per_batch: int
    rows: int
    counted: str | None
    total: int

    @staticmethod
    def read(path: str) -> Order:
        """The order in a file."""
        plain = json.loads(Path(path).read_text())
        plain["tables"] = {name: TableFiles(**files) for name, files in plain["tables"].items()}
        return Order(**plain)

    def write(self, path: Path) -> None:
        """Store it."""
        path.write_text(json.dumps(asdict(self)))


def versions(*packages: str) -> dict[str, str]:
    """Version of each package that is installed here."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def report(**facts: object) -> None:
    """The RESULT line, for whoever measures this process."""
    print("RESULT", json.dumps(facts), flush=True)
