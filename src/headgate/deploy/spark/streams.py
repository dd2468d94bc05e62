"""Folders and checks for jobs that read streaming DataFrames, and the end of their queries behind the job."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headgate.api.executor import JobSpec
from headgate.common import options as o
from headgate.common.errors import UsageError
from headgate.connectors.dataframe import DataFrameConnector, StreamSource
from headgate.deploy.spark.session import sql_session
from headgate.deploy.spark.staging import FOLDER, staging_root

LOGS: Final = ".headgate-streams"
"""Below the staging root: ``<line>/<query>``, each query's own log, for drivers to come."""


def streams_of(connectors: Mapping[str, DataFrameConnector]) -> dict[str, StreamSource]:
    """The streaming DataFrames among them."""
    return {uid: part for uid, part in connectors.items() if isinstance(part, StreamSource)}


def check_streams(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Refuse a job in which a streaming DataFrame could not flow.

    Raises:
        UsageError: Spark has no slot to feed it with, or nothing would ever be acknowledged to Spark.
    """
    for uid in streams_of(connectors):
        if job.config.get(o.RESERVED_SLOTS) < 1:
            raise UsageError(
                f"source {uid!r} is fed by tasks of Spark, and {o.RESERVED_SLOTS.key} is 0, so that none "
                "could run beside the workers; set it to 1 or more"
            )
        if job.config.get(o.CHECKPOINTING_INTERVAL) is None:
            raise UsageError(
                f"source {uid!r} reads a streaming DataFrame, of which Spark plans the next epoch when a "
                "checkpoint holds the last, and the job has no periodic checkpoints; call "
                "env.checkpoints(every=...)"
            )


@contextmanager
def streams_ready(job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool) -> Iterator[None]:
    """Tell the sources where to stage; stop their queries and remove what they have staged behind the job.

    Args:
        job: what runs.
        connectors: of the job.
        local: whether all workers are on this machine.

    Raises:
        UsageError: there is no folder that all workers share.
    """
    streams = streams_of(connectors)
    if not streams:
        yield
        return
    root = staging_root(job, local)
    folder = root / f"{FOLDER}-{secrets.token_hex(6)}"
    lasts = root != Path(tempfile.gettempdir())
    try:
        for number, source in enumerate(streams.values()):
            source.lasting_folder = str(root / LOGS) if lasts else None
            source.prepare(sql_session(job.spark), str(folder / str(number)))
        yield
    finally:
        for source in streams.values():
            source.finish()
        shutil.rmtree(folder, ignore_errors=True)
