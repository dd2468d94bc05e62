"""Writers for `stream.to_spark()`: all but the user's function make a repeated write of an epoch harmless.
Which epochs there are, and their rows, is decided before a writer is called.
"""

from headgate.connectors.dataframe.writers.jdbc import JdbcWriter, jdbc
from headgate.connectors.dataframe.writers.lakes import DeltaWriter, IcebergWriter, delta, iceberg
from headgate.connectors.dataframe.writers.parquet import ParquetWriter, parquet
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, FunctionWriter, SparkEpoch

__all__ = [
    "DeltaWriter", "EpochWriter", "FunctionWriter", "IcebergWriter", "JdbcWriter", "ParquetWriter",
    "SparkEpoch", "delta", "iceberg", "jdbc", "parquet",
]  # fmt: skip
