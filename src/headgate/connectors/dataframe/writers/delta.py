"""Epochs into a Delta table: its log remembers the last one of each line, and passes over repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.common.errors import UsageError
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def delta(path: str | None = None, *, table: str | None = None) -> DeltaWriter:
    """Epochs appended to a Delta table, each in one transaction that carries its number.

    The session needs Delta's package and its extension; see Delta's own guide.

    Args:
        path: of the table; or
        table: its name in the catalog.

    Raises:
        UsageError: neither is given, or both.
    """
    if (path is None) == (table is None):
        raise UsageError(f"delta() got path={path!r} and table={table!r}; expected one of the two")
    return DeltaWriter(path, table)


class DeltaWriter(EpochWriter):
    """See :func:`delta`."""

    def __init__(self, path: str | None, table: str | None) -> None:
        self.path, self.table = path, table

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        # Delta passes over a transaction whose number is not above the last one of its application.
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
