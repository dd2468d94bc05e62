"""The context of an operator's subtask: identity, restored state and services, for functions and state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.common.ports import Disk
from headgate.metrics.of_programs import ProgramMetrics
from headgate.runtime.job.call_threads import OpenThread
from headgate.runtime.job.event_loops import OpenLoop
from headgate.state.backend import StateFiles as StateFiles  # every operator's snapshot uses it
from headgate.state.backends import StateBackends
from headgate.state.snapshots import OperatorSubtaskState


@dataclass(slots=True)
class OperatorContext:
    """The identity and services of an operator's subtask; user functions get it as their `RuntimeContext`."""

    uid: str  # of the operator, stable across runs
    name: str  # of the operator, for people
    subtask: int  # index of the subtask, from 0
    parallelism: int  # how many subtasks the operator has
    attempt: int  # the deployment, from 1
    job: str  # the job's id
    max_parallelism: int  # number of key groups
    clock: Any  # a `common.ports.Clock`; None in the driver
    # this subtask's share of the operator's state in the restored checkpoint
    restored: list[OperatorSubtaskState] = field(default_factory=list)
    disk: Disk | None = None  # with restored state; None if the metadata holds all of it
    step_target_ms: int | None = None  # how long timers may fire before other work runs; None: no limit
    backends: StateBackends | None = None  # creates the backend of keyed state; None: Python objects
    ignore_unclaimed: bool = False  # whether restored state that is not declared is skipped or refused
    failing_records: tuple[int, float] = (1_000, 0.01)  # how many may fail between checkpoints: number, share
    eager: bool = False  # whether corrections are sent after each batch, and not at marks only
    generation: int = 1  # of the job master; with the attempt it identifies the deployment
    # sends bytes to the driver, with the uid and the number of the subtask; None: no driver receives them
    tell: Callable[[str, int, bytes], None] | None = None
    event_loop: OpenLoop | None = None  # opens an asynchronous function's event loop; None: in the driver
    thread: OpenThread | None = None  # begins a thread beside the subtask; None: in the driver
    metrics: ProgramMetrics = field(init=False)  # of the program's function

    def __post_init__(self) -> None:
        self.metrics = ProgramMetrics(self.uid)

    @property
    def label(self) -> str:
        return f"operator {self.name!r} (uid {self.uid!r})"
