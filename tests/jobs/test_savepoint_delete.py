"""A savepoint that fails or is deleted lets go of the output that it held."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from running_jobs import wait_until
from test_savepoints import ALL, Job, Sabotage, published, running_counts
from typer.testing import CliRunner

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.cli.main import app
from headgate.common.errors import UsageError
from headgate.offline.deleting import delete_savepoint

SLOW = {"every": "1h"}
"""Nothing is committed but when it is asked for."""

PROGRAM = """
import sys
import headgate as hg

env = hg.Environment(parallelism=1)
env.from_collection(["a"], uid="in").write_json(sys.argv[1], uid="out")
env.execute("words")
"""


def marks(folder: Path) -> list[Path]:
    """What says that a savepoint holds output."""
    return [*folder.glob("out/_pending/*/*.held")]


def holding(folder: Path, job: Job, handle: hg.JobHandle) -> str:
    """A savepoint that holds output which no checkpoint has committed."""
    taken: list[str] = []

    def held() -> list[Path]:
        taken.append(handle.savepoint())
        return marks(folder)

    wait_until(held, "a savepoint holds output")
    return taken[-1]


def cli(*asked: Any) -> Any:
    """The command's end."""
    return CliRunner().invoke(app, ["savepoint", "delete", *map(str, asked)])


def test_a_savepoint_that_fails_behind_hold_holds_nothing(tmp_path: Path) -> None:
    """Its metadata could not be written; what an earlier one holds stays held."""
    job = Job(tmp_path, 4260, 20, **SLOW)
    with job.started() as handle:
        holding(tmp_path, job, handle)
        before = marks(tmp_path)
        Sabotage.of(tmp_path / "sp")
        try:
            with pytest.raises(hg.OperatingError, match="FINALIZE_CHECKPOINT_FAILURE"):
                handle.savepoint()
        finally:
            Sabotage.end()
        assert marks(tmp_path) == before
        handle.cancel()


def test_deleted_with_the_program_nothing_is_held(tmp_path: Path) -> None:
    """The folder is gone, and so are the marks; the output goes with the job's next restart."""
    job = Job(tmp_path, 4261, 20, **SLOW)
    with job.started() as handle:
        uri = holding(tmp_path, job, handle)
        others = [path for path in (tmp_path / "sp").iterdir() if path.as_uri() != uri]
        program = tmp_path / "job.py"
        program.write_text(PROGRAM)
        for each in others:
            assert cli(each, program, tmp_path / "out", "--yes").exit_code == 0
        assert marks(tmp_path), "the last one holds it still"
        ended = cli(uri, program, tmp_path / "out", "--yes", "--json")
        assert ended.exit_code == 0, ended.output
        told = json.loads(ended.output)
        assert (told["uri"], told["released"], told["still_held"]) == (uri, ["out"], {})
        assert marks(tmp_path) == []
        assert [*(tmp_path / "sp").iterdir()] == []
        job.valve.open_to()
        handle.result()
    assert published(tmp_path) == running_counts(ALL), "deleting took nothing from the job"


def test_without_the_program_it_says_what_stays(tmp_path: Path) -> None:
    """The savepoint is gone; its output is held as before. Files of people stay."""
    job = Job(tmp_path, 4262, 20, **SLOW)
    with job.started() as handle:
        uri = holding(tmp_path, job, handle)
        handle.cancel()
    before = marks(tmp_path)
    folder = Path(uri.removeprefix("file://"))
    (folder / "README").write_text("mine")
    refused = cli(uri)
    assert (refused.exit_code, "give --yes" in refused.output) == (2, True)
    ended = cli(folder / "_metadata", "--yes")
    assert ended.exit_code == 0, ended.output
    assert "'out' keeps" in ended.output
    assert [each.name for each in folder.rglob("*")] == ["README"]
    assert marks(tmp_path) == before


def test_only_savepoints_are_deleted(tmp_path: Path) -> None:
    """No checkpoint, no storage, nothing that is not ours, and nothing that a job owns."""
    job = Job(tmp_path, 4263, 20)
    with job.started() as handle:
        uri = handle.savepoint()
        wait_until(lambda: handle.status().checkpoints_completed > 0, "a checkpoint")
        checkpoint = handle.checkpoint()
        job.valve.open_to()
        handle.result()
    last = next((tmp_path / "checkpoints").glob("*/chk-*"))
    assert checkpoint
    for place, why in (
        (last, "is checkpoint .* and no savepoint"),
        (tmp_path / "checkpoints", "is no savepoint but a storage of checkpoints"),
        (tmp_path / "out", "holds nothing of Headgate's"),
    ):
        with pytest.raises(UsageError, match=why):
            delete_savepoint(str(place))
    (Path(uri.removeprefix("file://")) / "_claimed").write_text("another-job")
    with pytest.raises(UsageError, match=r"belongs to job 'another-job'.*--claimed"):
        delete_savepoint(uri)
    assert open_checkpoint(uri)[1].kind == "savepoint"
    assert delete_savepoint(uri, claimed=True).files > 0
    assert not Path(uri.removeprefix("file://")).exists()


@pytest.mark.ci
def test_nothing_is_deleted_when_a_sink_does_not_let_go(tmp_path: Path) -> None:
    """The savepoint is whole as before, and the command says why."""
    job = Job(tmp_path, 4264, 20, **SLOW)
    with job.started() as handle:
        uri = holding(tmp_path, job, handle)
        handle.cancel()
    program = tmp_path / "job.py"
    refusing = (
        "from headgate.connectors.files.committer import FilesCommitter\n"
        "def refuse(*_):\n    raise hg.OperatingError('the disk is away')\n"
        "FilesCommitter.release = refuse\n"
    )
    program.write_text(PROGRAM.replace("env =", refusing + "env =", 1))
    asked = ["savepoint", "delete", uri, program, tmp_path / "out", "--yes"]
    ended = subprocess.run(
        [sys.executable, "-m", "headgate", *asked], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "the disk is away" in ended.stderr
    assert open_checkpoint(uri)[1].kind == "savepoint"


@pytest.mark.parametrize("place", ["memory://savepoints", "Memory://x/y"])
def test_no_savepoint_goes_to_memory(tmp_path: Path, place: str) -> None:
    """It would be gone with the process: refused by the handle, the option and the offline commands."""
    job = Job(tmp_path, 4265, 20)
    with job.started() as handle:
        with pytest.raises(hg.ConfigError, match="lost with its process"):
            handle.savepoint(place)
        with pytest.raises(hg.ConfigError, match="lost with its process"):
            handle.stop(place)
        uri = handle.savepoint()
        job.valve.open_to()
    ended = CliRunner().invoke(app, ["savepoint", "reslice", uri, place, "--max-parallelism", "64"])
    assert (ended.exit_code, "lost with its process" in ended.output) == (2, True)
    option = {"execution.checkpointing.savepoint-dir": place}
    with pytest.raises(
        hg.ConfigError, match=r"execution\.checkpointing\.savepoint-dir.*lost with its process"
    ):
        Job(tmp_path, 4266, 20, **option).env.execute("words")
