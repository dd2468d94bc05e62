"""Results of in-memory sinks in the driver, to which each committable is added exactly once.

Sinks are pickled on their way to the workers, and a committer may be created anew after a restart; the
committed results must survive both. So the results belong to the sink object of the user's program, and every
copy of that sink in the same process finds them again by a ticket.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias
from weakref import WeakValueDictionary

from headgate.api.sink import SinkWriterContext

_TICKETS: Final = itertools.count(1)

Ticket: TypeAlias = tuple[int, int, str]
"""Key of a :class:`DriverResults` object: process id, number in that process, name of its class."""


def writer_name(context: SinkWriterContext) -> str:
    """Return a name for a sink writer that no other writer has, in any job, attempt and subtask."""
    return f"{context.job}/{context.uid}/{context.generation}.{context.attempt}/{context.subtask}"


class CommittedOnce:
    """Remembers which committables were added already, so that a repeated commit adds nothing.

    Of each writer it keeps a number below which all are added, and the few added ones above it, so that
    memory does not grow with the number of checkpoints.

    Example:
        >>> once = CommittedOnce()
        >>> once.take("w", 0), once.take("w", 0), once.take("w", 2), once.take("w", 1), once.take("w", 2)
        (True, False, True, True, False)
    """

    def __init__(self) -> None:
        self._below: dict[str, int] = {}
        self._above: dict[str, set[int]] = {}

    def take(self, writer: str, sequence: int) -> bool:
        """Record a writer's committable number `sequence`, from 0; return False if it was recorded before."""
        low, above = self._below.get(writer, 0), self._above.setdefault(writer, set())
        if sequence < low or sequence in above:
            return False
        above.add(sequence)
        while low in above:
            above.remove(low)
            low += 1
        self._below[writer] = low
        return True


class DriverResults:
    """A sink's results, in the driver: unpickled where it was made it is the same object, elsewhere empty."""

    _living: ClassVar[WeakValueDictionary[Ticket, DriverResults]] = WeakValueDictionary()

    def __init__(self) -> None:
        self.once = CommittedOnce()
        self._ticket = (os.getpid(), next(_TICKETS), type(self).__qualname__)
        self._living[self._ticket] = self

    def __reduce__(
        self,
    ) -> tuple[Callable[[type[DriverResults], Ticket], DriverResults], tuple[type[DriverResults], Ticket]]:
        return _find, (type(self), self._ticket)


def _find(kind: type[DriverResults], ticket: Ticket) -> DriverResults:
    # The process id is compared because a forked worker inherits the driver's table.
    living = DriverResults._living.get(ticket) if ticket[0] == os.getpid() else None
    return living if living is not None else kind()
