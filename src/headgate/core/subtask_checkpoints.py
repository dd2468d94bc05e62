"""Which checkpoints one subtask may still take, and which of those it took may still be acknowledged.

A pure machine over checkpoint ids; `docs/machines/subtask-checkpoints.md` has its table and its
invariants. It does not decide when all barriers are there (`core.alignment` does), and it holds no
state or file of a checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from headgate.common.errors import InternalError

REMEMBERED_MAX: Final = 128  # aborted checkpoints that are remembered until their barriers come
_SETTLED_MAX: Final = 128  # checkpoints whose end is remembered, so that a second end is noticed


class Verdict(Enum):
    """What a subtask does about a checkpoint whose barriers are there, or that a source is to begin."""

    TAKE = "take"  # broadcast the barrier and take the snapshot
    CANCEL = "cancel"  # it was aborted before: broadcast a cancellation marker instead of the barrier
    SKIP = "skip"  # it is not newer than the last one: do nothing


@dataclass(frozen=True, slots=True)
class Abort:
    """What a subtask must do about a checkpoint that was aborted."""

    cancel_running: bool  # its asynchronous part runs and must be cancelled
    notify_operators: bool  # operators may hold something of it and should hear of the abort


class SubtaskCheckpoints:
    """Keeps track of the checkpoints of one subtask in one attempt: admitted, taken, finished, aborted.

    Example:
        >>> checkpoints = SubtaskCheckpoints()
        >>> checkpoints.aborted(1)
        Abort(cancel_running=False, notify_operators=False)
        >>> checkpoints.admit(1), checkpoints.admit(1), checkpoints.admit(2)
        (<Verdict.CANCEL: 'cancel'>, <Verdict.SKIP: 'skip'>, <Verdict.TAKE: 'take'>)
        >>> checkpoints.taken(2)
        >>> checkpoints.finished(2)
        True
    """

    __slots__ = ("_last", "_remembered", "_running", "_settled", "_taking", "_void")

    def __init__(self) -> None:
        self._last = 0
        self._remembered: set[int] = set()
        self._running: set[int] = set()
        self._taking: int | None = None
        self._void = False  # whether the one being taken was aborted meanwhile
        self._settled: deque[int] = deque(maxlen=_SETTLED_MAX)

    @property
    def last(self) -> int:
        return self._last

    @property
    def remembered(self) -> Set[int]:
        return frozenset(self._remembered)

    @property
    def running(self) -> Set[int]:
        return frozenset(self._running)

    def admit(self, checkpoint: int) -> Verdict:
        """Decide, once, what to do about `checkpoint`: all its barriers came, or a source is to begin it.
        TAKE obliges the caller to call :meth:`taken`.
        """
        if checkpoint <= self._last:
            return Verdict.SKIP
        aborted = checkpoint in self._remembered
        self._pass(checkpoint)
        if aborted:
            return Verdict.CANCEL
        self._taking, self._void = checkpoint, False
        return Verdict.TAKE

    def taken(self, checkpoint: int) -> None:
        """Record, after TAKE, that the snapshot's writing has begun in the background, else InternalError."""
        if checkpoint != self._taking:
            raise InternalError(
                f"checkpoint {checkpoint} was taken, expected {self._taking} as the one admitted last; "
                f"{self._facts()}"
            )
        self._taking = None
        if not self._void:
            self._running.add(checkpoint)

    def finished(self, checkpoint: int) -> bool:
        """Record that the writing of a snapshot ended, well or not. InternalError if it did not begin or
        ended before.

        Return True to acknowledge or decline the checkpoint; False if it was aborted, or it or a newer one is
        complete: then release the snapshot's files.
        """
        if checkpoint > self._last or checkpoint == self._taking or checkpoint in self._settled:
            raise InternalError(f"checkpoint {checkpoint} ended without running; {self._facts()}")
        self._settled.append(checkpoint)
        wanted = checkpoint in self._running
        self._running.discard(checkpoint)
        return wanted

    def aborted(self, checkpoint: int) -> Abort:
        """Record that `checkpoint` was aborted, also before its barriers come; return what is to be done."""
        if checkpoint > self._last:
            self._remember(checkpoint)
            return Abort(cancel_running=False, notify_operators=False)
        if checkpoint == self._taking:
            self._void = True
        running = checkpoint in self._running
        self._running.discard(checkpoint)
        return Abort(cancel_running=running, notify_operators=True)

    def complete(self, checkpoint: int) -> None:
        """Record that `checkpoint` is complete in all the job; it and older ones need no acknowledgement."""
        self._pass(max(checkpoint, self._last))
        self._running = {other for other in self._running if other > checkpoint}
        if self._taking is not None and self._taking <= checkpoint:
            self._void = True

    def describe(self) -> tuple[Hashable, ...]:
        known = (tuple(sorted(self._remembered)), tuple(sorted(self._running)), tuple(self._settled))
        return (self._last, *known, self._taking, self._void)

    def _pass(self, checkpoint: int) -> None:
        # Whatever is not newer can only be skipped from now on, so there is nothing to remember of it.
        self._last = checkpoint
        self._remembered = {other for other in self._remembered if other > checkpoint}

    def _remember(self, checkpoint: int) -> None:
        self._remembered.add(checkpoint)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.remove(min(self._remembered))

    def _facts(self) -> str:
        return f"last {self._last}, running {sorted(self._running)}, ended {list(self._settled)[-5:]}"
