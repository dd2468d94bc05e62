"""What must hold in every simulation, whatever the job: told of events, complains at once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from headgate.common.errors import HeadgateError, InternalError, UsageError
from headgate.core.execution import JobState
from headgate.runtime.events import JobListener
from headgate.runtime.network.frames import Frame, FrameKind

if TYPE_CHECKING:
    from headgate.testing.simulation.network import Lane
    from headgate.testing.simulation.world import World

_NUMBER = struct.Struct("<q")


class Violation(BaseException):
    """Something happened that must not happen."""


class Checks:
    """The invariants of every job; subclasses add those of their own workload.

    Attributes:
        completed: checkpoints completed so far.
    """

    def __init__(self) -> None:
        self.completed = 0
        self._last_checkpoint = 0
        self._watermarks: dict[tuple[int, int, int, int], int] = {}

    def begins(self, world: World) -> None:
        """The simulation is about to start."""

    def listener(self, world: World) -> JobListener:
        """What the job master reports to."""
        return _Listener(world, self)

    def frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """A frame arrived: watermarks never fall on a channel."""
        if frame.kind is not FrameKind.WATERMARK:
            return
        channel = (attempt, frame.edge, frame.sender, frame.receiver)
        mark = _NUMBER.unpack(frame.payload())[0]
        if mark < self._watermarks.get(channel, mark):
            raise Violation(
                f"the watermark of channel {channel} fell from {self._watermarks[channel]} to {mark}"
            )
        self._watermarks[channel] = mark

    def touched(self, world: World, operation: str, name: str, verdict: str) -> None:
        """A process touched the disk."""

    def checkpoint(self, world: World, checkpoint: int) -> None:
        """A checkpoint completed and is committed: ids strictly increase."""
        if checkpoint <= self._last_checkpoint:
            raise Violation(f"checkpoint {checkpoint} completed after {self._last_checkpoint}")
        self._last_checkpoint = checkpoint
        self.completed += 1

    def deploying(self, world: World, attempt: int, checkpoint: int | None) -> None:
        """An attempt begins, from `checkpoint` or from nothing."""
        if checkpoint is not None and checkpoint < self._last_checkpoint:
            raise Violation(
                f"attempt {attempt} begins from checkpoint {checkpoint} although "
                f"{self._last_checkpoint} completed"
            )
        if checkpoint is None and self._last_checkpoint:
            raise Violation(f"attempt {attempt} begins anew although {self._last_checkpoint} completed")

    def failed(self, world: World, error: HeadgateError) -> None:
        """An attempt failed: only what was done to it may be the reason."""
        if not world.faults.done or isinstance(error, InternalError | UsageError):
            raise Violation(f"an attempt failed by itself: {type(error).__name__}: {error}")

    def ended(self, world: World) -> None:
        """The job is over: it finished, and nothing of it is left."""
        master = world.master
        if master.state is not JobState.FINISHED:
            raise Violation(f"the job ended as {master.state.value}: {master.error}")
        left = [worker.name for worker in world.gang.living()]
        if left:
            raise Violation(f"after the end there are still {', '.join(left)}")


class _Listener(JobListener):
    def __init__(self, world: World, checks: Checks) -> None:
        self._world, self._checks = world, checks

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._world.note(f"deploying attempt {attempt} from {checkpoint}")
        self._checks.deploying(self._world, attempt, checkpoint)

    def running(self, attempt: int) -> None:
        self._world.note(f"attempt {attempt} runs")

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._world.note(f"checkpoint {checkpoint} completed")
        self._checks.checkpoint(self._world, checkpoint)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        first = str(error).partition("\n")[0]
        self._world.note(f"attempt {attempt} failed: {type(error).__name__}: {first}")
        self._checks.failed(self._world, error)

    def note(self, text: str) -> None:
        self._world.note(text.partition("\n")[0])

    def ended(self, state: str) -> None:
        self._world.note(f"the job is {state}")
