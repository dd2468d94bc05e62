"""Folders and checks for jobs that hand epochs to Spark."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.errors import UsageError
from headgate.common.settings import options as o
from headgate.connectors.dataframe import DataFrameConnector
from headgate.connectors.dataframe.staged_files import TO_SPARK
from headgate.connectors.dataframe.to_spark import SparkSink
from headgate.deploy.spark.session import sql_session
from headgate.deploy.spark.staging import staging_root


def check_epochs(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Refuse a job whose epochs Spark could never write."""
    for uid, sink in connectors.items():
        if isinstance(sink, SparkSink) and job.config.get(o.RESERVED_SLOTS) < 1:
            raise UsageError(
                f"sink {uid!r} is written by tasks of Spark, and {o.RESERVED_SLOTS.key} is 0, so that none "
                "could run beside the workers; set it to 1 or more"
            )


@contextmanager
def epochs_ready(job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool) -> Iterator[None]:
    """Tell the sinks where to stage."""
    sinks = [part for part in connectors.values() if isinstance(part, SparkSink)]
    if not sinks:
        yield
        return
    root = staging_root(job, local)
    # Without checkpoints nothing goes on behind this run, and nobody will ask for what it had staged.
    lasts = root != Path(tempfile.gettempdir())
    folder = root / (TO_SPARK if lasts else f"{TO_SPARK}-{secrets.token_hex(6)}")
    try:
        for sink in sinks:
            sink.prepare(sql_session(job.spark), str(folder))
        yield
    finally:
        if not lasts:
            shutil.rmtree(folder, ignore_errors=True)
