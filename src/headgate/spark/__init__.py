"""Headgate's names for programs with Spark: epoch writers for ``to_spark()``, snapshots as DataFrames.

    import headgate as hg

    counts.to_spark(hg.spark.parquet("/data/counts"))

Importing it loads nothing of Spark; each name is loaded when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from headgate.common.refusals.calls import with_checked_calls

if TYPE_CHECKING:
    from headgate.connectors.dataframe.writers import EpochWriter, SparkEpoch, delta, iceberg, jdbc, parquet
    from headgate.deploy.spark.session import session
    from headgate.stateprocessor.source import register
    from headgate.stateprocessor.writing.savepoint_writer import SavepointWriter

__all__ = [
    "EpochWriter", "SavepointWriter", "SparkEpoch", "delta", "iceberg", "jdbc", "parquet", "register",
    "session",
]  # fmt: skip

_WRITERS: Final = "headgate.connectors.dataframe.writers"
_PLACES: Final = {
    **dict.fromkeys(["EpochWriter", "SparkEpoch", "delta", "iceberg", "jdbc", "parquet"], _WRITERS),
    "SavepointWriter": "headgate.stateprocessor.writing.savepoint_writer",
    "register": "headgate.stateprocessor.source",
    "session": "headgate.deploy.spark.session",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return with_checked_calls(getattr(importlib.import_module(_PLACES[name]), name))
    raise AttributeError(f"module 'headgate.spark' has no attribute {name!r}")
