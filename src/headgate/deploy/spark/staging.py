"""Folders for a job's input and output DataFrames: where rows are staged, and when they are removed.

Input is staged once, when this driver leads the job and no snapshot has its rows staged already. It
belongs to the job like a checkpoint does: a driver that dies leaves it, and the next one goes on in it.
Output belongs to the program, and is removed with its process.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from headgate.api.jobs.executor_contract import JobControl, JobSpec, JobStatus
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.settings import storage_settings
from headgate.checkpoint.storage.uris import disks_with, local_path, scheme_of
from headgate.common.errors import FencedError, OperatingError, TerminatedError, UsageError
from headgate.common.process.children import at_exit
from headgate.common.settings import options as o
from headgate.connectors.dataframe import DataFrameConnector, DataFrameSource
from headgate.connectors.dataframe.source import Staged
from headgate.connectors.dataframe.staged_files import STAGING
from headgate.core.execution import JobEnd
from headgate.deploy.spark.session import lend, sql_session
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import job_settings
from headgate.state.snapshots import CheckpointMetadata

FOLDER: Final = STAGING
"""Folder below the staging root: ``<job>/<source>/<token>`` of inputs; outputs have it with a suffix."""


def connectors_of(job: JobSpec) -> dict[str, DataFrameConnector]:
    """Return the job's sources and sinks that need a Spark session, also wrapped ones, by uid, else `#id`."""
    found: dict[str, DataFrameConnector] = {}
    for node in job.nodes:
        outer = getattr(node, "source", None) or getattr(node, "sink", None)
        inner = () if outer is None else (outer, *getattr(outer, "__dict__", {}).values())
        for part in inner:
            if isinstance(part, DataFrameConnector):
                found[node.uid or f"#{node.id}"] = part
    return found


def check_restorable(job: JobSpec, connectors: Mapping[str, DataFrameConnector]) -> None:
    """Raise UsageError if the snapshot to restore, where it is known yet, needs staged rows that are gone."""
    led = job.config.get(o.HIGH_AVAILABILITY) is not o.HighAvailabilityType.NONE
    if job.restore_from is None or led or job.config.get(o.FALLBACK_TO_OLDER):
        return  # which snapshot it will be is not known yet; it is looked at when it is
    sources = sources_of(connectors)
    if sources:
        _, checkpoint = open_checkpoint(job.restore_from, disks=disks_with(storage_settings(job.config)))
        check_positions(checkpoint, sources)


def check_positions(checkpoint: CheckpointMetadata, sources: Mapping[str, DataFrameSource]) -> None:
    for uid in sources:
        position = checkpoint.enumerators.get(uid)
        all_read = len(checkpoint.finished.get(uid, ())) >= checkpoint.parallelism.get(uid, 1)
        if position is not None and not all_read:
            Staged.of(position).require()


def sources_of(connectors: Mapping[str, DataFrameConnector]) -> dict[str, DataFrameSource]:
    return {uid: part for uid, part in connectors.items() if isinstance(part, DataFrameSource)}


class Inputs:
    """The folders of one job's staged input DataFrames, below `root`; kept while a snapshot may need them."""

    def __init__(self, job: JobSpec, sources: Mapping[str, DataFrameSource], root: Path) -> None:
        self._job, self._sources, self._root = job, sources, root
        self._staged: list[Path] = []
        self._restored: RestorePoint | None = None
        self._folder: Path | None = None
        self._control: JobControl | None = None

    def begins(self, control: JobControl) -> None:
        self._control = control
        if self._job.begins is not None:
            self._job.begins(control)

    def make_ready(self, job_id: str, restored: RestorePoint | None) -> None:
        """Stage the rows of the input DataFrames, before workers run; called once this driver leads the job.

        Inputs that the snapshot `restored` has staged already stay; None: all are staged. UsageError: rows
        that the snapshot has still to read are gone.
        """
        self._folder, self._restored = self._root / FOLDER / quote(job_id, safe=""), restored
        known: Collection[str] = ()
        if restored is not None:
            check_positions(restored.checkpoint, self._sources)
            known = restored.checkpoint.enumerators
        for uid, source in self._sources.items():
            if uid not in known:
                folder = self._folder / quote(uid, safe="") / secrets.token_hex(8)
                self._staged.append(folder)
                source.prepare(sql_session(self._job.spark), str(folder))

    def put_away(self, error: BaseException | None) -> None:
        """Remove staged rows that no snapshot needs, as the driver leaves the job; `error`: why, or None."""
        if self._folder is None:
            return
        status = self._status()
        if status is None:
            # It never ran, so no snapshot of it knows of what was staged for it just now.
            for folder in self._staged:
                shutil.rmtree(folder, ignore_errors=True)
                _remove_if_empty(folder.parent)
            _remove_if_empty(self._folder)
            _remove_if_empty(self._folder.parent)
        elif not self._still_needed(status, error):
            for folder in (self._folder, *self._owned()):
                shutil.rmtree(folder, ignore_errors=True)
            _remove_if_empty(self._folder.parent)

    def _still_needed(self, status: JobStatus, error: BaseException | None) -> bool:
        settings = job_settings(self._job.config)
        if status.savepoint is not None or status.savepoints_completed:
            return True
        if settings.storage is None or status.state == JobEnd.FINISHED.value:
            return False
        if self._continues_elsewhere(status, error):
            return True
        end = JobEnd.CANCELLED if status.state == JobEnd.CANCELLED.value else JobEnd.FAILED
        any_left = self._restored is not None or status.checkpoints_completed
        return bool(any_left) and end not in settings.checkpoints.retention

    def _continues_elsewhere(self, status: JobStatus, error: BaseException | None) -> bool:
        if isinstance(error, FencedError) or (isinstance(error, TerminatedError) and error.goes_on):
            return True
        led = self._job.config.get(o.HIGH_AVAILABILITY) is not o.HighAvailabilityType.NONE
        return led and status.state != JobEnd.CANCELLED.value

    def _owned(self) -> list[Path]:
        if self._restored is None or not self._restored.claimed:
            return []
        positions = [self._restored.checkpoint.enumerators.get(uid) for uid in self._sources]
        return [Path(Staged.of(position).folder) for position in positions if position is not None]

    def _status(self) -> JobStatus | None:
        with suppress(OperatingError):
            return None if self._control is None else self._control.status()
        return None


@contextmanager
def staged(
    job: JobSpec, connectors: Mapping[str, DataFrameConnector], local: bool
) -> Iterator[Inputs | None]:
    """Prepare folders of output, yield the object that stages inputs (None: no DataFrames), and clean up.

    `local`: Spark is on this machine, so a temporary folder will do; else UsageError if none is shared.
    """
    if not connectors:
        yield None
        return
    root, sources = staging_root(job, local), sources_of(connectors)
    with outputs_ready(job, [part for part in connectors.values() if part.leaves_output], root):
        inputs = Inputs(job, sources, root)
        try:
            yield inputs
        except BaseException as error:
            inputs.put_away(error)
            raise
        inputs.put_away(None)


@contextmanager
def outputs_ready(job: JobSpec, outputs: list[DataFrameConnector], root: Path) -> Iterator[None]:
    if not outputs:
        yield
        return
    folder, kept = root / f"{FOLDER}-{secrets.token_hex(6)}", False
    try:
        for number, connector in enumerate(outputs):
            connector.prepare(sql_session(job.spark), str(folder / str(number)))
        yield
        kept = True
    finally:
        if kept:
            lend()
            at_exit(shutil.rmtree, folder, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def staging_root(job: JobSpec, local: bool) -> Path:
    """Return the folder for staged rows: as set, or the checkpoints', or if `local` temp; else UsageError."""
    asked = job.config.get(o.SPARK_STAGING_DIR)
    if asked is not None:
        return Path(local_path(asked)).absolute()
    uri = job.config.get(o.CHECKPOINTING_DIR)
    if uri is not None and scheme_of(uri) == "file":
        return Path(local_path(uri)).absolute()
    if local:
        return Path(tempfile.gettempdir())
    verbs = sorted({f"{part.verb}()" for part in connectors_of(job).values()})
    what = f"{' and '.join(verbs)} on a cluster need{'s' if len(verbs) == 1 else ''}"
    raise UsageError(f"{what} a folder that the driver and all workers share; set {o.SPARK_STAGING_DIR.key}")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
