"""Folders and checks for jobs that read streaming DataFrames, and the end of their queries behind the job."""

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
from headgate.deploy.spark.session import sql_session
from headgate.deploy.spark.staging import FOLDER, staging_root

LOGS: Final = ".headgate-streams"
"""Below the staging root: ``<line>/<query>``, each query's own log, for drivers to come."""

EPOCHS: Final = ".epochs"
"""Below a job's own folder of staged rows: ``<token of a driver>/<number of a source>/<query>-<epoch>``."""


def streams_of(connectors: Mapping[str, DataFrameConnector]) -> dict[str, StreamSource]:
    """The streaming DataFrames among them."""
    return {uid: part for uid, part in connectors.items() if isinstance(part, StreamSource)}


def check_streams(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Refuse a job in which a streaming DataFrame could not flow."""
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


class Streams:
    """Where the streaming DataFrames of one job stage their epochs, as one driver sees it."""

    def __init__(self, job: JobSpec, sources: Collection[StreamSource], root: Path) -> None:
        self._job, self._sources, self._root = job, sources, root
        self._folder: Path | None = None

    def make_ready(self, job_id: str) -> None:
        """Tell the sources where to stage. This driver leads the job, and no worker runs yet."""
        lasts = self._root != Path(tempfile.gettempdir())
        self._folder = self._folder_of(job_id) if lasts else self._root / f"{FOLDER}-{secrets.token_hex(6)}"
        for number, source in enumerate(self._sources):
            source.lasting_folder = str(self._root / LOGS) if lasts else None
            source.prepare(sql_session(self._job.spark), str(self._folder / str(number)))

    def put_away(self) -> None:
        """The driver leaves the job: stop the queries, remove what they have staged."""
        for source in self._sources:
            source.finish()
        if self._folder is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # as far up as nothing else is there
            for parent in itertools.takewhile(lambda each: each != self._root, self._folder.parents):
                parent.rmdir()

    def _folder_of(self, job_id: str) -> Path:
        """A folder of this driver's own, the only one of the job."""
        of_job = self._root / FOLDER / quote(job_id, safe="") / EPOCHS
        # No snapshot refers to staged epochs: what a driver that died has left is of no use to anybody.
        shutil.rmtree(of_job, ignore_errors=True)
        return of_job / secrets.token_hex(6)


@contextmanager
def streams_ready(
    job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool
) -> Iterator[Streams | None]:
    """Give what tells the sources where to stage, and clean up behind the job."""
    sources = streams_of(connectors)
    if not sources:
        yield None
        return
    streams = Streams(job, sources.values(), staging_root(job, local))
    try:
        yield streams
    finally:
        streams.put_away()
