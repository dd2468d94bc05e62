"""Are there enough task slots for a job? Counted before the gang is submitted, refused in one line.

Spark itself would wait for minutes, or for ever when other jobs hold the slots.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError
from headgate.common.options import RESERVED_SLOTS

if TYPE_CHECKING:
    from pyspark import SparkContext

EXECUTORS_COME_S: Final = 30.0
"""How long executors of a cluster may take to register after the application has started."""

_POLL_S: Final = 0.2
_held: Counter[str] = Counter()
_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Need:
    """How many slots a job takes.

    Attributes:
        gang: one per worker.
        reserved: for Spark's own tasks beside the gang.
    """

    gang: int
    reserved: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.gang + self.reserved


def task_slots(context: SparkContext) -> int:
    """How many tasks can run at the same time now: what Spark's own check of barrier stages counts."""
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def wait_for_slots(context: SparkContext, need: Need, local: bool) -> int:
    """The slots there are, once they suffice or no more executors can be expected."""
    deadline = 0.0 if local else context.startTime / 1000 + EXECUTORS_COME_S
    while (found := task_slots(context)) < need.total and time.time() < deadline:
        time.sleep(_POLL_S)
    return found


class Hold:
    """The slots that one job has taken.

    Attributes:
        need: what it takes now.
    """

    def __init__(self, application: str, need: Need, master: str) -> None:
        self.need = need
        self._application, self._master = application, master

    def refusal(self, gang: int, available: int) -> str | None:
        """Why the job cannot have `gang` workers in place of those that it has; None: it can.

        Args:
            gang: wanted.
            available: all slots that the application has now.
        """
        wanted = Need(gang, self.need.reserved)
        with _lock:
            others = _held[self._application] - self.need.gang
        if available - others >= wanted.total:
            return None
        return too_few(wanted, available, others, self._master)

    def resize(self, gang: int) -> None:
        """From now on the job has `gang` workers."""
        with _lock:
            _held[self._application] += gang - self.need.gang
            self.need = Need(gang, self.need.reserved)


@contextmanager
def holding(application: str, need: Need, available: int, master: str) -> Iterator[Hold]:
    """Take the slots of a gang for the life of a job.

    Args:
        application: id of the Spark application, of which several jobs may take slots.
        need: what the job takes.
        available: all slots that the application has.
        master: for the message.

    Raises:
        UsageError: too few are left.
    """
    with _lock:
        taken = _held[application]
        if available - taken < need.total:
            raise UsageError(too_few(need, available, taken, master))
        _held[application] += need.gang
    hold = Hold(application, need, master)
    try:
        yield hold
    finally:
        hold.resize(0)


def too_few(need: Need, available: int, taken: int, master: str) -> str:
    """The refusal.

    Example:
        >>> too_few(Need(2, 1), 2, 0, "local[2]")
        "the job needs 3 task slots (2 for its workers and 1 reserved for Spark's own tasks), and Spark at \
local[2] has 2; open the session with master local[3], or lower the parallelism to 1"
    """
    parts = f"{need.gang} for its workers and {need.reserved} reserved for Spark's own tasks"
    needs = f"{need.total} task slots ({parts})"
    has = f"has {available}" + (f", of which other Headgate jobs hold {taken}" if taken else "")
    left = available - taken - need.reserved
    more = need.total + taken
    if master.startswith("local"):
        mend = f"open the session with master local[{more}]"
    else:
        mend = f"give the application more cores or executors ({more} slots in all)"
    if left >= 1:
        mend += f", or lower the parallelism to {left}"
    elif need.reserved and available - taken >= need.gang:
        mend += f", or set {RESERVED_SLOTS.key}=0"
    return f"the job needs {needs}, and Spark at {master} {has}; {mend}"
