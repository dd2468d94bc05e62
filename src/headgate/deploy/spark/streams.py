"""Folders and checks for jobs that read streaming DataFrames, or hand rows to Spark by checkpoint."""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.errors import UsageError
from headgate.common.settings import options as o
from headgate.connectors.dataframe import DataFrameConnector, StreamSource
from headgate.connectors.dataframe.staged_files import TO_SPARK
from headgate.connectors.dataframe.to_spark import SparkSink
from headgate.deploy.spark.session import sql_session
from headgate.deploy.spark.staging import FOLDER, staging_root

LOGS: Final = ".headgate-streams"
"""Folder below the staging root with ``<lineage>/<query>``: each streaming query's log, for later drivers."""

EPOCHS: Final = ".epochs"
"""Below a job's own folder of staged rows: ``<token of a driver>/<number of a source>/<query>-<epoch>``."""


def streams_of(connectors: Mapping[str, DataFrameConnector]) -> dict[str, StreamSource]:
    return {uid: part for uid, part in connectors.items() if isinstance(part, StreamSource)}


def check_streams(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Raise UsageError for streaming DataFrames without a slot for Spark's tasks or periodic checkpoints."""
    for uid in streams_of(connectors):
        if job.config.get(o.RESERVED_SLOTS) < 1:
            raise _no_slot(f"source {uid!r} is fed by")
        if job.config.get(o.CHECKPOINTING_INTERVAL) is None:
            raise UsageError(
                f"source {uid!r} reads a streaming DataFrame, of which Spark plans the next epoch when a "
                "checkpoint holds the last, and the job has no periodic checkpoints; call "
                "env.checkpoints(every=...)"
            )


def _no_slot(what: str) -> UsageError:
    return UsageError(
        f"{what} tasks of Spark, and {o.RESERVED_SLOTS.key} is 0, so that none could run beside the workers; "
        "set it to 1 or more"
    )


class Streams:
    """One driver's folders in which streaming DataFrames stage epochs (the rows between two checkpoints)."""

    def __init__(self, job: JobSpec, sources: Collection[StreamSource], root: Path) -> None:
        self._job, self._sources, self._root = job, sources, root
        self._folder: Path | None = None

    def make_ready(self, job_id: str) -> None:
        """Prepare the sources' folders, and remove epochs of former drivers; call it before workers run."""
        lasts = self._root != Path(tempfile.gettempdir())
        self._folder = self._folder_of(job_id) if lasts else self._root / f"{FOLDER}-{secrets.token_hex(6)}"
        for number, source in enumerate(self._sources):
            source.lasting_folder = str(self._root / LOGS) if lasts else None
            source.prepare(sql_session(self._job.spark), str(self._folder / str(number)))

    def put_away(self) -> None:
        """Stop Spark's streaming queries and remove their staged epochs, when the driver leaves the job."""
        for source in self._sources:
            source.finish()
        if self._folder is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # up to the first folder with something else in it
            for parent in itertools.takewhile(lambda each: each != self._root, self._folder.parents):
                parent.rmdir()

    def _folder_of(self, job_id: str) -> Path:
        of_job = self._root / FOLDER / quote(job_id, safe="") / EPOCHS
        # No snapshot refers to staged epochs: what a driver that died has left is of no use.
        shutil.rmtree(of_job, ignore_errors=True)
        return of_job / secrets.token_hex(6)


@contextmanager
def streams_ready(
    job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool
) -> Iterator[Streams | None]:
    """Yield the `Streams` to make ready (None: no streaming sources); put them away after the block."""
    sources = streams_of(connectors)
    if not sources:
        yield None
        return
    streams = Streams(job, sources.values(), staging_root(job, local))
    try:
        yield streams
    finally:
        streams.put_away()


def check_epochs(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Raise UsageError for a job with sinks that Spark writes, if no slot is reserved for Spark's tasks."""
    for uid, sink in connectors.items():
        if isinstance(sink, SparkSink) and job.config.get(o.RESERVED_SLOTS) < 1:
            raise _no_slot(f"sink {uid!r} is written by")


@contextmanager
def epochs_ready(job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool) -> Iterator[None]:
    """Set the folder in which sinks stage epochs for Spark; a temporary one is removed after the block."""
    sinks = [part for part in connectors.values() if isinstance(part, SparkSink)]
    if not sinks:
        yield
        return
    root = staging_root(job, local)
    # Without checkpoints no later run goes on from this one, or needs what it had staged.
    lasts = root != Path(tempfile.gettempdir())
    folder = root / (TO_SPARK if lasts else f"{TO_SPARK}-{secrets.token_hex(6)}")
    try:
        for sink in sinks:
            sink.prepare(sql_session(job.spark), str(folder))
        yield
    finally:
        if not lasts:
            shutil.rmtree(folder, ignore_errors=True)
