"""Where an operator runs: what its functions and its state know of their surroundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.state.backend import StateFiles as StateFiles  # every operator's snapshot uses it
from headgate.state.backends import StateBackends
from headgate.state.snapshots import OperatorSubtaskState


@dataclass(slots=True)
class OperatorContext:
    """Where an operator runs; also the `RuntimeContext` of user functions."""

    uid: str  # of the operator
    name: str  # of the operator, for people
    subtask: int  # which parallel copy
    parallelism: int  # how many copies
    attempt: int  # the deployment, from 1
    job: str  # the job's id
    max_parallelism: int  # number of key groups
    clock: Any  # a `common.ports.Clock`; None in the driver
    # this subtask's state from the operator's subtasks in the restored checkpoint
    restored: list[OperatorSubtaskState] = field(default_factory=list)
    disk: Any = None  # the `common.ports.Disk` of restored state; None where all is inline
    step_target_ms: int | None = None  # how long timers may fire before others get their turn; None: any time
    backends: StateBackends | None = None  # makes the backend of keyed state; None: on the heap
    ignore_unclaimed: bool = False  # whether restored state that is not declared is skipped, not refused
    generation: int = 1  # of the job master; with the attempt it identifies the deployment
    # sends bytes to the driver, with the uid and the number of the subtask; None: no driver receives them
    tell: Callable[[str, int, bytes], None] | None = None

    @property
    def label(self) -> str:
        """Name and uid, as errors and logs show them."""
        return f"operator {self.name!r} (uid {self.uid!r})"
