"""Where tables whose rows are corrected can go: files of changes, and tables of databases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Literal

from headgate.api.checking.arguments import path_uid
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import StreamSink, add_sink
from headgate.api.tables.checked_columns import place_of
from headgate.api.tables.lowering import as_changes, lowered
from headgate.common.errors import PlanError, UsageError
from headgate.common.registry import Kind, load
from headgate.relational.relations import Relation


class WaysOut:
    """Base class of tables: sinks that take changes. A table that only grows goes there as well."""

    _environment: ProgramContext
    _relation: Relation

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the columns, in order."""

    def write_changelog(
        self,
        path: str | PathLike[str],
        uid: str | None = None,
        style: Literal["signs", "debezium"] = "signs",
        **options: Any,
    ) -> StreamSink:
        """Write the changes of this table as JSON lines into a directory, exactly once with checkpoints. What
        is visible there are changes of whole marks.

        Args:
            path: the directory.
            uid: names the sink's state; made from the path when omitted.
            style: "signs": each line has the columns of the row, and ``op``: "+I" it comes, "-U" and "+U" old
                and new values, "-D" it goes. "debezium": ``op`` is "c", "u" or "d", and ``before`` and
                ``after`` are the row.
            options: `roll_bytes` and `if_exists`, as for ``DataStream.write_json``.

        Raises:
            PlanError: a column is called ``op``.
            UsageError: wrong options.

        Example:
            >>> import pathlib, tempfile
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"k": "a"}, {"k": "a"}]).to_table(pa.schema({"k": pa.string()}))
            >>> out = pathlib.Path(tempfile.mkdtemp())
            >>> sink = rows.group_by("k").count(uid="counts").write_changelog(out)
            >>> result = env.execute("counts")
            >>> [path.read_text().strip() for path in out.glob("part-*.jsonl")]
            ['{"op":"+I","k":"a","count":2}']
        """
        if style == "signs" and "op" in self.columns:
            raise PlanError(
                f"write_changelog() ({user_site()}): the table has a column 'op', which each line has "
                'already; rename it, or write style="debezium"'
            )
        where = fspath(path)
        try:
            sink = load(Kind.CONNECTOR, "changelog_sink")(where, style=style, **options)
        except UsageError as error:
            raise UsageError(f"write_changelog() ({user_site()}): {error}") from None
        return self._to_changes_sink(sink, uid or path_uid("write_changelog", where), "write_changelog")

    def write_database(
        self, connect: Callable[[], Any], table: str, key: str | Sequence[str], uid: str | None = None
    ) -> StreamSink:
        """Keep a table of a database as this table is, exactly once with checkpoints: rows are put and
        deleted by key. At each checkpoint all that changed becomes visible in one transaction.

        Beside the table stand two others of the sink, ``<table>_headgate_staging`` and
        ``<table>_headgate_holds``.

        Args:
            connect: opens a connection of a DB-API driver, in workers and in the driver, as
                ``lambda: psycopg.connect("dbname=shop")``. PostgreSQL and SQLite are tested.
            table: name of the table, as statements write it. It exists, has this table's columns, and a
                unique index on `key`.
            key: names of the columns that tell rows apart; they are never null.
            uid: names the sink's state; made from the table's name when omitted.

        Raises:
            PlanError: there is no such column.
            UsageError: there is no key, or no table.

        Example:
            >>> import pathlib, sqlite3, tempfile
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> shop = str(pathlib.Path(tempfile.mkdtemp()) / "shop.db")
            >>> base = sqlite3.connect(shop)
            >>> created = base.execute("CREATE TABLE counts (k TEXT PRIMARY KEY, count INTEGER)")
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"k": "a"}, {"k": "a"}]).to_table(pa.schema({"k": pa.string()}))
            >>> counts = rows.group_by("k").count(uid="n")
            >>> sink = counts.write_database(lambda: sqlite3.connect(shop), "counts", "k")
            >>> result = env.execute("counts")
            >>> base.execute("SELECT * FROM counts").fetchall()
            [('a', 2)]
        """
        names = [key] if isinstance(key, str) else list(key)
        known = [
            self._relation.schema.names[place_of(self._relation, "write_database", name)] for name in names
        ]
        try:
            sink = load(Kind.CONNECTOR, "database_sink")(connect, table, known)
        except UsageError as error:
            raise UsageError(f"write_database() ({user_site()}): {error}") from None
        return self._to_changes_sink(sink, uid or path_uid("write_database", table), "write_database")

    def _to_changes_sink(self, sink: Any, uid: str, name: str) -> StreamSink:
        number = lowered(self._environment, as_changes(self._relation))
        return add_sink(self._environment, number, sink, uid, name)
