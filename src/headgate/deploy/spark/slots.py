"""Counts Spark's task slots before a gang of workers is submitted; too few are refused in one line.

Spark itself would wait for minutes, or for ever when other jobs hold the slots.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import OperatingError, UsageError
from headgate.common.files.durable import clock
from headgate.common.settings.options import RESERVED_SLOTS

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOG: Final = logging.getLogger("headgate.job")
_POLL_S: Final = 0.2
_held: Counter[str] = Counter()
_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Need:
    """The task slots of Spark that a job takes: `gang` for its workers, `reserved` for Spark's own tasks."""

    gang: int
    reserved: int  # for Spark's own tasks that run at the same time as the gang

    @property
    def total(self) -> int:
        return self.gang + self.reserved


def task_slots(context: SparkContext) -> int:
    """Return how many tasks Spark's present executors can run at a time, busy slots included."""
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))


def wait_for_slots(context: SparkContext, need: Need, come_within_s: float) -> int:
    """Wait until Spark has the slots that a job needs, or time is up; return how many it has, busy or not.

    Executors may take `come_within_s` to register, counted from the application's start.
    """
    deadline = context.startTime / 1000 + come_within_s
    while (found := task_slots(context)) < need.total and clock.time() < deadline:
        clock.sleep(_POLL_S)
    return found


def held(application: str) -> int:
    with _lock:
        return _held[application]


class Hold:
    """The task slots that one job has taken in the Spark application of this id; `master` is for messages."""

    def __init__(self, application: str, need: Need, master: str) -> None:
        self.need = need
        self._application, self._master = application, master

    def refusal(self, gang: int, available: int) -> str | None:
        """Return why the job cannot rescale to `gang` workers in Spark of `available` slots; None: it can."""
        wanted = Need(gang, self.need.reserved)
        with _lock:
            others = _held[self._application] - self.need.gang
        if available - others >= wanted.total:
            return None
        return too_few(wanted, available, others, self._master)

    def shortage(self, gang: int, available: int) -> str | None:
        """Return why a running job's next gang cannot start in a Spark of `available` slots; None: it can.

        Slots reserved for Spark do not count: a job that goes on without them is better than none.
        """
        with _lock:
            others = _held[self._application] - self.need.gang
        left = available - others
        if left >= gang:
            return None
        held = f", of which other Headgate jobs hold {others}" if others else ""
        fewer = left - self.need.reserved  # what `refusal` lets pass
        mend = f", or with fewer: headgate rescale JOB --parallelism {fewer} --from-last" if fewer > 0 else ""
        return (
            f"the workers need {gang} task slots, and Spark at {self._master} has {available} now{held}: "
            f"executors were lost; the job goes on when they are replaced{mend}"
        )

    def resize(self, gang: int) -> None:
        """Record that the job takes slots for `gang` workers from now on, whether Spark has them or not."""
        with _lock:
            _held[self._application] += gang - self.need.gang
            self.need = Need(gang, self.need.reserved)


def await_return(
    context: SparkContext, hold: Hold, gang: int, within_s: float, given_up: threading.Event
) -> None:
    """Wait until Spark has slots for `gang` workers or `given_up` is set; OperatingError after `within_s`."""
    deadline, logged = clock.monotonic() + within_s, False
    while (shortage := hold.shortage(gang, task_slots(context))) is not None:
        if clock.monotonic() >= deadline:
            raise OperatingError(shortage)
        if not logged:
            _LOG.warning("%s; waiting %g s", shortage, within_s)
            logged = True
        if given_up.wait(_POLL_S):
            return


@contextmanager
def holding(application: str, need: Need, available: int, master: str) -> Iterator[Hold]:
    """Take a gang's slots of the application, as this process counts them, in the block; yield the hold.
    UsageError if other jobs of this process leave too few of the `available` ones; `master` is for messages.
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
    """Return the message that refuses a job for want of slots (`taken` are other jobs'), and the remedy.

    Example:
        >>> too_few(Need(2, 1), 2, 0, "local[2]")
        "the job needs 3 task slots (2 for its workers and 1 reserved for Spark's own tasks), and Spark at \
local[2] has 2; open the session with master local[3] (headgate run --master 'local[3]'), or lower the \
parallelism from 2 to 1"
    """
    parts = f"{need.gang} for its workers and {need.reserved} reserved for Spark's own tasks"
    needs = f"{need.total} task slots ({parts})"
    has = f"has {available}" + (f", of which other Headgate jobs hold {taken}" if taken else "")
    left = available - taken - need.reserved
    more = need.total + taken
    if master.startswith("local"):
        mend = f"open the session with master local[{more}] (headgate run --master 'local[{more}]')"
    else:
        mend = f"give the application more cores or executors ({more} slots in all)"
    if left >= 1:
        lower = f", or lower the parallelism from {need.gang} to {left}"
        room = f"; as it is, Spark has room for a parallelism of {left} in place of {need.gang}"
        mend += lower if 2 * left >= need.gang else room
    elif need.reserved and available - taken >= need.gang:
        mend += f", or set {RESERVED_SLOTS.key}=0"
    return f"the job needs {needs}, and Spark at {master} {has}; {mend}"
