"""Epochs into an Iceberg table: staged as a snapshot with the epoch's id, of which the table publishes one.

Iceberg refuses to publish a staged snapshot whose id is in the table's history already, and checks that
in the commit itself; so of two drivers that are about one epoch only one adds its rows.
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


def iceberg(table: str) -> IcebergWriter:
    """Epochs appended to an Iceberg table, which must exist.

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
    """See :func:`iceberg`."""

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
            spark.sql(
                f"call {catalog}.system.publish_changes(table => :table, wap_id => :wap_id)",
                arguments,
            ).collect()
        except Exception as error:
            if _DUPLICATE not in f"{error}":
                raise

    @override
    def describe(self) -> str:
        return f"Iceberg {self.table}"
