"""The changelog that a job has written, in DuckDB: its changes as weighted rows, and whether a row was ever
taken back that was not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

_NAME: Final = re.compile(
    r"\+(?P<subtask>\d+)-(?P<generation>\d+)\.(?P<attempt>\d+)-(?P<sequence>\d+)-c(?P<checkpoint>\d+)\.jsonl"
)
_WEIGHT: Final = """
    CASE WHEN op IN ('+I', '+U') THEN 1 WHEN op IN ('-U', '-D') THEN -1
    ELSE error('a line of the changelog has the op ' || coalesce(op, 'null')) END
"""


class Place(NamedTuple):
    """Where a file stands in the order of a changelog: first by the checkpoint that published it."""

    checkpoint: int
    subtask: int
    generation: int
    attempt: int
    sequence: int


def place_of(path: Path) -> Place:
    """The place of a published file, from its name.

    Example:
        >>> place_of(Path("out/part-job+out+00001-3.2-0-c7.jsonl"))
        Place(checkpoint=7, subtask=1, generation=3, attempt=2, sequence=0)
    """
    found = _NAME.search(path.name)
    assert found is not None, f"{path} has no name of a published changelog"
    return Place(**{key: int(value) for key, value in found.groupdict().items()})


def read_changes(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], types: Mapping[str, str]
) -> None:
    """Make the views `found`, of rows with their weight, 1 for one that came and -1 for one that went, and
    `changes`, which has number and file of each line besides.

    Args:
        connection: gets the views.
        files: all that are published; at least one.
        types: name of a column -> its type in DuckDB.
    """
    ordered = sorted(files, key=place_of)
    columns: dict[str, Any] = {"op": "VARCHAR", **types}
    lines = connection.read_json(
        [str(path) for path in ordered], columns=columns, format="newline_delimited", filename=True
    )
    lines.create_view("lines")
    names = ", ".join(f'"{name}"' for name in types)
    # DuckDB keeps the order of files and lines, so this counts in it.
    connection.execute(f"""
        CREATE TEMPORARY VIEW changes AS
        SELECT {names}, {_WEIGHT} AS weight, row_number() OVER () AS number, filename FROM lines
    """)
    connection.execute(f"CREATE TEMPORARY VIEW found AS SELECT {names}, {_WEIGHT} AS weight FROM lines")
    connection.execute("CREATE TEMPORARY TABLE places (filename VARCHAR, checkpoint BIGINT, subtask BIGINT)")
    places = [(str(path), *place_of(path)[:2]) for path in ordered]
    connection.executemany("INSERT INTO places VALUES (?, ?, ?)", places)


def taken_back_too_often(connection: duckdb.DuckDBPyConnection, names: str) -> Iterator[str]:
    """Where a row was taken back that was not there.

    Files of one subtask have an order. Those of several, which a checkpoint publishes together, have none: a
    row that several of them change is looked at after them.

    Args:
        connection: `read_changes` has made its views there.
        names: the columns, in quotes.
    """
    # Rows are told apart by their hash alone: so what is sorted is narrow.
    connection.execute(f"""
        CREATE TEMPORARY TABLE counted AS
        SELECT row, checkpoint, subtask, sum(weight) OVER row_so_far AS there,
            lead(checkpoint) OVER row_so_far IS NOT DISTINCT FROM checkpoint AS more_follow
        FROM (SELECT hash({names}) AS row, weight, number, filename FROM changes) JOIN places USING (filename)
        WINDOW row_so_far AS (PARTITION BY row ORDER BY number)
    """)
    connection.execute("""
        CREATE TEMPORARY TABLE too_often AS
        WITH below AS (FROM counted WHERE there < 0), by_one AS (
            SELECT row, checkpoint FROM counted SEMI JOIN below USING (row, checkpoint)
            GROUP BY ALL HAVING count(DISTINCT subtask) = 1
        )
        SELECT row, checkpoint, subtask FROM below
        WHERE NOT more_follow OR EXISTS (
            FROM by_one WHERE by_one.row = below.row AND by_one.checkpoint = below.checkpoint
        )
    """)
    first = "SELECT count(*) OVER (), row, checkpoint, subtask FROM too_often ORDER BY checkpoint LIMIT 1"
    for count, row, checkpoint, subtask in connection.sql(first).fetchall():
        rows = f"SELECT ({names})::VARCHAR FROM changes WHERE hash({names}) = {row} LIMIT 1"
        yield (
            f"{count:,} changes take back a row that is not there, first in what checkpoint {checkpoint} "
            f"published of subtask {subtask}: {connection.sql(rows).fetchall()[0][0]}"
        )
