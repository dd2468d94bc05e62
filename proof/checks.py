"""What must hold after every run; each check gives sentences about what does not."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from headgate.checkpoint.layout import checkpoint_of, log_folder
from headgate.checkpoint.opening import load_metadata, referenced_files, verify_files
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import HeadgateError
from headgate.common.ids import JobId
from headgate.runtime.job.black_box import remove_abandoned
from proof.job import Answer, Place, written

SHOWN_MAX = 5

OF_SPARK = "headgate-jvm-output"
"""The one thread that lives as long as the JVM."""


def check_output(expected: Answer, place: Place) -> Iterator[str]:
    """The output is the batch answer, line by line."""
    found = written(place.out)
    yield from _difference("missing", expected, found)
    yield from _difference("too many", found, expected)
    yield from check_pending(place)


def check_pending(place: Place) -> Iterator[str]:
    """No file waits to be published for ever."""
    left = [path.name for path in (place.out / "_pending").rglob("*") if path.is_file()]
    if left:
        yield f"{len(left)} pending files are left in the output, such as {left[0]}"


def check_not_too_many(expected: Answer, place: Place) -> Iterator[str]:
    """The output so far is part of the batch answer, no line of it twice."""
    yield from _difference("too many", written(place.out), expected)


def _difference(what: str, more: Answer, less: Answer) -> Iterator[str]:
    lines: Counter[str] = more - less
    if lines:
        yield f"{lines.total()} lines {what}, such as {', '.join(sorted(lines)[:SHOWN_MAX])}"


def check_order(completed: Iterable[int]) -> Iterator[str]:
    """Completed checkpoints have strictly increasing numbers."""
    ids = list(completed)
    if any(later <= earlier for earlier, later in itertools.pairwise(ids)):
        yield f"checkpoints completed out of order: {ids}"


def check_storage(storage: Path, last: int | None, killed_drivers: int = 0) -> Iterator[str]:
    """The log is sound, its checkpoints are whole, and no file belongs to anything else.

    Args:
        storage: root of the checkpoints.
        last: the last completed checkpoint of the newest job; None when unknown.
        killed_drivers: each leaves the marker by which its workers knew the storage, and in its job's
            folder what its workers were writing: nobody can know from outside that the job is dead.
    """
    probes = list((storage / ".headgate-probe").glob("*"))
    if len(probes) > killed_drivers:
        yield f"{len(probes)} markers of reachability are left"
    job = newest_job(storage)
    disk = LocalDisk(storage)
    try:
        logged = CompletedCheckpointLog(disk, log_folder(job)).completed()
        yield from check_order(entry.checkpoint for entry in logged)
        if last is not None and (not logged or logged[-1].checkpoint != last):
            yield f"the log ends with {logged[-1:]} but checkpoint {last} was the last to complete"
        needed = set()
        for entry in logged:
            metadata = load_metadata(disk, entry.metadata, entry.sha256)
            verify_files(disk, metadata)
            needed |= referenced_files(metadata)
    except HeadgateError as error:
        yield f"the checkpoints cannot be read back: {error}"
        return
    known = {entry.checkpoint for entry in logged}
    # A checkpoint may refer to files that earlier ones have written.
    left = (name for name in disk.list(job) if checkpoint_of(name, job) not in {*known, None})
    orphans = [name for name in left if name not in needed]
    if orphans:
        yield f"{len(orphans)} files of checkpoints that do not count are left, such as {orphans[0]}"
    if unfinished := list(disk.temporaries(job if killed_drivers else "")):
        yield f"{len(unfinished)} unfinished files are left, such as {unfinished[0]}"


def newest_job(storage: Path) -> JobId:
    """The job that wrote last."""
    folders = [folder for folder in storage.iterdir() if not folder.name.startswith(".")]
    return JobId(max(folders, key=lambda folder: (folder / "log").stat().st_mtime).name)


def check_gone(pids: Iterable[int], patience_s: float) -> Iterator[str]:
    """Processes that should have ended are gone."""
    wait = set(pids)
    deadline = time.monotonic() + patience_s
    while (wait := {pid for pid in wait if _alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in sorted(wait):
        yield f"process {pid} still runs: {_describe(pid)}"


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{process.status()} {' '.join(process.cmdline())[:120]}"
    except psutil.NoSuchProcess:
        return "gone now"


def check_threads(before: set[str], patience_s: float) -> Iterator[str]:
    """The driver has no thread that it did not have before the run."""
    deadline = time.monotonic() + patience_s
    while (more := _ours() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    for name in sorted(more):
        yield f"thread {name} of the driver still runs"


def _ours() -> set[str]:
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("headgate")}
    return names - {OF_SPARK}


def check_temporary(folder: Path) -> Iterator[str]:
    """Nothing of ours is left among the temporary files.

    A worker that is killed together with its driver leaves its black box, which the next worker on the
    machine removes; here, what that worker would do is done at once.
    """
    remove_abandoned(folder, older_than_s=-1)
    left = [path.name for path in folder.iterdir() if "headgate" in path.name]
    if left:
        yield f"temporary files are left: {', '.join(sorted(left)[:SHOWN_MAX])}"


def descendants() -> set[int]:
    """All processes below this one."""
    return {process.pid for process in psutil.Process(os.getpid()).children(recursive=True)}
