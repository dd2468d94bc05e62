"""A record that no frame holds: refused with its operator and its size, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE

import headgate as hg
from headgate.common.errors import HeadgateError
from headgate.runtime.job.listener import JobListener
from headgate.testing import MiniCluster

LIMIT = 8 << 20


class Failures(JobListener):
    """Keeps what failed, with the pause before the next attempt."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int | None]] = []

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self.seen.append((str(error), restart_in_ms))


class Length(hg.KeyedProcessFunction[Any, Any, int]):
    """How large what came is."""

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[int]:
        yield len(record[1])


def run(size: int, failures: Failures, blocking: bool = False) -> list[int]:
    """Records of this size cross an exchange between two workers."""
    settings = RESTART_AT_ONCE | {"taskmanager.network.frame-size-max": LIMIT}
    env = hg.Environment(parallelism=2, executor=MiniCluster(failures), config=settings)

    def grow(n: int) -> tuple[int, str]:
        return n, "x" * size

    numbers = env.from_collection(list(range(6)), uid="numbers")
    grown = numbers.map(hg.blocking(grow) if blocking else grow, uid="grow")
    return grown.key_by(lambda record: record[0]).process(Length(), uid="length").collect()


@pytest.mark.parametrize("blocking", [False, True])
def test_a_record_that_no_frame_holds(blocking: bool) -> None:
    """It is named by operator, size and limit, and the job does not try again what cannot succeed."""
    failures = Failures()
    with pytest.raises(hg.UsageError) as refused:
        run(LIMIT + 1, failures, blocking)
    told = str(refused.value)
    assert "(uid 'grow') emitted a record of 8,38" in told
    assert "(uid 'length')" in told
    assert "holds at most 8,388,608 (taskmanager.network.frame-size-max)" in told
    assert "'xxxxx" in told
    assert len(told) < 1000
    assert failures.seen == [(told, None)]


def test_many_records_that_fit() -> None:
    """Records below the limit pass, however large all of them are together."""
    failures = Failures()
    assert run(LIMIT // 2, failures) == [LIMIT // 2] * 6
    assert failures.seen == []
