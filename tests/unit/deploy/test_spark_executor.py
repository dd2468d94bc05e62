"""The executor on Spark without a JVM: what Ctrl-C and SIGTERM meet before anything of the job runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import headgate as hg
from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.settings.config import Config
from headgate.deploy.spark.executor import SparkExecutor

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def cancelled() -> Iterator[list[int]]:
    """Handlers as they are once PySpark has made a session; gives how often its own has come."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    came: list[int] = []

    def cancels_all_jobs(number: int, frame: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    cancels_all_jobs.__module__ = "pyspark.core.context"
    signal.signal(signal.SIGINT, cancels_all_jobs)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


class Slots:
    """A Spark context: while somebody counts its slots, a signal comes."""

    master, startTime = "spark://there:7077", 0  # noqa: N815 - Spark's name

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self._jsc = SimpleNamespace(sc=self._counted)

    def _counted(self) -> Any:
        os.kill(os.getpid(), self._number)


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_signals_while_a_job_waits_for_slots_end_it_cleanly(
    number: signal.Signals,
    raised: type[BaseException],
    cancelled: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program unwinds; PySpark's handler, which cancels other jobs of the session too, is not asked."""
    monkeypatch.setattr("headgate.deploy.spark.executor.acquire", lambda *_: Slots(number))
    env = hg.Environment(parallelism=2)
    env.from_collection([1]).collect_later(uid="out")
    job = JobSpec(name="job", nodes=(), plan=env.plan(), config=Config())
    with pytest.raises(raised):
        SparkExecutor().execute(job)
    assert cancelled == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
