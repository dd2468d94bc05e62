"""What Nexmark's queries must give, by DuckDB from the same files, and whether a job's output is just that.

Rows are compared one by one, each as often as it has to be there. DuckDB does it, so that neither of the two
has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb
import pyarrow.parquet as pq

from headgate.nexmark import ANSWERS, Dataset
from proof.nexmark_changes import read_changes, taken_back_too_often

SHOWN_MAX: Final = 3
_MEMORY: Final = "4GB"
_THREADS: Final = 2


class Answers:
    """The answers of queries over one dataset, each computed once and kept as a file.

    Args:
        dataset: the events.
        folder: for the files; it exists.
    """

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        self._dataset, self._folder = dataset, folder

    def of(self, query: str) -> Path:
        """The file with a query's answer."""
        path = self._folder / f"{query}.parquet"
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            pq.write_table(ANSWERS[query][0](self._dataset), unfinished)
            unfinished.replace(path)
        return path


def rows_of(path: Path) -> int:
    """Rows of a Parquet file."""
    return int(pq.read_metadata(path).num_rows)


def differences(query: str, answer: Path, out: Path, scratch: Path, changes: bool = False) -> Iterator[str]:
    """How an output differs from the answer: how many rows are missing or too many, and some of them.

    Args:
        query: says which columns there are, and of what types.
        answer: its file.
        out: the folder that a sink of files wrote.
        scratch: folder for what does not fit into memory.
        changes: whether the files are changelogs, and not Parquet files of rows. Then what they add up to is
            compared, and no row may ever be taken back that is not there.
    """
    names = ", ".join(f'"{name}"' for name in ANSWERS[query][1].names)
    suffix = "jsonl" if changes else "parquet"
    published = [path for path in sorted(out.rglob(f"*.{suffix}")) if _published(path.relative_to(out))]
    with duckdb.connect(config={"memory_limit": _MEMORY, "threads": _THREADS}) as connection:
        connection.execute(f"SET temp_directory = '{scratch}'")
        connection.read_parquet([str(answer)]).create_view("expected")
        try:
            if published and changes:
                expected = connection.table("expected")
                read_changes(
                    connection, published, dict(zip(expected.columns, map(str, expected.types), strict=True))
                )
            elif published:
                rows = connection.read_parquet([str(path) for path in published])
                rows.project("*, 1 AS weight").create_view("found")
            yield from _apart(connection, names, bool(published))
            if published and changes:
                yield from taken_back_too_often(connection, names)
        except duckdb.Error as error:
            yield f"the output cannot be compared: {error}"


def _apart(connection: duckdb.DuckDBPyConnection, names: str, published: bool) -> Iterator[str]:
    sides = f"SELECT {names}, 1 AS side FROM expected"
    if published:
        sides += f" UNION ALL SELECT {names}, -weight FROM found"
    connection.execute(f"""
        CREATE TEMPORARY TABLE apart AS SELECT {names}, sum(side) AS lacking FROM ({sides})
        GROUP BY ALL HAVING sum(side) <> 0
    """)
    for what, sign in (("missing", 1), ("too many", -1)):
        apart = f"FROM apart WHERE lacking * {sign} > 0"
        count = connection.sql(f"SELECT coalesce(sum(abs(lacking)), 0)::BIGINT {apart}").fetchall()[0][0]
        if count:
            shown = connection.sql(f"SELECT ({names})::VARCHAR {apart} LIMIT {SHOWN_MAX}").fetchall()
            yield f"{count:,} rows {what}, such as {'; '.join(row[0] for row in shown)}"


def _published(path: Path) -> bool:
    return not any(part[0] in "._" for part in path.parts)
