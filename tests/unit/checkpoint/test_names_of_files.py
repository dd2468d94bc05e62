"""The names of files in storages, and the places that URIs name."""

from __future__ import annotations

import pytest

from headgate.checkpoint.history_file import history_name
from headgate.checkpoint.layout import (
    checkpoint_folder,
    checkpoint_of,
    data_file_name,
    from_folder,
    savepoint_data_name,
)
from headgate.checkpoint.savepoints import folder_of, is_outside, prepare
from headgate.checkpoint.storage.memory import MemoryDisk, too_large
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.storage_contract import check_name
from headgate.checkpoint.storage.uris import disks_with, open_disk, refuse_fleeting, scheme_of, split_uri
from headgate.common.errors import ConfigError
from headgate.common.ids import AttemptId, CheckpointId, Generation, JobId, SubtaskId, SubtaskIndex, VertexId

JOB = JobId("streaks")
TASK = SubtaskId(VertexId(2), SubtaskIndex(0))


def test_names_in_a_jobs_folder() -> None:
    """Each kind of file has its place."""
    assert checkpoint_folder(JOB, CheckpointId(7)) == "streaks/chk-7"
    assert (
        data_file_name(JOB, CheckpointId(7), Generation(1), AttemptId(3), TASK) == "streaks/chk-7/g1-a3-v2-s0"
    )
    assert checkpoint_of("streaks/chk-7/_metadata", JOB) == 7
    assert history_name(JOB) == "streaks/history/checkpoints.json"


def test_names_in_a_savepoint() -> None:
    """They are relative to its folder, which the log names by its metadata."""
    assert savepoint_data_name(TASK, "1") == "data/v2-s0-1"
    assert from_folder("%5Fa%2Fb%3Dc") == "_a/b=c"
    assert folder_of("file:///backup/savepoint-x/_metadata") == "file:///backup/savepoint-x"
    assert is_outside("file:///backup/savepoint-x/_metadata")
    assert not is_outside("streaks/chk-7/_metadata")
    disk = MemoryDisk("names")
    folder = prepare(disk, JobId("streaks-20260101-120000-a1b2c3"), bytes(6))
    assert folder.name == "savepoint-a1b2c3-000000000000"
    disk.forget()


def test_uris_name_disks() -> None:
    """The scheme chooses the disk; one that is not supported is refused with those that are."""
    assert open_disk("file:///var/checkpoints").describe("job/x") == "file:///var/checkpoints/job/x"
    assert open_disk("memory://tests").describe("job/x") == "memory://tests/job/x"
    assert disks_with(StorageSettings())("memory://tests").describe("job/x") == "memory://tests/job/x"
    assert (scheme_of("/var/x"), scheme_of("S3://bucket/x")) == ("file", "s3")
    with pytest.raises(
        ConfigError, match=r"'ftp://host/x' has scheme 'ftp', which is not supported; use a path"
    ):
        open_disk("ftp://host/x")
    refuse_fleeting("/var/savepoints")
    with pytest.raises(ConfigError, match="'memory://savepoints', which is lost with its process"):
        refuse_fleeting("memory://savepoints")


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://bucket/checkpoints/job/chk-7", ("s3://bucket/checkpoints", "job/chk-7")),
        ("s3://bucket/job", ("s3://bucket", "job")),
        ("file:///var/a%20b/job/chk-7", ("file:///var/a%20b", "job/chk-7")),
    ],
)
def test_split_uris(uri: str, found: tuple[str, str]) -> None:
    """Two folders above, or as many as there are."""
    assert split_uri(uri, 2) == found


def test_a_memory_disk() -> None:
    """Names are created once, and state that is too large for it is refused with a remedy."""
    disk = MemoryDisk("example")
    assert disk.create_if_absent("log/1", b"a")
    assert not disk.create_if_absent("log/1", b"b")
    assert disk.read("log/1") == b"a"
    disk.forget()
    assert check_name("job/chk-1/a", "memory://x") == ["job", "chk-1", "a"]
    assert str(too_large("subtask 0 of 'count'", 5)).startswith(
        "state of subtask 0 of 'count' takes more than the 5 bytes that a checkpoint in memory has for one"
    )


def test_the_secret_key_is_not_shown() -> None:
    """Settings are logged."""
    assert "hidden" not in repr(StorageSettings(s3_access_key="AKIA1", s3_secret_key="hidden"))
