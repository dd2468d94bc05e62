"""The modes of the checkpoint coordinator, and its statistics for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from headgate.common.ids import CheckpointId


class Mode(Enum):
    """Whether the job's tasks run, so that the coordinator may take checkpoints."""

    SUSPENDED = "suspended"  # no attempt's tasks run
    RUNNING = "running"
    FAILING = "failing"  # the job master was asked to end the attempt, and has not done so yet
    SHUTDOWN = "shut down"


class Order(Enum):
    """The events that change the mode of the checkpoint coordinator."""

    START = "start"
    FAIL = "fail"
    SUSPEND = "suspend"
    SHUTDOWN = "shutdown"


MODES: Final = {
    (Mode.SUSPENDED, Order.START): Mode.RUNNING,
    (Mode.SUSPENDED, Order.SUSPEND): Mode.SUSPENDED,
    (Mode.SUSPENDED, Order.SHUTDOWN): Mode.SHUTDOWN,
    (Mode.RUNNING, Order.FAIL): Mode.FAILING,
    (Mode.RUNNING, Order.SUSPEND): Mode.SUSPENDED,
    (Mode.RUNNING, Order.SHUTDOWN): Mode.SHUTDOWN,
    (Mode.FAILING, Order.SUSPEND): Mode.SUSPENDED,
    (Mode.FAILING, Order.SHUTDOWN): Mode.SHUTDOWN,
    (Mode.SHUTDOWN, Order.SUSPEND): Mode.SHUTDOWN,
    (Mode.SHUTDOWN, Order.SHUTDOWN): Mode.SHUTDOWN,
}
"""Every legal change of the mode; a running coordinator must be suspended before it starts anew."""


@dataclass(frozen=True, slots=True)
class CoordinatorStatistics:
    """Counts and ids of a job's checkpoints, for progress lines and the dashboard."""

    mode: str  # value of the :class:`Mode`
    triggered: int
    completed: int
    failed: int  # checkpoints and savepoints aborted, or not stored, for any reason
    pending: tuple[CheckpointId, ...]  # ids, oldest first
    latest: CheckpointId | None  # newest completed id, also one found at the start
    last_failure: str | None  # text of the last failure
    savepoints: int = 0  # stored, those that the job was stopped with included
    waiting: int = 0  # requests
    held_by: str | None = None  # name of the reason for which the first request waits
