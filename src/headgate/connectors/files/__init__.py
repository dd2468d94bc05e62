"""File sources and sinks: JSON lines, CSV and Parquet; plain, gzip and zstd.
Sources resume at the exact record and sinks publish exactly once; see docs/decisions/0040 and following.
"""

from headgate.connectors.files.file_formats import csv_source, json_source, parquet_source
from headgate.connectors.files.sink import json_sink, parquet_sink

__all__ = ["csv_source", "json_sink", "json_source", "parquet_sink", "parquet_source"]
