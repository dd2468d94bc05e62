"""Changes in files and databases, once each, through crashes: PostgreSQL where it is installed, SQLite
always.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.updating import folded
from headgate.relational.changes import SIGNS

NUMBERS = count(12_300)
SCHEMA = pa.schema({"user": pa.string(), "price": pa.int64()})
ROWS = [{"user": f"u{n * n % 7}", "price": n % 5} for n in range(400)]


def sums(env: hg.Environment, number: int) -> Any:
    """A corrected table, some groups of which leave it again."""
    bids = env.from_source(Halting(number, 100, ROWS[::2], ROWS[1::2]), uid="in").to_table(SCHEMA)
    sums = bids.group_by("user").agg(F.count("*").alias("n"), F.sum("price").alias("total"), uid="sums")
    return sums.filter(F.col("total") % 3 != 0)


def wanted() -> Counter[Any]:
    counts, totals = Counter[str](), Counter[str]()
    for row in ROWS:
        counts[row["user"]] += 1
        totals[row["user"]] += row["price"]
    return Counter((user, n, totals[user]) for user, n in counts.items() if totals[user] % 3)


def crashing(folder: Path) -> hg.Environment:
    env = environment(2, {**TINY, **RESTART_AT_ONCE, "execution.mark-interval": "2ms"})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    return env


@pytest.mark.parametrize("style", ["signs", "debezium"])
def test_files_have_each_change_once(tmp_path: Path, style: str) -> None:
    """Also after a crash; folded, they are the answer."""
    env = crashing(tmp_path)
    sums(env, next(NUMBERS)).write_changelog(tmp_path / "out", uid="out", style=style)
    assert env.execute("changes").restarts > 0
    lines = json_lines(tmp_path / "out")
    if style == "signs":
        changes = [{**line, "__change": SIGNS.index(line["op"])} for line in lines]
    else:
        sides = [(side, sign, line) for line in lines for side, sign in (("before", 3), ("after", 0))]
        changes = [{**line[side], "__change": sign} for side, sign, line in sides if line[side] is not None]
        assert {line["op"] for line in lines} <= {"c", "u", "d"}
    for change in changes:
        change.pop("op", None)
    assert len(changes) > len(wanted())
    assert Counter((row["user"], row["n"], row["total"]) for row in folded(changes)) == wanted()


SETS: dict[str, Callable[[Any, Any], Any]] = {
    "distinct": lambda a, b: a.distinct(uid="s"),
    "first": lambda a, b: a.drop_duplicates(["user", "price"], uid="s"),
    "intersect_all": lambda a, b: a.intersect_all(b, uid="s"),
    "except_all": lambda a, b: a.except_all(b, uid="s"),
}


@pytest.mark.parametrize("operation", SETS)
def test_sets_of_rows_go_on_after_a_crash(tmp_path: Path, operation: str) -> None:
    """Each row that is left, as often as it is left; both tables are read anew from a checkpoint."""
    env = crashing(tmp_path)
    lists = ROWS, [row for number, row in enumerate(ROWS) if number % 3 == 0]
    tables = [
        env.from_source(
            Halting(next(NUMBERS), 50 if uid == "a" else 10**9, rows[::2], rows[1::2]), uid=uid
        ).to_table(SCHEMA)
        for uid, rows in zip("ab", lists, strict=True)
    ]
    if operation in ("distinct", "first"):
        tables[1].write_json(tmp_path / "unused", uid="unused")
    SETS[operation](*tables).write_changelog(tmp_path / "out", uid="out")
    assert env.execute("sets").restarts > 0
    left, right = (Counter((row["user"], row["price"]) for row in rows) for rows in lists)
    changes = [{"__change": SIGNS.index(row.pop("op")), **row} for row in json_lines(tmp_path / "out")]
    answers = {"intersect_all": left & right, "except_all": left - right}
    found = Counter((row["user"], row["price"]) for row in folded(changes))
    assert found == answers.get(operation, Counter(left.keys()))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of its own, and how to connect to it. Its folder is none of pytest's: any other run of pytest
    closes these to other users, also while the server runs.
    """
    found = shutil.which("postgres")
    if found is None:
        pytest.skip("PostgreSQL's programs are not on the PATH")
    programs = Path(found).resolve().parent
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        data = Path(folder)
        who: dict[str, Any] = {}
        if os.getuid() == 0:  # the server refuses to be run by root
            shutil.chown(data, "nobody")
            who = {"user": "nobody"}
        run = partial(subprocess.run, check=True, cwd=data, capture_output=True, **who)
        run([programs / "initdb", "-D", data / "base", "-U", "me", "-A", "trust", "-N"])
        options = f"-k {data} -c listen_addresses='' -c fsync=off"
        run([programs / "pg_ctl", "-D", data / "base", "-w", "-l", data / "log", "-o", options, "start"])
        yield f"host={data} user=me dbname=postgres"
        run([programs / "pg_ctl", "-D", data / "base", "-m", "immediate", "stop"])


def connector(kind: str, folder: Path, request: pytest.FixtureRequest) -> Callable[[], Any]:
    if kind == "sqlite":
        return partial(sqlite3.connect, str(folder / "base.db"), timeout=60)
    import psycopg

    return partial(psycopg.connect, request.getfixturevalue("postgres"))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_has_the_rows_of_the_table(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """After a crash, too; rows that left the table are not there, and nothing is left staged."""
    if kind == "postgres":
        request.getfixturevalue("postgres")
    connect = connector(kind, tmp_path, request)
    with closing(connect()) as base:
        base.cursor().execute('CREATE TABLE sums ("user" VARCHAR(9) PRIMARY KEY, n INTEGER, total BIGINT)')
        base.commit()
    env = crashing(tmp_path)
    sums(env, next(NUMBERS)).write_database(connect, "sums", "user", uid="out")
    assert env.execute("sums").restarts > 0
    with closing(connect()) as base:
        cursor = base.cursor()
        cursor.execute('SELECT "user", n, total FROM sums')
        assert Counter(tuple(row) for row in cursor.fetchall()) == wanted()
        cursor.execute("SELECT count(*) FROM sums_headgate_staging")
        assert cursor.fetchone()[0] == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("", ("cannot make wrong_headgate_staging beside database table wrong", "needs the table to exist")),
        (
            'CREATE TABLE wrong ("user" VARCHAR(9) PRIMARY KEY)',
            ("database table wrong has no column 'n'; it has user: add the column",),
        ),
    ],
    ids=["no table", "no such column"],
)
def test_a_table_that_does_not_fit_is_told_in_a_sentence(
    tmp_path: Path, made: str, words: tuple[str, ...], kind: str, request: pytest.FixtureRequest
) -> None:
    """With what the database said, and what is needed."""
    connect = connector(kind, tmp_path, request)
    with closing(connect()) as base:
        base.cursor().execute("DROP TABLE IF EXISTS wrong")
        base.cursor().execute("DROP TABLE IF EXISTS wrong_headgate_staging")
        if made:
            base.cursor().execute(made)
        base.commit()
    env = environment(1)
    counts = env.from_collection(ROWS).to_table(SCHEMA).group_by("user").agg(F.count("*").alias("n"), uid="n")
    counts.write_database(connect, "wrong", "user", uid="out")
    with pytest.raises(hg.HeadgateError) as raised:
        env.execute("wrong")
    assert all(part in str(raised.value) for part in words)
    assert "LINE 1" not in str(raised.value)
    assert "InternalError" not in str(raised.value)


@pytest.mark.parametrize(
    "verb", ["to_stream", "write_json", "write_parquet", "take", "preview", "to_dataframe"]
)
def test_other_ways_out_are_refused_with_those_that_there_are(tmp_path: Path, verb: str) -> None:
    """A correction would be taken for a row."""
    env = environment(1)
    table = env.from_collection(ROWS).to_table(SCHEMA).group_by("user").count(uid="n")
    given: dict[str, Any] = {"write_json": tmp_path, "write_parquet": tmp_path, "take": 1, "preview": 1}
    arguments = [given[verb]] if verb in given else []
    with pytest.raises(
        hg.PlanError, match=rf"^{verb}\(\).*corrected.*write_changelog\(\).*write_database\(\)"
    ):
        getattr(table, verb)(*arguments)
    with pytest.raises(hg.PlanError, match="corrected"):
        table.group_by(F.window("n", "1s"))
    for call in (table.as_rows, table.map_batches):
        with pytest.raises(hg.PlanError, match="corrected"):
            call(lambda rows: rows, "user string")
