"""Stages rows while Spark runs one of the feeding tasks twice at once; says whose files were kept.

python speculated_feeding.py <scratch folder> <master>
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.connectors.dataframe.staged_files import read, stage

ROWS = 100
folder, master = Path(sys.argv[1]), sys.argv[2]
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "200ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    "spark.ui.enabled": "false",
}


def slow_at_first(batches: Iterator[Any]) -> Iterator[Any]:
    """The first try of the first task stands still behind its first batch."""
    from pyspark import TaskContext

    task = TaskContext.get()
    for number, batch in enumerate(batches):
        if number and task is not None and (task.partitionId(), task.attemptNumber()) == (0, 0):
            (folder / "stands-still").touch()
            time.sleep(600)
        yield batch


builder = SparkSession.builder.master(master).appName("speculated")
for key, value in SETTINGS.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
# Rows so long that none waits in a buffer between Spark's processes.
wide = spark.range(0, ROWS, 1, 4).selectExpr("id", "repeat('x', 20000) as x")
files = stage(
    wide.mapInArrow(slow_at_first, "id long, x string"), str(folder / "staged"), max_rows_per_file=10
)
found = [
    n for f in files for batch in read(str(folder / "staged"), f) for n in batch.column("id").to_pylist()
]
print(f"rows {found == list(range(ROWS))}", flush=True)
print(f"attempts of task 0: {sorted({file.attempt for file in files if file.partition == 0})}", flush=True)
print(f"one stood still: {(folder / 'stands-still').exists()}", flush=True)
spark.stop()
