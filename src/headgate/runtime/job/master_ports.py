"""What a job master is given: its doors to the outside, and where its first attempt begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.checkpoint.storage.uris import open_disk
from headgate.common.ports import Background, Clock, Disk, Gang, Probe, Randomness, UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.job.listener import JobListener


@dataclass(frozen=True, slots=True)
class MasterPorts:
    """The doors of the job master."""

    clock: Clock  # time
    background: Background  # one thread (or the simulator's) for storage and committers
    gang: Gang  # starts and ends workers
    randomness: Randomness  # jitter
    probe: Probe  # where tests strike
    post: Callable[[Callable[[], None]], None]  # hands a callback to the job master's loop, from any thread
    listener: JobListener  # is told what happens, for progress displays
    # opens the disk below a URI, for savepoints; raises a HeadgateError where it cannot
    disks: Callable[[str], Disk] = open_disk
    # raises FencedError where another driver may lead by now; asked before every commit. None where no other
    # driver runs this job.
    require_leadership: Callable[[], None] | None = None
    code: UserCode = SAME_INTERPRETER  # where the program's functions live in this process
    # raises unless it is on record that the job is over; asked before the checkpoints are deleted that
    # another driver would go on from. None where none would.
    record_end: Callable[[], None] | None = None
