"""A snapshot is restored after more was committed than it knows of: nothing of that happens silently."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import environment, json_lines
from running_jobs import Valve, wait_until
from test_savepoints import ALL, Job, published, running_counts

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import FencedError, UsageError
from headgate.connectors.files.file_names import origin_of

OPTION = "execution.sinks.older-snapshot"
SLOW = {"every": "1h"}
"""Nothing is committed but when it is asked for."""


def left_behind(folder: Path, number: int) -> str:
    """A savepoint whose job went on, committed all of its output and ended."""
    job = Job(folder, number, 20)
    with job.started() as handle:
        uri = handle.savepoint()
        job.valve.open_to()
        handle.result()
    assert published(folder) == running_counts(ALL)
    return uri


def test_refused_by_default_with_all_that_one_must_know(tmp_path: Path) -> None:
    """The sink, the snapshot, the newer commit and the choices; nothing was started or changed."""
    uri = left_behind(tmp_path, 4400)
    with pytest.raises(UsageError) as caught:
        Job(tmp_path, 4401, 0).run(uri)
    job = open_checkpoint(uri)[1].job
    for word in (
        "sink 'out'",
        "savepoint",
        job,
        "the last of checkpoint",
        OPTION,
        "take-back",
        "new-lineage",
    ):
        assert word in str(caught.value)
    assert published(tmp_path) == running_counts(ALL)


def test_taken_back_the_output_is_that_of_one_job(tmp_path: Path) -> None:
    """What came after the savepoint is moved aside, and the second job writes it once more."""
    uri = left_behind(tmp_path, 4402)
    Job(tmp_path, 4403, 0, parallelism=3, **{OPTION: "take-back"}).run(uri)
    assert published(tmp_path) == running_counts(ALL)
    assert [*tmp_path.glob("out/_taken_back/*/part-*")]


def test_in_a_line_of_its_own_readers_can_tell(tmp_path: Path) -> None:
    """The snapshot's history and the second job's files are a whole answer, and so are the first job's."""
    uri = left_behind(tmp_path, 4404)
    before = {path.name for path in (tmp_path / "out").glob("part-*")}
    Job(tmp_path, 4405, 0, **{OPTION: "new-lineage"}).run(uri)
    savepoint = open_checkpoint(uri)[1]
    files = {path.name: path for path in (tmp_path / "out").glob("part-*")}
    origins = {name: origin_of(name) for name in files}
    line = [
        files[name]
        for name, origin in origins.items()
        if origin is not None and (name not in before or origin.checkpoint <= savepoint.checkpoint)
    ]
    assert before < files.keys()
    assert _records(line) == running_counts(ALL)
    assert _records([files[name] for name in before]) == running_counts(ALL)


def _records(files: list[Path]) -> list[Any]:
    import json

    return sorted(tuple(json.loads(line)) for path in files for line in path.read_text().splitlines())


def test_two_forks_at_once_into_one_directory(tmp_path: Path) -> None:
    """Both begin from one savepoint; the first to commit goes on, the other is told and ends."""
    first = Job(tmp_path, 4406, 20)
    with first.started() as handle:
        uri = handle.stop()
        handle.result()
    config = {**SLOW, "execution.allow-second": True}
    one, other = Job(tmp_path, 4407, 20, **config), Job(tmp_path, 4408, 20, **config)
    with ExitStack() as running:
        winner, loser = running.enter_context(one.started(uri)), running.enter_context(other.started(uri))
        one.valve.open_to()
        winner.result()
        other.valve.open_to()
        with pytest.raises(FencedError, match="another job goes on from a snapshot that both descend from"):
            loser.result()
    assert published(tmp_path) == running_counts(ALL)


def test_from_another_jobs_checkpoint_the_line_goes_on(tmp_path: Path) -> None:
    """Whatever the job is called: its snapshots tell what it descends from, and the output is exact."""
    first = Job(tmp_path, 4409, 20)
    with first.started() as handle:
        uri = handle.stop()
        handle.result()
    second = Job(tmp_path, 4410, 40)
    with second.started(uri) as handle:
        again = handle.stop()
        handle.result()
    third = Job(tmp_path, 4411, 0)
    third.valve.open_to()
    third.env.execute("by another name", again)
    assert published(tmp_path) == running_counts(ALL)
    older, newer = open_checkpoint(uri)[1], open_checkpoint(again)[1]
    assert (older.lineage, older.forks) == (older.job, [])
    assert newer.lineage == older.job
    assert [(fork.job, fork.checkpoint) for fork in newer.forks] == [(older.job, older.checkpoint)]


class Breaking(Valve):
    """A valve whose readers raise what is left to be raised."""

    left: ClassVar[list[str]] = []

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        """A reader that looks for trouble before it reads."""
        reader = super().create_reader(context)
        poll = reader.poll

        def breaking(max_records: int) -> Any:
            if Breaking.left:
                raise LookupError(Breaking.left.pop())
            return poll(max_records)

        reader.poll = breaking  # type: ignore[method-assign]
        return reader


def test_a_savepoint_outlives_what_became_of_its_job(tmp_path: Path) -> None:
    """Its job fails and begins anew from before it; what it holds is there all the same."""
    job = Job(tmp_path, 4412, 20, **SLOW)
    job.valve.__class__ = Breaking
    taken: list[str] = []

    def held() -> list[Path]:
        taken.append(handle.savepoint())
        return [*tmp_path.glob("out/_pending/*/*.held")]

    with job.started() as handle:
        wait_until(held, "a savepoint holds output")
        uri = taken[-1]
        Breaking.left.append("broken")
        wait_until(lambda: handle.status().restarts == 1 and handle.status().state == "running", "a restart")
        handle.cancel()
        wait_until(lambda: handle.done, "the job is over")
    assert published(tmp_path) == []
    Job(tmp_path, 4413, 0).run(uri)
    assert published(tmp_path) == running_counts(ALL)


def test_without_checkpoints_each_run_is_a_line_of_its_own(tmp_path: Path) -> None:
    """It is added to what is there, as it says."""
    for _ in range(2):
        env = environment(2)
        env.from_collection([1, 2, 3]).write_json(str(tmp_path / "out"), uid="out")
        env.execute("numbers")
    assert sorted(json_lines(tmp_path / "out")) == [1, 1, 2, 2, 3, 3]
    lines = [*(tmp_path / "out" / "_headgate").iterdir()]
    assert len(lines) == 2


def test_a_sink_that_cannot_take_back_is_refused_before_anything_is(tmp_path: Path) -> None:
    """Also where another sink of the job could."""
    uri = left_behind(tmp_path, 4414)
    job = Job(tmp_path, 4415, 0, **{OPTION: "take-back"})
    job.env.from_collection([1], uid="one").collect_later(uid="collected")
    with pytest.raises(UsageError, match=r"sink 'collected' .* cannot take back what it has committed"):
        job.run(uri)
    assert published(tmp_path) == running_counts(ALL)


def test_an_unknown_choice_is_refused() -> None:
    """Like every option."""
    with pytest.raises(hg.ConfigError, match="take-back"):
        hg.Environment(config={OPTION: "never"})
