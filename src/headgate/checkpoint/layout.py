"""Where the files of a job's checkpoints are, below the storage root.

::

    <job>/chk-<n>/<data files>     written by workers
    <job>/chk-<n>/_metadata        written by the job master when all tasks have acknowledged
    <job>/log/<19 digits>          an entry for each complete checkpoint

A savepoint is a folder of its own, wherever it was asked for; names are relative to it::

    _metadata                                  written by the job master when all tasks have acknowledged
    state/<operator>/<state>/part-<n>.parquet  a table of keyed state, of the canonical format
    data/v<vertex>-s<subtask>-<number>         everything else
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from headgate.common.errors import StorageError
from headgate.common.ids import AttemptId, CheckpointId, Generation, JobId, SubtaskId

METADATA: Final = "_metadata"
LOG: Final = "log"

_CHECKPOINT: Final = re.compile(r"chk-([1-9][0-9]{0,18})")
_JOB: Final = re.compile(r"(?![.])[A-Za-z0-9._-]{1,200}")


def job_folder(job: JobId) -> str:
    """Return the name of a job's folder, which is the job id itself; StorageError if it cannot name one."""
    if not _JOB.fullmatch(job):
        raise StorageError(
            f"job id {job!r} cannot name a folder; expected up to 200 letters, digits, '.', '_' and '-', "
            "not beginning with '.'"
        )
    return job


def checkpoint_folder(job: JobId, checkpoint: CheckpointId) -> str:
    return f"{job_folder(job)}/chk-{checkpoint}"


def metadata_name(job: JobId, checkpoint: CheckpointId) -> str:
    return f"{checkpoint_folder(job, checkpoint)}/{METADATA}"


def data_file_name(
    job: JobId, checkpoint: CheckpointId, generation: Generation, attempt: AttemptId, task: SubtaskId
) -> str:
    """Return a name for one task's data that no other generation, attempt or task uses.
    So a worker that was replaced, but still writes, can never replace a file of its successor.
    """
    return f"{checkpoint_folder(job, checkpoint)}/g{generation}-a{attempt}-v{task.vertex}-s{task.subtask}"


def log_folder(job: JobId) -> str:
    return f"{job_folder(job)}/{LOG}"


def checkpoint_of(name: str, job: JobId) -> CheckpointId | None:
    """Return the id of the checkpoint in whose folder file `name` lies (relative to the storage root).
    None for every other file: of the job's log or history, of another job, or of a savepoint.
    """
    folder, _, rest = name.removeprefix(f"{job}/").partition("/")
    match = _CHECKPOINT.fullmatch(folder)
    if match is None or not rest or not name.startswith(f"{job}/"):
        return None
    return CheckpointId(int(match[1]))


def checkpoint_number(folder: str) -> CheckpointId | None:
    """Return the id in a folder's own name such as ``chk-7``; None when it is no checkpoint's folder."""
    match = _CHECKPOINT.fullmatch(folder)
    return CheckpointId(int(match[1])) if match else None


def metadata_first(name: str) -> tuple[bool, str]:
    """Return a sort key for file names in the order of deletion: `_metadata` files first, then all others.
    So a deletion that is interrupted never leaves a checkpoint that looks complete.
    """
    return name.rpartition("/")[2] != METADATA, name


TIMERS_FOLDER: Final = "timers"
_TIMERS_STATE: Final = "timers:all"


def as_folder(name: str) -> str:
    """Return a folder's name for an operator or state: readable, one level, never hidden from tools.

    Example:
        >>> as_folder("last_visit"), as_folder("count#ttl"), as_folder("_a/b=c")
        ('last_visit', 'count%23ttl', '%5Fa%2Fb%3Dc')
    """
    quoted = quote(name, safe="", errors="surrogatepass")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted


def from_folder(folder: str) -> str:
    return unquote(folder, errors="surrogatepass")


def table_name(uid: str, state: str, subtask: int) -> str:
    """Return the name of the file with one subtask's part of a state in a savepoint of the canonical format.

    `state` is its name, or `timers:all` for all timers.

    Example:
        >>> table_name("streaks", "count", 1), table_name("streaks", "timers:all", 0)
        ('state/streaks/count/part-00001.parquet', 'state/streaks/timers/part-00000.parquet')
        >>> table_name("streaks", "timers", 0)
        'state/streaks/%74imers/part-00000.parquet'
    """
    folder = as_folder(state)
    if state == _TIMERS_STATE:
        folder = TIMERS_FOLDER
    elif state == TIMERS_FOLDER:
        folder = f"%{ord(state[0]):02X}{state[1:]}"
    return f"state/{as_folder(uid)}/{folder}/part-{subtask:05}.parquet"


def savepoint_data_name(task: SubtaskId, number: str) -> str:
    """Return the name of file `number` of one task in a savepoint, for state that no table holds."""
    return f"data/v{task.vertex}-s{task.subtask}-{number}"
