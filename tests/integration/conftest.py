"""The Spark session that the tests of one file share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

OpenSpark = Callable[..., Any]
"""Takes the master and settings; gives the session."""


@pytest.fixture(scope="module")
def open_spark() -> Iterator[OpenSpark]:
    """Opens a session as a notebook would have it, in a JVM of its own; both end with the file's tests."""

    def open_one(master: str, settings: dict[str, str] | None = None, log_level: str = "ERROR") -> Any:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(master).appName("tests").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
        for key, value in (settings or {}).items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel(log_level)
        return session

    _end_spark()  # of tests before, whose settings are others
    yield open_one
    _end_spark()


def _end_spark() -> None:
    """Leave this process as if it had never had Spark: the next one starts a JVM of its own."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    if gateway.proc.poll() is None:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
        context = SparkContext._active_spark_context
        if context is not None:
            context.stop()
        gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(20)
    SparkContext._gateway = SparkContext._jvm = None
