"""Ownership log of an output directory: which job of a lineage may publish to it.

::

  _headgate/<lineage>+<sink>/<number>.json    one entry for each job that became the owner, in order

A job adds its entry before it publishes its first file; the job of the last entry is the only one that may
publish. So of two jobs that begin from the same snapshot one continues, and the files of the lineage are
known by the entries' jobs and the files' names. Entries are created complete, and never two of one number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.api.sink import Fork, SinkCommitterContext
from headgate.common.decoders import json_decoder
from headgate.common.errors import FencedError, OperatingError
from headgate.common.files.durable import read_bytes
from headgate.common.files.durable_file import create_new
from headgate.common.files.stored_paths import unlinked
from headgate.connectors.files.file_names import TAKEN_BACK, origin_of, pending_folder, safe
from headgate.connectors.files.part_file import storage_error

LOGS: Final = "_headgate"
"""Folder of ownership logs in the output directory; readers skip names that begin with ``_``."""


class _Entry(msgspec.Struct):
    job: str


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = json_decoder(_Entry)


class OwnerLog:
    """Ownership log of one sink in one output directory, as one job (`context`) sees it; in the driver only.
    It keeps nothing: each question reads the entries again, as other jobs may add some; OSError if it cannot.
    The job's history is the output of the jobs it descends from, up to the snapshots that continued them.
    """

    def __init__(self, root: Path, context: SinkCommitterContext) -> None:
        self._root, self._context = root, context
        self._folder = root / LOGS / f"{safe(context.lineage.id)}+{safe(context.uid)}"

    # -- who may publish

    @property
    def owned(self) -> bool:
        """Whether this job is the owner: the only one of its lineage that may publish now."""
        entries = self._entries()
        return bool(entries) and self._job_of(entries[-1]) == self._context.job

    def require(self) -> bool:
        """Make this job the owner, before it publishes; return False if it already was the owner.
        FencedError if another job of the lineage took over later, published what is not in this job's
        history, or took back what is in it; then this job is not the owner.
        """
        first = False
        while not self.owned:
            first, before = True, self._entries()
            if (fenced := self.fenced()) is not None:
                raise fenced
            if self._append(len(before) + 1):
                # The owner until now may have published between the look and the entry.
                newer = self.describe_newer() or self.describe_missing()
                if newer is not None:
                    self._give_back(before)
                    raise self._fenced(newer)
        return first

    def _give_back(self, before: Sequence[Path]) -> None:
        # Otherwise this job would be taken for the owner when it starts again.
        if before:
            self._create(len(before) + 2, read_bytes(before[-1]))

    def fenced(self) -> FencedError | None:
        """Return the error that says why this job may not publish now; None if it may. Changes nothing."""
        jobs = self._jobs()
        if jobs[-1:] == [self._context.job]:
            return None
        if self._context.job in jobs:
            return self._fenced(f"job {jobs[-1]!r} went on after this one")
        newer = self.describe_newer() or self.describe_missing()
        return None if newer is None else self._fenced(newer)

    def seize(self) -> None:
        """Make this job the owner, whatever other jobs of the lineage have published outside its history."""
        while not self.owned:
            self._append(len(self._jobs()) + 1)

    @property
    def ancestors(self) -> list[Fork]:
        """The snapshots that this job descends from, in this lineage; not those of a lineage it has left."""
        lineage = self._context.lineage
        jobs = [fork.job for fork in lineage.forks]
        return list(lineage.forks[jobs.index(lineage.id) :]) if lineage.id in jobs else []

    def _fenced(self, why: str) -> FencedError:
        return FencedError(
            f"job {self._context.job!r} must not publish in {str(self._root)!r}: another job goes on from a "
            f"snapshot that both descend from ({why}); let one of the two write to another directory, or end "
            "the other one and begin this one again with execution.sinks.older-snapshot=new-lineage"
        )

    # -- what is published

    def newer(self) -> list[Path]:
        """Return the lineage's published files not in this job's history; its own only if it falls back."""
        return [path for path, is_history in self._files(self._root) if not is_history]

    def missing(self) -> list[Path]:
        """Return where files of this job's history are now that another job has taken back (set aside).
        Such a file is below ``_taken_back/<job>/`` in the output directory; empty if there is none.
        """
        return [
            path
            for folder in sorted((self._root / TAKEN_BACK).glob("*/"))
            for path, is_history in self._files(unlinked(self._root, TAKEN_BACK, folder.name))
            if is_history
        ]

    def describe_newer(self) -> str | None:
        """Return text about published files that are not in this job's history; None if there are none."""
        newer = self.newer()
        if not newer:
            return None
        last = max(newer, key=lambda path: (path.stat().st_mtime_ns, path.name))
        origin = origin_of(last.name)
        assert origin is not None
        where, job = str(self._root), origin.owner.partition("+")[0]
        return f"{len(newer)} files in {where!r}, the last of checkpoint {origin.checkpoint} of job {job!r}"

    def describe_missing(self) -> str | None:
        """Return text about files of this job's history that were taken back (set aside); None for none."""
        missing = self.missing()
        if not missing:
            return None
        return (
            f"{len(missing)} files of checkpoints that it descends from were taken back to "
            f"{str(missing[0].parent)!r}"
        )

    def _files(self, folder: Path) -> Iterator[tuple[Path, bool]]:
        """Yield the lineage's files in a folder, each with whether it is in this job's history.
        Files of this job itself are left out, unless it falls back to an older snapshot of its own.
        """
        uid, lineage = self._context.uid, self._context.lineage
        forked = {fork.job for fork in self.ancestors}
        jobs = {*self._jobs(), *forked} - ({self._context.job} - forked)
        # Names of jobs are shortened in names of files, so they are compared in that form.
        owners = {pending_folder(job, uid): job for job in jobs}
        if not folder.is_dir() or not owners:
            return
        for path in _files_in(folder):
            origin = origin_of(path.name)
            job = None if origin is None else owners.get(origin.owner)
            if origin is not None and job is not None:
                place = origin.generation, origin.attempt, origin.checkpoint
                yield path, job in forked and lineage.holds(job, *place)

    # -- entries

    def _jobs(self) -> list[str]:
        return [self._job_of(entry) for entry in self._entries()]

    def _entries(self) -> list[Path]:
        return sorted(unlinked(self._root, LOGS, self._folder.name).glob("*.json"))

    def _job_of(self, entry: Path) -> str:
        try:
            return _decoder.decode(read_bytes(entry)).job
        except (ValueError, RecursionError) as problem:
            raise OperatingError(
                f"{str(entry)!r} does not tell which job went on here: {problem}; it was changed or damaged, "
                "put it back from a copy"
            ) from problem

    def _append(self, number: int) -> bool:
        context = self._context
        forks = [[fork.job, fork.generation, fork.attempt, fork.checkpoint] for fork in context.lineage.forks]
        body = {"job": context.job, "uid": context.uid, "lineage": context.lineage.id, "forks": forks}
        return self._create(number, _encoder.encode(body))

    def _create(self, number: int, data: bytes) -> bool:
        target = self._folder / f"{number:06d}.json"
        try:
            # The output itself is its readers'; who owns it is a matter of those who write.
            self._root.mkdir(parents=True, exist_ok=True)
            return create_new(target, [data], folders=3)  # up to the output itself
        except OSError as problem:
            raise storage_error(target, problem) from problem


def _files_in(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if "=" in entry.name and entry.is_dir(follow_symlinks=False):
                yield from _files_in(folder / entry.name)
            else:
                yield folder / entry.name
