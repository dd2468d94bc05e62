"""Where streaming DataFrames stage their epochs, and what becomes of those of drivers that died."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.settings.config import Config
from headgate.connectors.dataframe import StreamSource
from headgate.deploy.spark.staging import FOLDER
from headgate.deploy.spark.streams import LOGS, Streams, streams_ready
from headgate.graph.physical import PhysicalPlan


class StandIn(StreamSource):
    """A source that has staged an epoch as soon as it may."""

    def __init__(self) -> None:
        self.rows: Path | None = None
        self.finished = 0

    def prepare(self, spark: Any, folder: str) -> None:
        self.rows = Path(folder) / "query-7" / "one.arrow"
        self.rows.parent.mkdir(parents=True)
        self.rows.write_bytes(b"rows")

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in needs no Spark."""
    monkeypatch.setattr("headgate.deploy.spark.streams.sql_session", lambda given: None)


def job(root: Path) -> JobSpec:
    """One that stages in this folder."""
    config = Config().with_program({"headgate.spark.staging-dir": str(root)})
    return JobSpec(name="job", nodes=(), plan=PhysicalPlan((), (), 128, 1), config=config)


def leading(root: Path, job_id: str = "job-1") -> tuple[Streams, Path]:
    """A driver that leads the job, and what it has staged."""
    source = StandIn()
    streams = Streams(job(root), [source], root)
    streams.make_ready(job_id)
    assert source.rows is not None
    assert source.rows.exists()
    assert source.lasting_folder == str(root / LOGS)
    return streams, source.rows


def test_what_a_driver_that_died_has_staged_is_removed_by_the_next(tmp_path: Path) -> None:
    """Nobody else knows of it: no snapshot refers to it."""
    _, left = leading(tmp_path)
    _, mine = leading(tmp_path)
    assert not left.exists()
    assert mine.exists()


def test_other_jobs_and_bounded_inputs_are_left_alone(tmp_path: Path) -> None:
    """A job that was begun from this one's savepoint reads on, and rows that snapshots refer to stay."""
    _, other = leading(tmp_path, "job-2")
    bounded = tmp_path / FOLDER / "job-1" / "rows" / "one.arrow"
    bounded.parent.mkdir(parents=True)
    bounded.touch()
    streams, mine = leading(tmp_path)
    streams.put_away()
    assert not mine.exists()
    assert other.exists()
    assert bounded.exists()


def test_nothing_is_left_behind_a_job(tmp_path: Path) -> None:
    """Also where it failed; a driver that never led has staged nothing."""
    source, waiting = StandIn(), StandIn()
    with (
        pytest.raises(ValueError, match="the job's"),
        streams_ready(job(tmp_path), {"a": source}, True) as mine,
    ):
        assert mine is not None
        mine.make_ready("job-1")
        raise ValueError("the job's")
    with streams_ready(job(tmp_path), {"a": waiting}, True):
        pass
    assert (source.finished, waiting.finished, waiting.rows) == (1, 1, None)
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_for_temporary_files_each_driver_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else follows there, and other users could not write below a folder of this one's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = StandIn()
    streams = Streams(job(tmp_path), [source], tmp_path)
    streams.make_ready("job-1")
    assert source.lasting_folder is None
    assert [path.name.startswith(f"{FOLDER}-") for path in tmp_path.iterdir()] == [True]
    streams.put_away()
    assert list(tmp_path.iterdir()) == []


def test_a_job_without_streams_has_none(tmp_path: Path) -> None:
    """And needs no folder for them."""
    with streams_ready(job(tmp_path), {}, False) as none:
        assert none is None
