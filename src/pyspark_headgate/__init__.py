"""By this package Spark finds the data source `headgate-savepoint` without being told of it.

Spark looks through the importable packages whose names begin with `pyspark_` for a `DefaultSource`.
"""

from headgate.stateprocessor.source import SavepointSource as DefaultSource

__all__ = ["DefaultSource"]
