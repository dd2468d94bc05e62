"""The ports of a job master to the outside world: production and simulator implement them differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.checkpoint.storage.uris import open_disk
from headgate.common.ports import Background, Clock, Disk, Gang, Probe, Randomness, UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.job.listener import JobListener


@dataclass(frozen=True, slots=True)
class MasterPorts:
    """A job master's ports to the outside; `require_leadership`, `record_end` are for high availability."""

    clock: Clock  # time
    background: Background  # one thread (or the simulator's) for storage and committers
    gang: Gang  # starts and ends workers
    randomness: Randomness  # jitter
    probe: Probe  # where tests inject faults
    post: Callable[[Callable[[], None]], None]  # hands a callback to the job master's loop, from any thread
    listener: JobListener  # gets reports of the job's events, for progress displays
    disks: Callable[[str], Disk] = open_disk  # URI -> disk, for savepoints; raises a HeadgateError on failure
    # raises FencedError if another driver may lead by now; called before every commit. None where no other
    # driver runs this job.
    require_leadership: Callable[[], None] | None = None
    code: UserCode = SAME_INTERPRETER  # the modules in which the program's functions live in this process
    # raises unless the end of the job is recorded; called before the checkpoints are deleted from which
    # another driver would restore. None without high availability.
    record_end: Callable[[], None] | None = None
