"""What an engine's program is told, as a file in JSON; nothing here needs more than Python's own library.

Programs in environments of their own import this module by its file's folder.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

CAUSES_CHARS = 800


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
        counted: column of counts or times, or None; with `total`, what its values come to, times in
            microseconds.
        total: see `counted`.
        updating: whether rows of the answer are corrected as more records come.
        key: columns whose rows are replaced together, for engines that tell only new rows.
        wait_s: event time by which readers of two files may be apart, for engines that do not align them.
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
    wait_s: float
    updating: bool = False
    key: Sequence[str] = ()

    @staticmethod
    def read(path: str) -> Order:
        """The order in a file."""
        plain = json.loads(Path(path).read_text())
        plain["tables"] = {name: TableFiles(**files) for name, files in plain["tables"].items()}
        plain["key"] = tuple(plain["key"])
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


def carry_out(program: Callable[[], None]) -> None:
    """Run a program; an error ends it with its causes instead of all the places in code that it passed."""
    try:
        program()
    except Exception as error:  # whatever it is, it is for the table's footnote
        sys.exit(causes(str(error)) or type(error).__name__)


def causes(text: str) -> str:
    """What a message of a JVM or of Python says, without its stack.

    Example:
        >>> causes("It failed.\\n: org.Parse: no table\\n\\tat org.A(B.java)\\nCaused by: x\\n\\t... 14 more")
        'It failed. : org.Parse: no table Caused by: x'
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
    return " ".join(line.strip() for line in lines)[:CAUSES_CHARS]
