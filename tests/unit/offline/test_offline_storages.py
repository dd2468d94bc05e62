"""The settings of storages reach whoever opens a snapshot, and are taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.checkpoint.storage.settings import storage_settings_in_use
from headgate.cli.main import app
from headgate.common.errors import ConfigError, StorageError
from headgate.offline.storages import refuse_unreadable, storage_options


def test_settings_are_in_use_and_taken_back() -> None:
    """Also when something goes wrong meanwhile."""
    before = storage_settings_in_use()
    with (
        pytest.raises(RuntimeError),
        storage_options(["s3.endpoint=http://here:1", "s3.endpoint.region=moon"]),
    ):
        assert storage_settings_in_use().s3_endpoint == "http://here:1"
        assert storage_settings_in_use().s3_region == "moon"
        raise RuntimeError
    assert storage_settings_in_use() == before


def test_half_of_the_credentials_is_refused() -> None:
    """As a job refuses it."""
    told = pytest.raises(ConfigError, match=r"s3\.access-key is set but s3\.secret-key is not")
    with told, storage_options(["s3.access-key=me"]):
        pass


@pytest.mark.parametrize(
    "command",
    [
        ["savepoint", "show", "s3://b/x"],
        ["savepoint", "reslice", "s3://b/x", "s3://b/y", "--max-parallelism", "2"],
        ["savepoint", "migrate", "s3://b/x", "s3://b/y", "job.py"],
        ["savepoint", "delete", "s3://b/x", "--yes"],
        ["check-upgrade", "s3://b/x", "job.py"],
        ["checkpoint", "verify", "s3://b/x"],
        ["checkpoint", "prune", "s3://b/x"],
        ["checkpoints", "s3://b/x"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_takes_them(command: list[str]) -> None:
    """They are looked at before anything is opened."""
    ended = CliRunner().invoke(app, [*command, "-D", "s3.access-key=me"])
    assert ended.exit_code == 2
    assert "s3.access-key is set but s3.secret-key is not" in ended.output


def test_only_what_needs_no_settings_is_looked_for_first(tmp_path: Path) -> None:
    """The program itself may have those of other storages."""
    refuse_unreadable("s3://nowhere/at-all")
    with pytest.raises(StorageError, match="nowhere"):
        refuse_unreadable(str(tmp_path / "nowhere"))
