"""When staged input is made, taken over, kept and removed; stand-ins for DataFrames write real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.errors import FencedError, JobFailedError, TerminatedError, UsageError
from headgate.common.settings.config import Config
from headgate.connectors.dataframe import DataFrameSource
from headgate.connectors.dataframe.source import Staged
from headgate.connectors.dataframe.staged_files import StagedFile
from headgate.deploy.spark.staging import FOLDER, Inputs, check_positions
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.state.snapshots import CheckpointMetadata

WITH_CHECKPOINTS = {"execution.checkpointing.interval": "1s", "execution.checkpointing.dir": "file:///c"}
NOTHING_KEPT = {
    **WITH_CHECKPOINTS,
    "execution.checkpointing.externalized-checkpoint-retention": "NO_EXTERNALIZED_CHECKPOINTS",
}
LED = {**WITH_CHECKPOINTS, "high-availability.type": "filesystem"}


class StandIn(DataFrameSource):
    """A source whose DataFrame has one row in one file."""

    def __init__(self) -> None:
        self.folders: list[Path] = []

    def prepare(self, spark: Any, folder: str) -> None:
        self.folders.append(Path(folder))
        Path(folder).mkdir(parents=True)
        (Path(folder) / "one.arrow").write_bytes(b"rows")

    def position(self) -> Any:
        """As a snapshot drawn before anything was read has it."""
        return Staged(str(self.folders[0]), (StagedFile("one.arrow", 1, 4, 0, 0, 0),)).position()


class Status:
    """What is asked of a job's status, and of its control."""

    def __init__(
        self, state: str, checkpoints: int = 1, savepoints: int = 0, stopped: str | None = None
    ) -> None:
        self.state, self.checkpoints_completed = state, checkpoints
        self.savepoints_completed, self.savepoint = savepoints, stopped

    def status(self) -> Any:
        return self


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in needs no Spark."""
    monkeypatch.setattr("headgate.deploy.spark.staging.sql_session", lambda given: None)


def inputs(root: Path, source: StandIn, options: dict[str, str] | None = None) -> Inputs:
    """Of a job with one DataFrame."""
    config = Config().with_program(WITH_CHECKPOINTS if options is None else options)
    return Inputs(
        JobSpec(name="job", nodes=(), plan=PhysicalPlan((), (), 128, 1), config=config),
        {"rows": source},
        root,
    )


def snapshot(position: Any, finished: dict[str, list[int]] | None = None) -> CheckpointMetadata:
    """One that has this position of the source, which had two subtasks."""
    return CheckpointMetadata(
        job="first", job_name="job", checkpoint=1, generation=1, attempt=1, trigger_ms=0, max_parallelism=128,
        format_fingerprint="", parallelism={"rows": 2}, operators={}, enumerators={"rows": position},
        state_types={}, finished=finished or {},
    )  # fmt: skip


def ran(root: Path, status: Status | None, error: BaseException | None, options: dict[str, str]) -> bool:
    """Whether the staged rows are still there after a job has run and ended so."""
    source = StandIn()
    mine = inputs(root, source, options)
    mine.make_ready("job-1", None)
    assert source.folders[0].parent == root / FOLDER / "job-1" / "rows"
    if status is not None:
        mine.begins(status)  # type: ignore[arg-type]
    mine.put_away(error)
    kept = source.folders[0].is_dir()
    assert kept or not (root / FOLDER).exists()
    return kept


GOING_ON = TerminatedError()
GOING_ON.goes_on = True


@pytest.mark.parametrize(
    ("status", "error", "options", "kept"),
    [
        (Status("finished"), None, WITH_CHECKPOINTS, False),
        (Status("finished", stopped="file:///s"), None, WITH_CHECKPOINTS, True),
        (Status("finished", savepoints=1), None, WITH_CHECKPOINTS, True),
        (Status("failed"), JobFailedError("x"), WITH_CHECKPOINTS, True),
        (Status("failed", checkpoints=0), JobFailedError("x"), WITH_CHECKPOINTS, False),
        (Status("failed"), JobFailedError("x"), NOTHING_KEPT, False),
        (Status("failed"), JobFailedError("x"), {}, False),
        (Status("cancelled"), KeyboardInterrupt(), WITH_CHECKPOINTS, True),
        (Status("cancelled"), KeyboardInterrupt(), NOTHING_KEPT, False),
        (Status("cancelled"), GOING_ON, LED, True),
        (
            Status("cancelled"),
            KeyboardInterrupt(),
            {**NOTHING_KEPT, "high-availability.type": "filesystem"},
            False,
        ),
        (Status("failed", checkpoints=0), FencedError("x"), LED, True),
        (
            Status("failed"),
            JobFailedError("x"),
            {**NOTHING_KEPT, "high-availability.type": "filesystem"},
            True,
        ),
        (None, UsageError("x"), WITH_CHECKPOINTS, False),
    ],
)
def test_staged_rows_stay_as_long_as_a_snapshot_may_need_them(
    tmp_path: Path, status: Status | None, error: BaseException | None, options: dict[str, str], kept: bool
) -> None:
    """They go with the last checkpoint that could be restored; savepoints and other drivers keep them."""
    assert ran(tmp_path, status, error, options) == kept


def test_another_driver_takes_the_rows_over_and_removes_only_its_own(tmp_path: Path) -> None:
    """What is restored is not staged again; another job's rows go only with a snapshot that was claimed."""
    first = StandIn()
    inputs(tmp_path, first).make_ready("first", None)
    for claimed in (False, True):
        second = StandIn()
        mine = inputs(tmp_path, second)
        mine.make_ready("second", RestorePoint(snapshot(first.position()), None, claimed))
        assert second.folders == []
        mine.begins(Status("finished"))  # type: ignore[arg-type]
        mine.put_away(None)
        assert first.folders[0].is_dir() != claimed


def test_a_snapshot_whose_rows_are_gone_is_refused_unless_all_were_read(tmp_path: Path) -> None:
    """Files that were handed out may not have been read; where all subtasks have ended, they were."""
    source = StandIn()
    gone = Staged(str(tmp_path / FOLDER / "job" / "rows" / "0123456789abcdef"), ()).position()
    for position, finished in ((gone, None), (gone, {"rows": [0]})):
        with pytest.raises(
            UsageError, match=r"staged in '.*rows/0123456789abcdef', and the folder is not there"
        ):
            check_positions(snapshot(position, finished), {"rows": source})
    check_positions(snapshot(gone, {"rows": [0, 1]}), {"rows": source})
    check_positions(snapshot(gone), {"others": source})
