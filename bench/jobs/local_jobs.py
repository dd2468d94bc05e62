"""What the jobs share that run on processes of this machine: a program whose state is filled and then rests.

Nothing here asks for more than the public interface of the package that is measured, so that one checkout's
job files run against another checkout's package.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

import headgate as hg
from headgate.testing import PAUSE, ProcessCluster, TestSource

PARALLELISM: Final = 2
FOR_EVER_MS: Final = 3_600_000
RESTORES_MAX: Final = 1_000
WAIT_S: Final = 120.0
_POLL_S: Final = 0.005


class Count(hg.KeyedProcessFunction[int, int, int]):
    """One number per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        self.count.value += 1
        yield from ()


def resting(
    cluster: ProcessCluster, keys: int, storage: Path, config: Mapping[str, str] | None = None
) -> hg.Environment:
    """A job with one state per key that has nothing to do once every key has come.

    Args:
        cluster: where it runs.
        keys: of both subtasks together.
        storage: folder for checkpoints, which are taken when somebody asks for them.
        config: further options, by key.
    """
    env = hg.Environment(parallelism=PARALLELISM, executor=cluster, config=config)
    env.checkpoints(every="1h", storage=str(storage))
    # Many pauses: in older packages a checkpoint of a pause stood after it, so each restore took one away.
    pauses = [PAUSE(FOR_EVER_MS)] * RESTORES_MAX
    splits = [[*range(part, keys, PARALLELISM), *pauses] for part in range(PARALLELISM)]
    numbers = env.from_source(TestSource(*splits), uid="numbers")
    numbers.key_by(lambda number: number).process(Count(), uid="count").collect_later(uid="nothing")
    return env


def counted(handle: hg.JobHandle) -> int:
    """How many records have come to the state."""
    return handle.status().vertices[-1].records_in


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Look again and again.

    Raises:
        SystemExit: it took too long.
    """
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen within {WAIT_S:g} s")
        time.sleep(_POLL_S)


def tree_cpu_s() -> float:
    """CPU seconds of this process and of all below it, those that have ended included."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def ended(handle: hg.JobHandle) -> None:
    """Cancel a job that would rest for ever."""
    handle.cancel(WAIT_S)


Facts = dict[str, Any]
"""For the RESULT line."""
