"""Spark Structured Streaming: the total of transfers between accounts, as each micro-batch gives it.

spark_transfers.py ORDER.json
"""

from __future__ import annotations

import sys

from orders import Order, carry_out, causes, report, versions
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from spark_query import session
from transfers_query import QUERY


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    files = order.tables["transfers"]
    schema = ", ".join(f"`{column}` {kind}" for column, kind in files.columns)
    transfers = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(files.folder)
    transfers.createOrReplaceTempView("transfers")
    answers: list[tuple[int, int]] = []

    def keep(rows: DataFrame, _batch: int) -> None:
        answers.extend((row.transfers, row.total) for row in rows.collect())

    writer = spark.sql(QUERY).writeStream.outputMode("update").foreachBatch(keep)
    writer = writer.option("checkpointLocation", f"{order.work}/checkpoints").trigger(availableNow=True)
    try:
        writer.start().awaitTermination()
        report(answers=answers, versions=versions("pyspark"))
    except AnalysisException as refusal:
        report(cannot=causes(str(refusal)).partition(";")[0])
    spark.stop()


if __name__ == "__main__":
    carry_out(main)
