"""Folders for the DataFrames that go into a job and come out of it, and who removes them when."""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headgate.api.executor import JobSpec
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.uris import local_path
from headgate.common import options as o
from headgate.common.errors import UsageError
from headgate.connectors.dataframe import DataFrameConnector, DataFrameSource
from headgate.deploy.spark.session import lend, sql_session

FOLDER: Final = ".headgate-staging"


def connectors_of(job: JobSpec) -> dict[str, DataFrameConnector]:
    """The sources and sinks of the job that need a session, also those wrapped by others; by uid or place."""
    found: dict[str, DataFrameConnector] = {}
    for node in job.nodes:
        outer: Any = getattr(node, "source", None) or getattr(node, "sink", None)
        inner = () if outer is None else (outer, *getattr(outer, "__dict__", {}).values())
        for part in inner:
            if isinstance(part, DataFrameConnector):
                found[node.uid or f"#{node.id}"] = part
    return found


def check_restorable(job: JobSpec, connectors: dict[str, DataFrameConnector]) -> None:
    """Refuse a checkpoint with positions in a DataFrame: its rows come in another order in every run.

    Raises:
        UsageError: naming the source.
    """
    sources = [uid for uid, part in connectors.items() if isinstance(part, DataFrameSource)]
    if sources and job.config.get(o.HIGH_AVAILABILITY) is not o.HighAvailabilityType.NONE:
        raise UsageError(
            f"source {sources[0]!r} reads a DataFrame, whose rows come in another order in every driver, so "
            f"with {o.HIGH_AVAILABILITY.key} no other driver could go on; write the DataFrame to Parquet and "
            "use read_parquet(), or turn high availability off"
        )
    if job.restore_from is None or not sources:
        return
    _, checkpoint = open_checkpoint(job.restore_from)
    for uid in sources:
        if uid in checkpoint.enumerators:
            raise UsageError(
                f"checkpoint {job.restore_from!r} has a position of source {uid!r} in a DataFrame, which the "
                "run that drew it has staged and removed; write the DataFrame to Parquet and use "
                "read_parquet(), whose positions outlive a run, or start without the checkpoint"
            )


@contextmanager
def staged(job: JobSpec, connectors: Sequence[DataFrameConnector], local: bool) -> Iterator[None]:
    """Prepare the connectors before the gang takes its slots, and clean up behind the job.

    Input is removed when the job ends. Output is what the program gets, so it stays until the
    process ends; that of a job that failed is removed at once.

    Raises:
        UsageError: there is no folder that all workers share, or a DataFrame cannot be computed.
    """
    if not connectors:
        yield
        return
    root = staging_root(job, local) / f"{FOLDER}-{secrets.token_hex(6)}"
    spark, kept = sql_session(job.spark), False
    try:
        for number, connector in enumerate(connectors):
            connector.prepare(spark, str(root / str(number)))
        yield
        outputs = [connector for connector in connectors if not isinstance(connector, DataFrameSource)]
        kept = bool(outputs)
    finally:
        for number, connector in enumerate(connectors):
            if isinstance(connector, DataFrameSource):
                shutil.rmtree(root / str(number), ignore_errors=True)
        if kept:
            lend()
            atexit.register(shutil.rmtree, root, ignore_errors=True)
        else:
            shutil.rmtree(root, ignore_errors=True)


def staging_root(job: JobSpec, local: bool) -> Path:
    """Where to stage: beside the checkpoints, which all workers reach, else on this machine.

    Raises:
        UsageError: workers are on other machines and no shared folder is known.
    """
    uri = job.config.get(o.CHECKPOINTING_DIR)
    if uri is not None:
        return Path(local_path(uri)).absolute()
    if local:
        return Path(tempfile.gettempdir())
    raise UsageError(
        "from_spark() and to_dataframe() on a cluster need a folder that the driver and all workers share; "
        f"set {o.CHECKPOINTING_DIR.key}"
    )
