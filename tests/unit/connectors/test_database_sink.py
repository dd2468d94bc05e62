"""The database sink against its contract, and what is left of many changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.api.sink import SinkWriter, SinkWriterContext
from headgate.connectors.database.net_changes import NetChanges
from headgate.connectors.database.sink import DatabaseSink, database_sink
from headgate.relational.changes import CHANGE
from headgate.testing.suites import SinkSuite


class _Numbers(DatabaseSink):
    """Takes integers as rows that come."""

    def create_writer(self, context: Any, restored: Sequence[Any]) -> SinkWriter[Any, Any]:
        writer = super().create_writer(context, restored)
        write = writer.write
        writer.write = lambda records: write([{"n": n, CHANGE: 0} for n in records])  # type: ignore[method-assign]
        return writer


class TestDatabase(SinkSuite):
    """SQLite through the DB-API."""

    def new_sink(self, folder: Path) -> _Numbers:
        path = str(folder / "base.db")
        with closing(sqlite3.connect(path)) as base:
            base.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY)")
            base.commit()
        made = database_sink(partial(sqlite3.connect, path), "numbers", "n")
        return _Numbers(made.connect, made.target)

    def read(self, sink: Any, folder: Path) -> list[int]:
        with closing(sqlite3.connect(folder / "base.db")) as base:
            return [n for (n,) in base.execute("SELECT n FROM numbers ORDER BY n")]


def changes(*rows: tuple[int, Any, str]) -> pa.RecordBatch:
    signs = ["+I", "-U", "+U", "-D"]
    table = [{"k": k, "v": v, CHANGE: signs.index(sign)} for k, v, sign in rows]
    return pa.RecordBatch.from_pylist(
        table, pa.schema({"k": pa.int64(), "v": pa.float64(), CHANGE: pa.int8()})
    )


def test_of_each_key_what_is_there_at_the_end_is_left() -> None:
    """Also where its old row goes after its new one came; a row that came and went leaves nothing."""
    net = NetChanges(("k",))
    net.add(changes((1, 1.0, "+I"), (2, 1.0, "-D"), (3, 1.0, "+I"), (4, 2.0, "+I")))
    net.add(changes((1, 1.0, "-U"), (1, float("nan"), "+U"), (3, 1.0, "-D"), (4, 1.0, "-D")))
    names, rows = net.taken()
    assert names == ["k", "v"]
    assert sorted((op, row[0]) for op, row in rows) == [(0, 2), (1, 1), (1, 4)]
    assert net.taken() == ([], [])


def test_keys_that_do_not_tell_rows_apart_are_refused() -> None:
    """The table of the database would lose rows."""
    net = NetChanges(("k",))
    net.add(changes((1, 1.0, "+I"), (1, 2.0, "+I")))
    with pytest.raises(hg.UsageError, match="two rows have the key"):
        net.taken()
    with pytest.raises(hg.UsageError, match="no column 'z'"):
        NetChanges(("z",)).add(changes((1, 1.0, "+I")))


def test_a_row_may_move_from_one_subtask_to_another(tmp_path: Path) -> None:
    """It goes in one and comes in the other, in any order, and is there in the end."""
    connect = partial(sqlite3.connect, str(tmp_path / "base.db"))
    with closing(connect()) as base:
        base.execute("CREATE TABLE rows (k INTEGER PRIMARY KEY, v REAL)")
        base.execute("INSERT INTO rows VALUES (1, 1.0), (2, 1.0)")
        base.commit()
    sink = database_sink(connect, "rows", "k")
    writers = [sink.create_writer(SinkWriterContext("out", n, 2, 1, "job"), []) for n in range(2)]
    writers[0].write(changes((1, 2.0, "+I"), (2, 1.0, "-D")))
    writers[1].write(changes((1, 1.0, "-D"), (2, 2.0, "+I")))
    staged = [each for writer in writers for each in writer.prepare_commit_at(7)]
    sink.create_committer().commit(staged)
    with closing(connect()) as base:
        assert base.execute("SELECT k, v FROM rows ORDER BY k").fetchall() == [(1, 2.0), (2, 2.0)]
