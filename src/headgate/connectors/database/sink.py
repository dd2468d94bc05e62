"""The database sink: writers stage what changes, and the driver puts it into the table in one transaction.

Staged rows are removed in the transaction that applies them. So a commit that is repeated finds none, and the
rows of all subtasks of a checkpoint become visible together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from typing_extensions import override

from headgate.api.sink import (
    Fork,
    Sink,
    SinkCommitter,
    SinkCommitterContext,
    SinkWriter,
    SinkWriterContext,
)
from headgate.common.errors import HeadgateError, OperatingError, UsageError
from headgate.connectors.database.net_changes import NetChanges
from headgate.connectors.database.statements import Target, place_of

if TYPE_CHECKING:
    import pyarrow as pa

Connect: TypeAlias = Callable[[], Any]
"""Opens a connection of a DB-API driver."""


class Staged(TypedDict):
    """Rows that a writer has staged: their token, their columns, and the checkpoint that they are of."""

    token: str
    names: list[str]
    checkpoint: int


def database_sink(connect: Connect, table: str, key: str | Sequence[str]) -> DatabaseSink:
    """Return a sink that keeps a table of a database as the job's table is, exactly once.

    Args:
        connect: opens a connection of a DB-API driver, such as ``lambda: psycopg.connect("dbname=shop")``; it
            is called in workers and in the driver. The database knows ``INSERT ... ON CONFLICT``: PostgreSQL,
            SQLite.
        table: name of the table, as statements write it. It exists, has the columns, and a unique index on
            `key`.
        key: names of the columns that tell its rows apart, never null.

    Raises:
        UsageError: there is no key, or the table is none.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or not table:
        raise UsageError(f"the database sink got table={table!r} and key={key!r}; name the table and its key")
    return DatabaseSink(connect, Target(table, keys))


class DatabaseSink(Sink[Any, Staged]):
    """Keeps a table of a database; made by :func:`database_sink`."""

    accepts_columns = True

    def __init__(self, connect: Connect, target: Target) -> None:
        self.connect, self.target = connect, target

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Any]) -> DatabaseWriter:
        return DatabaseWriter(self, context)

    @override
    def create_committer(self) -> DatabaseCommitter:
        return DatabaseCommitter(self)

    @override
    def describe(self) -> str:
        return f"database table {self.target.table}"


class DatabaseWriter(SinkWriter[Any, Staged]):
    """Gathers what changes in one subtask, and stages at each checkpoint what is left of it."""

    accepts_columns = True

    def __init__(self, sink: DatabaseSink, context: SinkWriterContext) -> None:
        self._sink, self._context = sink, context
        self._changes = NetChanges(sink.target.keys)
        self._staged = 0

    @override
    def write(self, records: list[Any] | pa.RecordBatch) -> None:
        self._changes.add(records)

    @override
    def prepare_commit(self) -> list[Staged]:
        return self.prepare_commit_at(0)

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[Staged]:
        names, rows = self._changes.taken()
        if not rows:
            return []
        where = self._context
        numbers = where.generation, where.attempt, where.subtask, self._staged + 1
        token = "/".join([where.job, where.uid, *map(str, numbers)])
        with _Connected(self._sink) as connection:
            if not self._staged:
                _check_columns(connection, self._sink.target, names)
            _stage(connection, self._sink.target, names, [(*row, token, op) for op, row in rows])
            connection.commit()
        self._staged += 1
        return [Staged(token=token, names=names, checkpoint=checkpoint)]


def _prepare(connection: Any, target: Target) -> None:
    try:
        for statement in target.creation():
            connection.cursor().execute(statement)
        connection.commit()
    except Exception as error:  # drivers' errors have no base; another subtask may have been faster
        connection.rollback()
        try:
            connection.cursor().execute(f"SELECT 1 FROM {target.staging}, {target.holds} WHERE 1 = 0")  # noqa: S608
        except Exception:
            raise OperatingError(
                f"cannot make {target.staging} beside database table {target.table}: {_said(error)}; the "
                "sink needs the table to exist, and the right to create others beside it"
            ) from error
        connection.commit()


def _check_columns(connection: Any, target: Target, names: Sequence[str]) -> None:
    for table in (target.table, target.staging):
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {table} WHERE 1 = 0")  # noqa: S608  # the program's own name
        has = [column[0] for column in cursor.description]
        known = {name.lower() for name in has}  # some databases take names in any case; others refuse later
        if missing := [name for name in names if name.lower() not in known]:
            other = "" if table == target.table else f", unlike {target.table}, for which it was made before"
            raise UsageError(
                f"database table {table} has no column {missing[0]!r}{other}; it has {', '.join(has)}: add "
                "the column, or rename the job's"
            )


def _said(error: Exception) -> str:
    # The lines after the first one show where in the sink's own statement it is.
    return next(iter(str(error).splitlines()), type(error).__name__)


def _stage(connection: Any, target: Target, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    cursor = connection.cursor()
    if not hasattr(cursor, "copy"):
        cursor.executemany(target.staged(names, place_of(connection)), rows)
        return
    with cursor.copy(target.copied(names)) as copy:  # psycopg's, which is many times as fast
        for row in rows:
            copy.write_row(row)


class DatabaseCommitter(SinkCommitter[Staged]):
    """Applies staged rows to the table; lives in the driver."""

    def __init__(self, sink: DatabaseSink) -> None:
        self._sink, self._target = sink, sink.target
        self._prefix = ""

    @override
    def begin(self, context: SinkCommitterContext) -> None:
        self._prefix = f"{context.job}/{context.uid}/"

    @override
    def commit(self, committables: Sequence[Staged]) -> None:
        if not committables:
            return
        with self._connected() as connection:
            place, cursor = place_of(connection), connection.cursor()
            for _, same in groupby(committables, lambda each: each["checkpoint"]):
                _apply(cursor, self._target, list(same), place)
            connection.commit()

    @override
    def hold(self, committables: Sequence[Staged], savepoint: Fork) -> None:
        self._held(committables, savepoint, "INSERT INTO {} (token, savepoint) VALUES ({p}, {p})")

    @override
    def release(self, committables: Sequence[Staged], savepoint: Fork) -> None:
        self._held(committables, savepoint, "DELETE FROM {} WHERE token = {p} AND savepoint = {p}")

    def _held(self, committables: Sequence[Staged], savepoint: Fork, statement: str) -> None:
        with self._connected() as connection:
            place = place_of(connection)
            text = statement.format(self._target.holds, p=place)
            for each in committables:
                connection.cursor().execute(text, (each["token"], str(savepoint)))
            connection.commit()

    @override
    def abandon(self, committed_through: Sequence[Staged]) -> None:
        kept = {each["token"] for each in committed_through}
        with self._connected() as connection:
            place, cursor = place_of(connection), connection.cursor()
            cursor.execute(self._target.leftovers(place), (f"{self._prefix}%",))
            for (token,) in cursor.fetchall():
                if token not in kept:
                    cursor.execute(self._target.removal(1, place), (token,))
            connection.commit()

    def _connected(self) -> _Connected:
        return _Connected(self._sink)


def _apply(cursor: Any, target: Target, staged: list[Staged], place: str) -> None:
    # A row that moves from one subtask to another goes there and comes here: all deletions are first.
    tokens = [each["token"] for each in staged]
    cursor.execute(target.deletion(len(tokens), place), tokens)
    cursor.execute(target.upsert(staged[0]["names"], len(tokens), place), tokens)
    cursor.execute(target.removal(len(tokens), place), tokens)


class _Connected:
    """A connection with the sink's own tables; errors of the database restart the job."""

    def __init__(self, sink: DatabaseSink) -> None:
        self._sink = sink

    def __enter__(self) -> Any:
        try:
            self._connection = self._sink.connect()
        except Exception as error:
            raise OperatingError(
                f"cannot connect to the database of {self._sink.describe()}: {_said(error)}"
            ) from error
        try:
            _prepare(self._connection, self._sink.target)
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._connection.close()
        if isinstance(error, Exception) and not isinstance(error, HeadgateError):
            raise OperatingError(f"cannot write to {self._sink.describe()}: {_said(error)}") from error
