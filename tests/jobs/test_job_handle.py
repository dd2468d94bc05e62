"""Jobs that a program started and goes on beside: what they tell, how they end, and what is left of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, Count, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.testing import MiniCluster

WORDS = [f"w{n % 5}" for n in range(50)]


def started(folder: Path, number: int, **more: Any) -> tuple[hg.JobHandle, Valve, Any]:
    """A job that counts words behind a valve, as soon as it runs."""
    valve = Valve(number, 20, WORDS)
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config={**TINY, **more})
    env.checkpoints(every="20ms", storage=str(folder))
    counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Count(), uid="counts")
    out = counted.collect_later("out")
    handle = env.execute_async("words")
    wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
    return handle, valve, out


def test_a_job_tells_how_it_is_and_ends_with_its_result(tmp_path: Path) -> None:
    """Status while it runs and afterwards; a checkpoint on demand; the result that execute would give."""
    handle, valve, out = started(tmp_path, 4400)
    with handle:
        uri = handle.checkpoint()
        assert open_checkpoint(uri)[1].kind == "checkpoint"
        status = handle.status()
        assert (status.name, status.parallelism, status.generation) == ("words", 2, 1)
        assert status.latest_checkpoint is not None
        assert {uid for vertex in status.vertices for uid in vertex.uids} == {"in", "counts", "out"}
        with pytest.raises(TimeoutError):
            handle.result(timeout_s=0)
        valve.open_to()
        result = handle.result()
    assert sorted(out.records) == running_counts(WORDS)
    assert (result.savepoint, handle.done, handle.status().state) == (None, True, "finished")
    assert handle.status().job_id == result.job_id
    with pytest.raises(hg.OperatingError, match="is finished, so nothing can be asked"):
        handle.savepoint(str(tmp_path))
    handle.cancel()


KEPT = {
    "unset": True,
    "RETAIN_ON_CANCELLATION": True,
    "DELETE_ON_CANCELLATION": False,
    "NO_EXTERNALIZED_CHECKPOINTS": False,
}


@pytest.mark.parametrize("retention", KEPT)
def test_f34_f37_what_is_left_of_a_cancelled_job(tmp_path: Path, retention: str) -> None:
    """Checkpoints stay or go as was chosen; by default nothing vanishes. A savepoint always stays."""
    option = {"execution.checkpointing.externalized-checkpoint-retention": retention}
    handle, _, _ = started(tmp_path / "checkpoints", 4410 + len(retention), **option)
    with handle:
        handle.checkpoint()
        savepoint = handle.savepoint(str(tmp_path / "savepoints"))
        handle.cancel()
        with pytest.raises(hg.JobFailedError, match="cancelled"):
            handle.result()
    left = [file for file in tmp_path.glob("checkpoints/words*/chk-*/*") if file.is_file()]
    assert bool(left) == KEPT[retention]
    assert open_checkpoint(savepoint)[1].kind == "savepoint"
    if KEPT[retention]:
        (job,) = tmp_path.glob("checkpoints/words*")
        assert open_checkpoint(str(job))[1].kind == "checkpoint"


def test_a_finished_job_keeps_its_last_checkpoint_unless_it_was_told_otherwise(tmp_path: Path) -> None:
    """RETAIN_ON_CANCELLATION is for jobs that did not finish."""
    option = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    for name, more in [("unset", {}), ("told", option)]:
        handle, valve, _ = started(tmp_path / name, 4430 + len(name), **more)
        with handle:
            valve.open_to()
        assert bool(list(tmp_path.glob(f"{name}/words*/chk-*/_metadata"))) == (name == "unset")


def test_a_job_is_not_hurt_by_what_is_no_parallelism_and_no_target(tmp_path: Path) -> None:
    """Programs are not always checked; the job goes on in the same attempt."""
    handle, valve, out = started(tmp_path / "checkpoints", 4450)
    with handle:
        for parallelism in ("2", 2.5, None):
            with pytest.raises(hg.UsageError, match="expected a whole number"):
                handle.rescale(parallelism)  # type: ignore[arg-type]
        with pytest.raises(hg.UsageError, match="expected text or None"):
            handle.savepoint(17)  # type: ignore[arg-type]
        assert (handle.status().state, handle.status().attempt) == ("running", 1)
        valve.open_to()
    assert sorted(out.records) == running_counts(WORDS)


def test_a_block_that_raises_ends_its_job(tmp_path: Path) -> None:
    """Nothing goes on behind a program that failed."""
    handle, _, _ = started(tmp_path, 4440)
    with pytest.raises(ValueError, match="enough"), handle:
        raise ValueError("enough")
    assert handle.status().state == "cancelled"


def test_a_job_that_cannot_run_says_so_where_it_is_asked(tmp_path: Path) -> None:
    """The result raises what execute would have raised; questions name it."""
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=TINY)
    env.from_collection([1]).collect_later(uid="out")
    handle = env.execute_async("lost", restore_from=str(tmp_path / "nothing"))
    with pytest.raises(hg.StorageError):
        handle.result()
    with pytest.raises(hg.OperatingError, match="before it could be asked"):
        handle.status()
