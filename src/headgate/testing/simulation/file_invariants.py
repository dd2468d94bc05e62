"""Invariants of a simulated job's stored files, whichever process changes them, checked at each change.

The job's log is read by code of its own, so that a mistake in the reading of the log shows, too.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from headgate.checkpoint.layout import METADATA, checkpoint_of
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import referenced_ranges, verify_files
from headgate.checkpoint.store.entries import Claim, Completed, Entry, decode_entry, digest
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.common.process.process_exceptions import PastAllHandlers
from headgate.ha.files.file_election import ENDED
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.simulation.virtual_disk import URI, SimDisk, SimFiles


class Violation(PastAllHandlers):
    """A simulated job broke an invariant; ends the simulation past all of the job's own handlers."""


@dataclass(frozen=True, slots=True)
class _Logged:
    """A completed checkpoint in the log: its entry, and the names of its metadata and all its files."""

    entry: Completed
    metadata: str
    files: frozenset[str]
    root: str


class StoredFiles:
    """The stored files of all executions of a job. Its methods raise `Violation` for a broken invariant."""

    def __init__(self, files: SimFiles) -> None:
        self._files = files
        self._entries: dict[str, tuple[bytes, Entry]] = {}
        self._runs: dict[str, list[Entry]] = {}
        self._newest: dict[str, int] = defaultdict(int)
        self._known: dict[str, _Logged] = {}
        self._savepoints: dict[str, str] = {}

    def run(self, job: str) -> list[Entry]:
        """Return the valid entries of a job's log, oldest first: the last one, and each before that which is
        named by the number and digest in its successor.
        """
        if (cached := self._runs.get(job)) is not None:
            return cached
        prefix = f"{job}/log/"
        names = [name for name in self._files.names(f"{job}/log") if name.removeprefix(prefix).isdigit()]
        chain: list[Entry] = []
        place, following = 0, ""
        for name in reversed(names):
            data, entry = self._entry(name)
            if chain and (int(name.removeprefix(prefix)) != place - 1 or digest(data) != following):
                break
            chain.append(entry)
            place, following = int(name.removeprefix(prefix)), entry.previous
        self._runs[job] = chain[::-1]
        return self._runs[job]

    def completed(self, job: str) -> list[Completed]:
        return [entry for entry in self.run(job) if isinstance(entry, Completed)]

    def generation(self, job: str) -> int:
        return max((entry.generation for entry in self.run(job)), default=0)

    def metadata(self, entry: Completed) -> CheckpointMetadata:
        """Return the decoded metadata that a log entry names; Violation if its file is absent or changed."""
        name = entry.metadata.removeprefix(f"{URI}/")
        data = self._files.files.get(name)
        if data is None:
            raise Violation(f"checkpoint {entry.checkpoint} is in the log, but {name} does not exist")
        if digest(data) != entry.sha256:
            raise Violation(f"checkpoint {entry.checkpoint} is in the log with another {name}")
        return decode_metadata(data, name)

    def jobs(self) -> list[str]:
        return sorted({name.partition("/")[0] for name in self._files.files if "/log/" in name})

    def deleting(self, process: str, name: str) -> None:
        """Check that no completed checkpoint in a log, and no reported savepoint, needs file `name` (from the
        root), which `process` is about to delete.
        """
        if name not in self._files.files:
            return
        if name in self._savepoints:
            raise Violation(f"{process} deletes {name} of the savepoint {self._savepoints[name]}")
        for job in self.jobs():
            for entry in self.completed(job):
                logged = self._logged(entry)
                if name in logged.files or name == logged.metadata:
                    raise Violation(
                        f"{process} deletes {name}, which checkpoint {entry.checkpoint} in the log of "
                        f"{job} needs"
                    )

    def changed(self, process: str, name: str) -> None:
        """Check the order of a job's log after one of its files was created, replaced or deleted."""
        job, _, rest = name.partition("/")
        if rest.startswith("log/"):
            self._runs.pop(job, None)
            self._demand_order(process, job)

    def savepoint(self, uri: str) -> CheckpointMetadata:
        """Check that the savepoint in folder `uri`, which was reported as complete, has all its files intact,
        else Violation; return its metadata. From now on :meth:`deleting` guards these files.
        """
        disk = SimDisk.at(uri, self._files)
        try:
            metadata = decode_metadata(disk.read(METADATA), uri)
            verify_files(disk, metadata)
        except (StorageError, FileNotFoundError) as error:
            raise Violation(f"savepoint {uri} was reported as done, but: {error}") from error
        folder = uri.removeprefix(f"{URI}/")
        names = {f"{folder}/{item.file}" for item in referenced_ranges(metadata)}
        self._savepoints |= dict.fromkeys([*sorted(names), f"{folder}/{METADATA}"], uri)
        return metadata

    def _end_on_record(self) -> bool:
        return any(name.endswith(ENDED) for name in self._files.files)

    def demand_complete(self, job: str) -> None:
        """Raise Violation unless all files of the completed checkpoints in a job's log are intact."""
        for entry in self.completed(job):
            metadata = self.metadata(entry)
            try:
                verify_files(SimDisk(self._files, root=self._logged(entry).root), metadata)
            except StorageError as error:
                raise Violation(f"completed checkpoint {entry.checkpoint} cannot be read: {error}") from error

    def demand_complete_savepoints(self) -> None:
        for name in self._files.names("savepoints"):
            if name.endswith(f"/{METADATA}"):
                self.savepoint(f"{URI}/{name.rpartition('/')[0]}")

    def orphans(self, job: str) -> set[str]:
        """Return what a sweep must delete: unfinished files of checkpoints, and all files of those not in the
        log, except of those newer than the log's last that have metadata and all their files.
        """
        needed, completed = self._needed(job)
        needed |= self._perhaps_complete(job, max(completed, default=0))
        unfinished = self._files.unfinished(job)
        return {name for name in unfinished if checkpoint_of(name, JobId(job)) is not None} | {
            name
            for name in self._files.names(job)
            if name not in needed and checkpoint_of(name, JobId(job)) not in {None, *completed}
        }

    def _needed(self, job: str) -> tuple[set[str], set[int]]:
        logged = [self._logged(entry) for entry in self.completed(job)]
        files = {name for each in logged for name in (*each.files, each.metadata)}
        return files, {each.entry.checkpoint for each in logged}

    def _perhaps_complete(self, job: str, newest: int) -> set[str]:
        found: set[str] = set()
        names = set(self._files.names(job))
        for name in names:
            owner = checkpoint_of(name, JobId(job))
            if owner is None or owner <= newest or not name.endswith(f"/{METADATA}"):
                continue
            try:
                metadata = decode_metadata(self._files.files[name], name)
            except StorageError:
                continue
            files = {item.file for item in referenced_ranges(metadata)}
            if files <= names:
                found |= {name, *files}
        return found

    def unneeded(self, job: str) -> set[str]:
        needed, completed = self._needed(job)
        return {
            name
            for name in self._files.names(job)
            if name not in needed and checkpoint_of(name, JobId(job)) in completed
        }

    def _demand_order(self, process: str, job: str) -> None:
        """Check a log: ids increase, only the last claimant appends, the newest stays until the job's end."""
        generation: int | None = None
        token, last = "", 0
        for entry in self.run(job):
            if isinstance(entry, Claim):
                # In the place of an entry that was lost its claimant may put a claim of the same token.
                again = entry.generation == generation and token in ("", entry.token)
                if generation is not None and entry.generation <= generation and not again:
                    raise Violation(f"{process} claims {job} again as generation {entry.generation}")
                generation, token = entry.generation, entry.token
                continue
            if generation is not None and entry.generation != generation:
                raise Violation(
                    f"checkpoint {entry.checkpoint} of generation {entry.generation} stands in the log of "
                    f"{job} after the claim of generation {generation}"
                )
            if entry.checkpoint <= last:
                raise Violation(f"in the log of {job} checkpoint {entry.checkpoint} stands after {last}")
            generation, last = entry.generation, entry.checkpoint
        if last < self._newest[job] and not self._end_on_record():
            raise Violation(f"checkpoint {self._newest[job]} of {job} is not the last in its log any more")
        self._newest[job] = last

    def _logged(self, entry: Completed) -> _Logged:
        name = entry.metadata.removeprefix(f"{URI}/")
        known = self._known.get(name)
        if known is None or known.entry != entry:
            outside = entry.metadata.startswith(URI)
            root = name.rpartition("/")[0] if outside else ""
            above = f"{root}/" if root else ""
            ranges = referenced_ranges(self.metadata(entry))
            files = frozenset(above + item.file for item in ranges)
            known = self._known[name] = _Logged(entry, name, files, root)
        return known

    def _entry(self, name: str) -> tuple[bytes, Entry]:
        data = self._files.files[name]
        known = self._entries.get(name)
        if known is None or known[0] != data:
            known = self._entries[name] = (data, decode_entry(data, name))
        return known
