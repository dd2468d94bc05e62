"""What a job master is given: its doors to the outside, and where its first attempt begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.common.ports import Background, Clock, Gang, Probe, Randomness
from headgate.runtime.events import JobListener
from headgate.state.snapshots import CheckpointMetadata


@dataclass(frozen=True, slots=True)
class MasterPorts:
    """The doors of the job master.

    Attributes:
        clock: time.
        background: one thread (or the simulator's) for storage and committers.
        gang: starts and ends workers.
        randomness: jitter.
        probe: where tests strike.
        post: hands a callback to the job master's loop, from any thread.
        listener: is told what happens, for progress displays.
    """

    clock: Clock
    background: Background
    gang: Gang
    randomness: Randomness
    probe: Probe
    post: Callable[[Callable[[], None]], None]
    listener: JobListener


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where an attempt begins: a checkpoint and the root that its files are named from."""

    checkpoint: CheckpointMetadata
    storage: str | None
