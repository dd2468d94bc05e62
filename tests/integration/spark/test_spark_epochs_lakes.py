"""Epochs in tables of Delta and Iceberg, where their packages for this version of Spark are given.

`HEADGATE_DELTA_JARS` and `HEADGATE_ICEBERG_JARS` name the jars, with commas between.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.ci]

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from headgate.connectors.dataframe.writers import SparkEpoch, delta, iceberg
jars, lake, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars", jars)
builder = builder.config("spark.driver.host", "127.0.0.1")
if lake == "delta":
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
else:
    extension = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    builder = builder.config("spark.sql.extensions", extension)
    builder = builder.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    builder = builder.config("spark.sql.catalog.lake.type", "hadoop")
    builder = builder.config("spark.sql.catalog.lake.warehouse", folder)
spark = builder.getOrCreate()
if lake == "iceberg":
    spark.sql("create table lake.db.t (id bigint) using iceberg")
writer = delta(folder + "/t") if lake == "delta" else iceberg("lake.db.t")
for number, token in ((4, "a"), (4, "b"), (7, "c"), (4, "d")):
    epoch = SparkEpoch("line", "out", number, "line", 1, number, token)
    writer.begin(spark, epoch)
    writer.write(spark.range(number), epoch)
table = spark.read.format("delta").load(folder + "/t") if lake == "delta" else spark.table("lake.db.t")
print(json.dumps(sorted(row.id for row in table.collect())))
"""


@pytest.mark.parametrize("lake", ["delta", "iceberg"])
def test_a_repeated_epoch_is_there_once(lake: str, tmp_path: Path) -> None:
    """Whatever else was written since."""
    variable = f"HEADGATE_{lake.upper()}_JARS"
    if variable not in os.environ:
        pytest.skip(f"{lake} needs a release for this version of Spark; give its jars in {variable}")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, os.environ[variable], lake, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == sorted([*range(4), *range(7)])
