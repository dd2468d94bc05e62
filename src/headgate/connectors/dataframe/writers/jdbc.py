"""Epochs into a database table over JDBC: staged in a table, then moved and recorded in one transaction.

The record's key is lineage, sink and epoch, so of two transactions about one epoch the second fails and moves
nothing. The database must be transactional; it is tested with PostgreSQL.

Spark's tasks fill the staging table, each in a transaction of its own. A task that is run again after it has
committed (its executor was lost, or it was speculative) adds its rows twice, so they are counted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from headgate.common.errors import OperatingError, UsageError
from headgate.common.files.durable import crc32
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

EPOCHS: Final = "headgate_epochs"  # the table of written epochs, in the schema of the output

_NAME: Final = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Za-z_][A-Za-z0-9_]*")


def jdbc(url: str, table: str, properties: Mapping[str, str] | None = None) -> JdbcWriter:
    """Return a writer of epochs that are appended to a table of a database.

    The table is made with the first epoch where it does not exist. Next to it, in its schema, are the table
    ``headgate_epochs`` with a row for each epoch, and tables ``headgate_stage_...`` while epochs are written.

    Args:
        url: a JDBC URL, such as ``jdbc:postgresql://host/database``; the session needs the driver's jar.
        table: its name, ``schema.table`` if it has a schema; of letters, digits and _, without quotes.
        properties: connection properties, such as ``user``, ``password`` and ``driver`` (its class).

    Raises:
        UsageError: the URL is none of JDBC, or the table's name has other characters.
    """
    if not url.startswith("jdbc:"):
        raise UsageError("jdbc() got a URL that does not begin with 'jdbc:'; expected jdbc:<kind>:...")
    if not _NAME.fullmatch(table):
        raise UsageError(f"jdbc() got table={table!r}; expected letters, digits and _, or schema.table")
    return JdbcWriter(url, table, dict(properties or {}))


class JdbcWriter(EpochWriter):
    """Writer that appends epochs to a database table, each in one transaction; made by :func:`jdbc`."""

    def __init__(self, url: str, table: str, properties: dict[str, str]) -> None:
        self.url, self.table, self.properties = url, table, properties
        self._schema = f"{schema}." if (schema := table.rpartition(".")[0]) else ""
        self._epochs = self._schema + EPOCHS

    @override
    def begin(self, spark: SparkSession, epoch: SparkEpoch) -> None:
        with self._connection(spark) as connection:
            _run(
                connection,
                f"create table if not exists {self._epochs} (lineage varchar(250) not null, "
                "sink varchar(250) not null, epoch bigint not null, job varchar(250) not null, "
                "primary key (lineage, sink, epoch))",
            )
            connection.commit()
            for table in self._stale(connection, epoch):
                _run(connection, f"drop table if exists {self._schema}{table}")
            connection.commit()

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        spark, stage = frame.sparkSession, self._schema + staging_table(epoch)
        with self._connection(spark) as connection:
            if self._is_written(connection, epoch):
                return
        self._fill(frame, stage)
        rows = frame.count()  # of the columns nothing is read: Parquet's footers say it
        names = ", ".join(self._quoted(spark, name) for name in frame.columns)
        with self._connection(spark) as connection:
            try:
                # Some databases commit with every change of a table, so these are apart from the move.
                empty = f"select * from {stage} where 1 = 0"  # noqa: S608
                _run(connection, f"create table if not exists {self.table} as {empty}")
                connection.commit()
                self._move(connection, epoch, stage, names, rows)
            finally:
                with contextlib.suppress(Exception):
                    connection.rollback()
                    _run(connection, f"drop table if exists {stage}")
                    connection.commit()

    @override
    def describe(self) -> str:
        return f"JDBC {self.table}"

    def _fill(self, frame: DataFrame, stage: str) -> None:
        frame.write.mode("overwrite").jdbc(self.url, stage, properties=self.properties)

    def _move(self, connection: JavaObject, epoch: SparkEpoch, stage: str, names: str, rows: int) -> None:
        # The rows and the record of the epoch are one transaction.
        try:
            self._note(connection, epoch)
        except Exception:
            connection.rollback()
            if self._is_written(connection, epoch):
                return
            raise
        _run(connection, f"insert into {self.table} ({names}) select {names} from {stage}")  # noqa: S608
        # Counted after the move: a task that still runs may have added to the table until then.
        self._require_each_once(connection, epoch, stage, rows)
        connection.commit()

    def _require_each_once(self, connection: JavaObject, epoch: SparkEpoch, stage: str, rows: int) -> None:
        found = _counted(connection, stage)
        if found != rows:
            raise OperatingError(
                f"staging table {stage} of epoch {epoch.epoch}, sink {epoch.sink!r}, holds {found} rows; "
                f"expected {rows}: it seems that Spark ran a task again that had committed its rows; nothing "
                "was published and the epoch is written again from an empty table; where that happens often, "
                "set spark.speculation to false"
            )

    def _note(self, connection: JavaObject, epoch: SparkEpoch) -> None:
        # It waits for a transaction with the same record, and raises if that one committed.
        insert = f"insert into {self._epochs} (lineage, sink, epoch, job) values (?, ?, ?, ?)"  # noqa: S608
        with _prepared(connection, insert, epoch) as statement:
            statement.setString(4, epoch.job)
            statement.executeUpdate()

    def _is_written(self, connection: JavaObject, epoch: SparkEpoch) -> bool:
        select = f"select 1 from {self._epochs} where lineage = ? and sink = ? and epoch = ?"  # noqa: S608
        with _prepared(connection, select, epoch) as statement:
            return bool(statement.executeQuery().next())

    def _stale(self, connection: JavaObject, epoch: SparkEpoch) -> list[str]:
        # What this driver, or earlier drivers and jobs, have left.
        schema, prefix = self._schema.rstrip(".") or None, _prefix(epoch)
        rows = connection.getMetaData().getTables(None, schema, f"{prefix}%", None)
        found = []
        while rows.next():
            name = str(rows.getString("TABLE_NAME"))
            if name.lower().startswith(prefix):
                number, generation = map(int, name.split("_")[3:5])
                if number < epoch.epoch or generation <= epoch.generation:
                    found.append(name)
        rows.close()
        return found

    def _quoted(self, spark: SparkSession, name: str) -> str:
        jvm = spark._jvm
        assert jvm is not None, "a session of this process has a JVM"
        dialects = jvm.org.apache.spark.sql.jdbc.JdbcDialects
        return str(dialects.get(self.url).quoteIdentifier(name))

    @contextmanager
    def _connection(self, spark: SparkSession) -> Iterator[JavaObject]:
        jvm = spark._jvm
        assert jvm is not None, "a session of this process has a JVM"
        wanted = jvm.java.util.Properties()
        for key, value in self.properties.items():
            wanted.setProperty(key, value)
        if driver := self.properties.get("driver"):
            # Drivers in jars of the session are not found by JDBC's own search.
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(driver)
        connection = jvm.java.sql.DriverManager.getConnection(self.url, wanted)
        try:
            connection.setAutoCommit(False)
            yield connection
        finally:
            connection.close()


@contextmanager
def _prepared(connection: JavaObject, text: str, epoch: SparkEpoch) -> Iterator[JavaObject]:
    # The first three parameters are the epoch's lineage, sink and number.
    with contextlib.closing(connection.prepareStatement(text)) as statement:
        statement.setString(1, epoch.lineage)
        statement.setString(2, epoch.sink)
        statement.setLong(3, epoch.epoch)
        yield statement


def _prefix(epoch: SparkEpoch) -> str:
    return f"headgate_stage_{crc32(f'{epoch.lineage}/{epoch.sink}'.encode()):08x}_"


def staging_table(epoch: SparkEpoch) -> str:
    """Return the name of the staging table for one try to write an epoch.

    Example:
        >>> staging_table(SparkEpoch("a", "out", 7, "a", 2, 7, "3f"))
        'headgate_stage_dc8aa203_7_2_3f'
    """
    return f"{_prefix(epoch)}{epoch.epoch}_{epoch.generation}_{epoch.token}"


def _run(connection: JavaObject, text: str) -> None:
    with contextlib.closing(connection.createStatement()) as statement:
        statement.execute(text)


def _counted(connection: JavaObject, table: str) -> int:
    with contextlib.closing(connection.createStatement()) as statement:
        rows = statement.executeQuery(f"select count(*) from {table}")  # noqa: S608
        rows.next()
        return int(rows.getLong(1))
