"""Running jobs that go on at another parallelism: with exact results, or as if nobody had asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.testing import JobListener, MiniCluster

WORDS = [[f"w{(n + 5 * split) % 11}" for n in range(80)] for split in range(4)]
ALL = [word for split in WORDS for word in split]


class Notes(JobListener):
    """Remembers what was worth a line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


class Breaking(Count):
    """Cannot be opened where it is too wide."""

    def open(self, ctx: Any) -> None:
        if ctx.parallelism > 2:
            raise hg.PlanError("this function works for two at most")


class Job:
    """Counts words behind a valve into files; the sink is always one subtask."""

    def __init__(
        self,
        folder: Path,
        number: int,
        limit: float,
        slots: int | None = None,
        function: Any = None,
        **more: Any,
    ) -> None:
        self.folder, self.valve, self.notes = folder, Valve(number, limit, *WORDS), Notes()
        config = {**TINY, **RESTART_AT_ONCE, "execution.checkpointing.timeout": "20s", **more}
        executor = MiniCluster(self.notes, slots)
        self.env = hg.Environment(parallelism=config.pop("parallelism", 1), executor=executor, config=config)
        if config.get("every", "20ms"):
            self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        counted = self.env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted = counted.process(function or Count(), uid="counts")
        counted.map(lambda pair: pair, uid="same").set_parallelism(1).write_json(
            str(folder / "out"), uid="out"
        )

    @contextmanager
    def running(self) -> Iterator[hg.JobHandle]:
        """While it runs."""
        with self.env.execute_async("words") as handle:
            wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
            yield handle

    def published(self) -> list[tuple[Any, ...]]:
        """What the sink has committed."""
        return sorted(tuple(line) for line in json_lines(self.folder / "out"))


@pytest.mark.parametrize("unaligned", [False, True])
def test_wider_and_narrower_while_it_runs(tmp_path: Path, unaligned: bool) -> None:
    """1 -> 2 -> 3 -> 1: every record counts once, and no failure was needed for that."""
    more = {"execution.checkpointing.unaligned.enabled": unaligned}
    job = Job(tmp_path, 4300 + unaligned, 20, **more)
    with job.running() as handle:
        for parallelism, limit in [(2, 40), (3, 60), (1, float("inf"))]:
            handle.rescale(parallelism)
            status = handle.status()
            assert (status.state, status.parallelism, status.restarts) == ("running", parallelism, 0)
            widths = {uid: vertex.parallelism for vertex in status.vertices for uid in vertex.uids}
            assert (widths["counts"], widths["same"]) == (parallelism, 1)
            job.valve.open_to(limit)
        result = handle.result()
    assert job.published() == running_counts(ALL)
    assert result.records_in["in"] == len(ALL)


@pytest.mark.parametrize(
    ("parallelism", "more", "why"),
    [
        (5, {"slots": 4}, "needs 5 workers"),
        (9, {"pipeline.max-parallelism": 8}, "parallelism 9"),
        (0, {}, "expected at least 1"),
    ],
)
def test_what_cannot_be_is_refused_and_the_job_untouched(
    tmp_path: Path, parallelism: int, more: dict[str, Any], why: str
) -> None:
    """Too few slots, too few key groups: said at once, and the same attempt goes on."""
    job = Job(tmp_path, 4310 + parallelism, 20, **more)
    with job.running() as handle:
        with pytest.raises(hg.UsageError, match=why):
            handle.rescale(parallelism)
        assert (handle.status().state, handle.status().attempt) == ("running", 1)
        job.valve.open_to()
    assert job.published() == running_counts(ALL)


def test_a_job_without_checkpoints_has_nothing_to_go_on_from(tmp_path: Path) -> None:
    """The option is named."""
    valve = Valve(4320, 20, *WORDS)
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=TINY)
    env.from_source(valve, uid="in").collect_later(uid="out")
    with env.execute_async("words") as handle:
        with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.interval"):
            handle.rescale(2)
        valve.open_to()


def test_a_plan_that_does_not_start_is_put_back(tmp_path: Path) -> None:
    """The old parallelism runs again, it is told why, and the results are right."""
    job = Job(tmp_path, 4330, 20, function=Breaking(), parallelism=2)
    with job.running() as handle:
        with pytest.raises(hg.OperatingError, match=r"back to 2 workers: .*two at most"):
            handle.rescale(3)
        wait_until(lambda: handle.done or handle.status().state == "running", "the old plan runs")
        assert handle.status().parallelism == 2
        job.valve.open_to()
    assert job.published() == running_counts(ALL)
    assert any("back to 2 workers" in line for line in job.notes.lines)


def test_the_same_parallelism_is_no_work(tmp_path: Path) -> None:
    """Nothing is restarted for it."""
    job = Job(tmp_path, 4340, 20)
    with job.running() as handle:
        handle.rescale(1)
        assert handle.status().attempt == 1
        job.valve.open_to()
