"""Writers of epochs to Delta and Iceberg tables, each epoch once.

Delta's log has the last epoch of each lineage and sink; it skips repeats. Into Iceberg an epoch is staged as
a snapshot with the epoch's id: Iceberg refuses to publish a staged snapshot whose id the table's history has
already, and checks that in the commit itself, so of two drivers that write one epoch only one adds its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from headgate.common.errors import UsageError
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WAP_ID: Final = "spark.wap.id"
_WAP_ENABLED: Final = "write.wap.enabled"
_DUPLICATE: Final = "DuplicateWAPCommitException"


def delta(path: str | None = None, *, table: str | None = None) -> DeltaWriter:
    """Return a writer of epochs that appends each to a Delta table in one transaction with its number.

    The session needs Delta's package and its extension; see Delta's own guide.

    Args:
        path: path of the table; or
        table: its name in the catalog.

    Raises:
        UsageError: neither is given, or both.
    """
    if (path is None) == (table is None):
        raise UsageError(f"delta() got path={path!r} and table={table!r}; expected one of the two")
    return DeltaWriter(path, table)


class DeltaWriter(EpochWriter):
    """Writer that appends epochs to a Delta table, which skips repeated ones; made by :func:`delta`."""

    def __init__(self, path: str | None, table: str | None) -> None:
        self.path, self.table = path, table

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        # Delta skips a transaction whose number is not above the last one of its application.
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"headgate/{epoch.lineage}/{epoch.sink}")
        writer = writer.option("txnVersion", epoch.epoch)
        if self.path is not None:
            writer.save(self.path)
        else:
            assert self.table is not None
            writer.saveAsTable(self.table)

    @override
    def describe(self) -> str:
        return f"Delta {self.path or self.table}"


def iceberg(table: str) -> IcebergWriter:
    """Return a writer of epochs that are appended to an Iceberg table, which must exist.

    The session needs Iceberg's package for its version of Spark, its extension and a catalog. The writer
    turns on the table's property ``write.wap.enabled``.

    Args:
        table: name with its catalog: ``catalog.database.table``.

    Raises:
        UsageError: the name has no catalog.
    """
    if table.count(".") < 2:
        raise UsageError(f"iceberg() got {table!r}; expected catalog.database.table")
    return IcebergWriter(table)


class IcebergWriter(EpochWriter):
    """Writer that stages an epoch as an Iceberg snapshot and publishes it once; made by :func:`iceberg`."""

    # The id is a setting of the session, which the program's writes must not get.
    own_session: ClassVar[bool] = True

    def __init__(self, table: str) -> None:
        self.table = table

    @override
    def begin(self, spark: SparkSession, epoch: SparkEpoch) -> None:
        spark.sql(f"alter table {self.table} set tblproperties ('{_WAP_ENABLED}' = 'true')")

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        spark, ident = frame.sparkSession, f"headgate/{epoch.key}"
        spark.conf.set(_WAP_ID, ident)
        frame.writeTo(self.table).append()
        spark.conf.unset(_WAP_ID)
        catalog, _, name = self.table.partition(".")
        try:
            arguments = {"table": name, "wap_id": ident}
            publish = f"call {catalog}.system.publish_changes(table => :table, wap_id => :wap_id)"
            spark.sql(publish, arguments).collect()
        except Exception as error:
            if _DUPLICATE not in f"{error}":
                raise

    @override
    def describe(self) -> str:
        return f"Iceberg {self.table}"
