"""The handle of a job, whatever its executor does: nobody waits longer than said, nothing is left running."""

from __future__ import annotations

import _thread
import contextlib
import threading
from typing import Any

import pytest
from api_fakes import Numbers, RecordingExecutor, Shelf

import headgate as hg
from headgate.api.jobs.executor_contract import JobSpec


class Control:
    """Of a job that ends when it is cancelled, and answers nothing else."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self, handed_over: bool = False) -> None:
        self.cancelled.set()

    def checkpoint(self, then: Any) -> None:
        """Never answered."""


class Held(RecordingExecutor):
    """Begins its job when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_begin, self.runs, self.control = threading.Event(), threading.Event(), Control()

    def execute(self, job: JobSpec) -> hg.JobResult:
        self.may_begin.wait()
        assert job.begins is not None
        job.begins(self.control)  # type: ignore[arg-type]
        self.runs.set()
        self.control.cancelled.wait()
        return super().execute(job)


class Broken(Held):
    """Fails after it has begun."""

    def execute(self, job: JobSpec) -> hg.JobResult:
        super().execute(job)
        raise hg.JobFailedError("broken")


class Frame(Shelf):
    """Has rows at any time, maybe not all."""

    dataframe: Any = "rows"


def start(executor: RecordingExecutor) -> hg.JobHandle:
    """A job without any work."""
    env = hg.Environment(parallelism=1, executor=executor)
    env.from_source(Numbers(), uid="in").sink_to(Shelf(), uid="out")
    return env.execute_async("job")


def test_a_limit_counts_while_the_job_has_not_begun() -> None:
    """Opening a session, or standing by, takes as long as it takes."""
    executor = Held()
    job = start(executor)
    for ask in (job.checkpoint, job.savepoint, job.stop):
        with pytest.raises(TimeoutError):
            ask(timeout_s=0)
    with pytest.raises(TimeoutError):
        job.rescale(2, timeout_s=0)
    executor.may_begin.set()
    executor.runs.wait()
    with pytest.raises(TimeoutError):
        job.checkpoint(timeout_s=0)
    job.cancel()
    job.result()


def test_cancelled_before_it_begins_a_job_ends_as_soon_as_it_has() -> None:
    """A call that must not wait does not, and one that waits too short says that it goes on."""
    executor = Held()
    job = start(executor)
    job.cancel(timeout_s=0)
    with pytest.raises(TimeoutError, match=r"'job' has not ended 0\.05 s after it was cancelled"):
        job.cancel(timeout_s=0.05)
    assert not job.done
    executor.may_begin.set()
    job.result()
    assert executor.control.cancelled.is_set()


def test_a_cancelled_job_has_ended_when_the_call_returns() -> None:
    """The next one finds its slots."""
    executor = Held()
    job = start(executor)
    executor.may_begin.set()
    job.cancel()
    assert job.done


@pytest.mark.parametrize("seconds", [-1, -0.5, float("nan")])
def test_a_time_below_zero_cancels_nothing(seconds: float) -> None:
    """A wait that cannot be is refused before the job is touched, by a handle of either kind."""
    executor = Held()
    job = start(executor)
    executor.may_begin.set()
    executor.runs.wait()
    for handle in (job, hg.RemoteJob.__new__(hg.RemoteJob)):
        with pytest.raises(
            hg.PlanError, match=r"of cancel\(\) \(test_api_job_handle\.py:\d+\) is .* at least 0"
        ):
            handle.cancel(timeout_s=seconds)
    assert not executor.control.cancelled.is_set()
    job.cancel()


def test_a_job_that_never_began_here_answers_all_the_same() -> None:
    """Its executor found nothing left to do."""
    job = start(RecordingExecutor())
    job.result()
    with pytest.raises(hg.OperatingError, match="before it could be asked"):
        job.status()
    job.cancel()


def test_an_interrupt_at_the_end_of_a_block_cancels_the_job() -> None:
    """As it does while its result is waited for; otherwise the process would stay for an endless job."""
    executor = Held()
    executor.may_begin.set()

    def interrupt() -> None:
        executor.runs.wait()
        _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt), start(executor):
        threading.Thread(target=interrupt).start()
    assert executor.control.cancelled.is_set()


@pytest.mark.parametrize(("executor", "rows"), [(Held(), "rows"), (Broken(), None)])
def test_a_dataframe_is_there_when_its_job_has_ended_well(executor: Held, rows: Any) -> None:
    """Rows of a job that runs or has failed may be a part of them."""
    env = hg.Environment(parallelism=1, executor=executor)
    sink = Frame()
    number = env.from_source(Numbers(), uid="in").sink_to(sink, uid="out")._number
    later = hg.DataFrameLater(env, sink, number)

    def found() -> Any:
        try:
            return later.dataframe
        except hg.PlanError:
            return None

    before, job = found(), env.execute_async("job")
    try:
        starting = found()
        executor.may_begin.set()
        assert executor.runs.wait(60)
        running, shown = found(), repr(later)
    finally:
        executor.may_begin.set()
        executor.control.cancel()
    with contextlib.suppress(hg.JobFailedError):
        job.result()
    assert (before, starting, running) == (None, None, None)
    assert shown == "<DataFrameLater: not executed yet>"
    assert found() == rows
