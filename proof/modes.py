"""How barriers travel in a run, and whether its recoveries had records in flight to restore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.opening import load_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import HeadgateError
from headgate.common.ids import JobId
from proof.watcher import Event, Watcher


@dataclass(frozen=True)
class Mode:
    """A way of taking checkpoints.

    Attributes:
        name: for people and for the record.
        options: what it adds to the job's configuration.
        backpressure: whether the job is made slow at its keyed operator while faults are due, so that
            barriers find records to overtake.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    backpressure: bool = False


def _overtaking(name: str, timeout: str) -> Mode:
    options = {
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.aligned-checkpoint-timeout": timeout,
    }
    return Mode(name, options, backpressure=True)


ALIGNED = Mode("aligned")
UNALIGNED = _overtaking("unaligned", "0ms")
TIMEOUT = _overtaking("timeout", "30ms")
MODES = (ALIGNED, UNALIGNED, TIMEOUT)


def mode_named(name: str) -> Mode:
    """The mode of a name."""
    return next(mode for mode in MODES if mode.name == name)


@dataclass
class Restored:
    """What the recoveries of a run started from.

    Attributes:
        recoveries: attempts that began from a checkpoint and came to run.
        with_records: those whose checkpoint held records in flight.
        records: of all of them together.
    """

    recoveries: int = 0
    with_records: int = 0
    records: int = 0

    def add(self, other: Restored) -> None:
        """Count those of `other` as well."""
        self.recoveries += other.recoveries
        self.with_records += other.with_records
        self.records += other.records


def restored_by(watcher: Watcher) -> Restored:
    """The recoveries that a driver told of; what could not be read counts as nothing in flight."""
    found = Restored()
    deployed: Event | None = None
    for event in list(watcher.events):
        if event.name == "deploying":
            deployed = event
        elif event.name == "running" and deployed is not None:
            records = deployed.facts["in_flight"] or 0
            if deployed.facts["checkpoint"] is not None:
                found.add(Restored(1, int(records > 0), records))
            deployed = None
    return found


def check_restored(mode: Mode, restored: Restored) -> Iterator[str]:
    """An aligned checkpoint holds no record in flight."""
    if not mode.backpressure and restored.records:
        yield f"{mode.name} checkpoints held {restored.records} records in flight"


def unproved(restored: Mapping[Mode, Iterable[Restored]]) -> Iterator[str]:
    """What a proof may not claim: modes that should have restored records in flight and never did.

    Args:
        restored: mode -> what its runs restored; modes without a run are not in it.
    """
    for mode, runs in restored.items():
        totals = Restored()
        for run in runs:
            totals.add(run)
        if mode.backpressure and not totals.with_records:
            yield f"none of {totals.recoveries} recoveries in {mode.name} runs restored records in flight"


class InFlight:
    """Counts the records in flight of the checkpoints of a storage, for a driver's listener.

    Args:
        storage: its root, with a folder per job.
    """

    def __init__(self, storage: Path) -> None:
        self._storage = storage

    def of(self, checkpoint: int) -> int | None:
        """How many it holds; None when it cannot be read now, for instance because that is the fault."""
        try:
            return self._count(checkpoint)
        except (HeadgateError, OSError):
            return None

    def _count(self, checkpoint: int) -> int | None:
        disk = LocalDisk(self._storage)
        jobs = [folder for folder in self._storage.iterdir() if (folder / "log").is_dir()]
        # A job that has completed none yet is restored from the log of the one before.
        for folder in sorted(jobs, key=lambda job: (job / "log").stat().st_mtime, reverse=True):
            for entry in CompletedCheckpointLog(disk, log_folder(JobId(folder.name))).completed():
                if entry.checkpoint == checkpoint:
                    metadata = load_metadata(disk, entry.metadata, entry.sha256)
                    return sum(part.records for stream in metadata.in_flight for part in stream.parts)
        return None
