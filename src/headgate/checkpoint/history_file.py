"""The history of a job's checkpoints: `<job>/history/checkpoints.json`, a small file replaced at each write.

It lies outside the folders of the checkpoints, so nothing that deletes or counts checkpoints sees it. It
serves diagnosis only: no job depends on it, and a damaged file is replaced by a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from headgate.checkpoint.layout import job_folder
from headgate.checkpoint.storage.storage_contract import TellsAge
from headgate.checkpoint.storage.uris import local_path, open_disk, scheme_of, split_uri
from headgate.common.decoders import UNDECODABLE, json_decoder
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.common.plain_data import Json
from headgate.common.ports import Disk
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.history import CheckpointRecord as CheckpointRecord
from headgate.core.checkpoint.history import CheckpointStatus as CheckpointStatus
from headgate.core.checkpoint.history import SubtaskRecord as SubtaskRecord
from headgate.core.checkpoint.slowest import Hop as Hop
from headgate.core.checkpoint.slowest import SlowestPath as SlowestPath
from headgate.core.checkpoint.slowest import amount as amount
from headgate.core.checkpoint.slowest import slowest_path as slowest_path
from headgate.core.checkpoint.slowest import span as span

FORMAT_VERSION: Final = 1
RECORDS_MAX: Final = 50  # only the newest checkpoints are kept

_FOLDER: Final = "history"
_INSIDE: Final = f"{_FOLDER}/checkpoints.json"
_LOG: Final = logging.getLogger("headgate.checkpoints")


@dataclass(frozen=True, slots=True)
class History:
    """The content of a history file: records of one job's newest checkpoints, by ascending checkpoint id."""

    job: str
    job_name: str
    records: tuple[CheckpointRecord, ...]
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class _Version:
    format_version: int


_histories: Final = json_decoder(History)
_versions: Final = json_decoder(_Version)


def history_name(job: JobId) -> str:
    return f"{job_folder(job)}/{_INSIDE}"


def encode_history(history: History) -> bytes:
    return msgspec.json.encode(history)


def plain(value: CheckpointRecord | SlowestPath | History) -> dict[str, Json]:
    found: dict[str, Json] = msgspec.to_builtins(value)
    return found


def decode_history(data: bytes, where: str) -> History:
    """Decode the bytes of the history file `where` (for messages).

    StorageError if the bytes are damaged, or of a version that this program does not read.
    """
    try:
        version = _versions.decode(data).format_version
        if version == FORMAT_VERSION:
            return _histories.decode(data)
    except UNDECODABLE as error:
        raise StorageError(
            f"{where} is no history of checkpoints: {error}; it is damaged or of a foreign program, and can "
            "be deleted: no checkpoint depends on it"
        ) from None
    raise StorageError(
        f"{where} has format version {version}, this program reads {FORMAT_VERSION}; use the version of "
        "Headgate that wrote it"
    )


class HistoryFile:
    """Writes a job's history file for its job master; used by one background thread only.

    The first write takes over what an earlier job master of the same job left. `completed` returns the ids of
    the checkpoints in the log and is called then: a checkpoint that was pending when the earlier job master
    ended is complete if the log holds it.
    """

    def __init__(
        self, disk: Disk, job: JobId, job_name: str, completed: Callable[[], Collection[int]] = tuple
    ) -> None:
        self._disk, self._job, self._job_name, self._completed = disk, job, job_name, completed
        self._name = history_name(job)
        self._earlier: dict[int, CheckpointRecord] | None = None

    def write(self, records: Iterable[CheckpointRecord]) -> None:
        """Replace the file durably by `records` of this job master, joined with those of earlier job masters.

        A record of `records` replaces an earlier one of its checkpoint. Only the 50 highest ids are kept.
        """
        if self._earlier is None:
            self._earlier = {record.checkpoint: record for record in self._load()}
        kept = self._earlier | {record.checkpoint: record for record in records}
        newest = tuple(kept[checkpoint] for checkpoint in sorted(kept)[-RECORDS_MAX:])
        self._disk.create(self._name, [encode_history(History(self._job, self._job_name, newest))])

    def _load(self) -> list[CheckpointRecord]:
        try:
            data = self._disk.read(self._name)
        except FileNotFoundError:
            return []
        try:
            records = decode_history(data, self._disk.describe(self._name)).records
        except StorageError as error:
            _LOG.warning("the history of checkpoints begins anew: %s", error)
            return []
        logged = self._completed()
        return [_settled(record, record.checkpoint in logged) for record in records]


def _settled(record: CheckpointRecord, logged: bool) -> CheckpointRecord:
    if logged and record.status is not CheckpointStatus.COMPLETED:
        return replace(record, status=CheckpointStatus.COMPLETED, reason=None, detail="")
    if record.status is CheckpointStatus.IN_PROGRESS:
        reason = CheckpointFailureReason.JOB_FAILOVER_REGION.name
        detail = "its job master ended before it was complete"
        return replace(record, status=CheckpointStatus.FAILED, reason=reason, detail=detail)
    return record


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """The place of a job's history file in a storage; `where` is its path (local disk) or URI, for people."""

    disk: Disk
    name: str
    job: str

    @property
    def where(self) -> str:
        uri = self.disk.describe(self.name)
        return local_path(uri) if scheme_of(uri) == "file" else uri


def find_histories(uri: str) -> list[KeptHistory]:
    """Return the history files below a path, that of the job that wrote last first; StorageError if none.

    `uri` is a checkpoint directory, a job's folder, or a checkpoint's folder.
    """
    disk = open_disk(uri)
    shown = local_path(uri) if scheme_of(uri) == "file" else disk.describe()
    if scheme_of(uri) == "file" and not Path(shown).exists():
        raise StorageError(
            f"{shown} does not exist; give the checkpoint directory of a job, or the job's folder in it"
        )
    above, folder = split_uri(disk.describe(), 1)
    found = _in_job(disk, folder) or _in_job(open_disk(above), split_uri(above, 1)[1]) or _in_storage(disk)
    if not found:
        raise StorageError(
            f"{shown} holds no history of checkpoints (expected <job>/{_INSIDE}); a job writes it as soon as "
            "it has checkpoints switched on and has triggered one"
        )
    return found


def read_history(kept: KeptHistory) -> History:
    """Return the history at a place that :func:`find_histories` returned; StorageError if gone or damaged."""
    try:
        data = kept.disk.read(kept.name)
    except FileNotFoundError:
        raise StorageError(f"{kept.where} does not exist any more") from None
    return decode_history(data, kept.where)


def _in_job(disk: Disk, job: str) -> list[KeptHistory]:
    return [KeptHistory(disk, _INSIDE, job)] if _INSIDE in disk.list(_FOLDER) else []


def _in_storage(disk: Disk) -> list[KeptHistory]:
    names = [name for name in disk.list("") if name.partition("/")[2] == _INSIDE]
    found = [KeptHistory(disk, name, name.partition("/")[0]) for name in names]
    return sorted(found, key=_written_ms, reverse=True)


def _written_ms(kept: KeptHistory) -> int:
    try:
        if isinstance(kept.disk, TellsAge):
            return kept.disk.modified_ms(kept.name)
        return max((record.trigger_ms for record in read_history(kept).records), default=0)
    except (StorageError, FileNotFoundError):
        return 0
