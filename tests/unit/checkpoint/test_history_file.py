"""The file of a job's history: written whole, taken over by the next job master, never in the way."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fake_disks import MemoryDisk
from latest_checkpoint import load_latest

from headgate.checkpoint.history_file import (
    FORMAT_VERSION,
    RECORDS_MAX,
    History,
    HistoryFile,
    KeptHistory,
    decode_history,
    encode_history,
    find_histories,
    history_name,
    read_history,
)
from headgate.checkpoint.layout import checkpoint_of
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage import memory
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import ConfigError, StorageError
from headgate.common.ids import JobId
from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    EdgeFacts,
    StuckLoop,
    SubtaskRecord,
    Topology,
    VertexFacts,
)

JOB = JobId("streaks-1")
NAME = history_name(JOB)
GRAPH = Topology(
    (VertexFacts(0, "In", ("in",), 1), VertexFacts(1, "Out", ("out",), 1)), (EdgeFacts(0, 1, "Forward"),)
)
WHOLE = CheckpointRecord(
    3, 2, "manual", CheckpointStatus.FAILED, 1_795_000_000_000, GRAPH, 60_000, None,
    (SubtaskRecord(0, 0, 12, 1.5, 2.5, 3.5, 4.5, 5, 6, 7, 8, True, True, "in[0]"),),
    ((1, 0),), "CHECKPOINT_EXPIRED", "no acknowledgement", (StuckLoop(0, 65_000),),
)  # fmt: skip


def record(checkpoint: int, status: CheckpointStatus = CheckpointStatus.COMPLETED) -> CheckpointRecord:
    """A checkpoint of which only id and status matter."""
    return CheckpointRecord(checkpoint, 1, "periodic", status, 0, GRAPH)


def kept(disk: MemoryDisk | LocalDisk) -> dict[int, CheckpointRecord]:
    """What the file holds, by id."""
    return {each.checkpoint: each for each in decode_history(bytes(disk.read(NAME)), NAME).records}


def test_nothing_is_lost_between_writing_and_reading() -> None:
    """Every field of a record comes back as it was."""
    history = History(JOB, "streaks", (WHOLE, record(4)))
    assert decode_history(encode_history(history), "here") == history


def test_the_newest_are_kept() -> None:
    """Ordered by id, the oldest go first; a record given again replaces the one before."""
    disk = MemoryDisk()
    file = HistoryFile(disk, JOB, "streaks")
    file.write([record(1, CheckpointStatus.IN_PROGRESS)])
    file.write([record(n) for n in range(RECORDS_MAX + 5, 0, -1)])
    assert list(kept(disk)) == list(range(6, RECORDS_MAX + 6))
    assert {each.status for each in kept(disk).values()} == {CheckpointStatus.COMPLETED}


def test_the_next_job_master_goes_on_where_the_last_one_ended() -> None:
    """Its records stay; what was under way is failed, unless the log holds it."""
    disk = MemoryDisk()
    running, failed = CheckpointStatus.IN_PROGRESS, CheckpointStatus.FAILED
    unsure = replace(record(4, failed), reason="FINALIZE_CHECKPOINT_FAILURE", detail="unsure")
    HistoryFile(disk, JOB, "streaks").write([record(1), record(2, running), record(3, running), unsure])
    HistoryFile(disk, JOB, "streaks", lambda: [1, 3, 4]).write([record(5)])
    found = kept(disk)
    assert list(found) == [1, 2, 3, 4, 5]
    assert (found[2].status, found[2].reason) == (failed, "JOB_FAILOVER_REGION")
    assert {found[n].status for n in (1, 3, 4, 5)} == {CheckpointStatus.COMPLETED}
    assert (found[4].reason, found[4].detail) == (None, "")


def test_a_damaged_history_is_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Diagnosis stops nobody: a warning, and the file is whole again."""
    disk = MemoryDisk({NAME: b'{"format_version": 1, "jo'})
    with caplog.at_level(logging.WARNING):
        HistoryFile(disk, JOB, "streaks").write([record(9)])
    assert list(kept(disk)) == [9]
    assert "begins anew" in caplog.text


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b'{"format_version": 1, "job": 3}'])
def test_damage_is_told_in_a_sentence(data: bytes) -> None:
    """The message names the file and says that no checkpoint depends on it."""
    with pytest.raises(
        StorageError, match=r"^here is no history of checkpoints: .* no checkpoint depends on it"
    ):
        decode_history(data, "here")


def test_another_format_version_is_told() -> None:
    """A newer one may have other fields; it is not guessed at."""
    data = encode_history(History(JOB, "streaks", (), FORMAT_VERSION + 1))
    with pytest.raises(StorageError, match="format version 2, this program reads 1"):
        decode_history(data, "here")


def test_unknown_fields_of_the_same_version_are_passed_over() -> None:
    """So fields can be added without a new version."""
    data = encode_history(History(JOB, "streaks", ())).replace(b"{", b'{"of_tomorrow": 1,', 1)
    assert decode_history(data, "here").job == JOB


def test_the_history_disturbs_no_other_file_and_none_disturbs_it(tmp_path: Path) -> None:
    """Ids, sweeps and the log do not see it, and it survives a sweep."""
    disk = LocalDisk(tmp_path)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    HistoryFile(disk, JOB, "streaks").write([record(41)])
    disk.create(f"{JOB}/chk-7/left-behind", [b"x"])
    assert checkpoint_of(NAME, JOB) is None
    assert service.next_checkpoint_id() == 8
    assert service.sweep_orphans(permit) == [f"{JOB}/chk-7/left-behind"]
    assert (service.completed(), load_latest(service)) == ([], None)
    assert list(kept(disk)) == [41]


def written(root: Path, job: str, at_s: int = 0) -> Path:
    """A history in a storage folder, last changed at `at_s`."""
    HistoryFile(LocalDisk(root), JobId(job), job.partition("-")[0]).write([record(1)])
    file = root / history_name(JobId(job))
    os.utime(file, (at_s, at_s))
    return file


def test_histories_are_found_from_every_folder_around_them(tmp_path: Path) -> None:
    """By storage folder, job's folder, checkpoint's folder or URI; the one written last comes first."""
    older, newer = written(tmp_path, "b-1", 100), written(tmp_path, "a-2", 200)
    (tmp_path / "b-1" / "chk-1").mkdir()
    for uri, files in (
        (str(tmp_path), [newer, older]),
        (tmp_path.as_uri(), [newer, older]),
        (str(tmp_path / "b-1"), [older]),
        (str(tmp_path / "b-1" / "chk-1"), [older]),
    ):
        found = find_histories(uri)
        assert [each.where for each in found] == [str(file) for file in files]
        assert [each.job for each in found] == [file.parents[1].name for file in files]
    assert read_history(find_histories(str(tmp_path))[1]).job_name == "b"


def test_histories_are_found_where_nobody_tells_their_age() -> None:
    """The job whose last checkpoint began last comes first; a damaged history is the last one."""
    disk = memory.MemoryDisk("histories/below")
    for job, trigger_ms in (("a-1", 5), ("b-2", 9), ("c-3", 7)):
        HistoryFile(disk, JobId(job), job[0]).write([replace(record(1), trigger_ms=trigger_ms)])
    disk.create(history_name(JobId("d-4")), [b"{"])
    assert [each.job for each in find_histories("memory://histories/below")] == ["b-2", "c-3", "a-1", "d-4"]
    (only,) = find_histories("memory://histories/below/c-3")
    assert (only.job, read_history(only).job_name) == ("c-3", "c")
    assert only.where == "memory://histories/below/c-3/history/checkpoints.json"
    (same,) = find_histories("memory://histories/below/c-3/chk-1")
    assert same.job == "c-3"
    memory.MemoryDisk("histories").forget()


def test_where_there_is_no_history_the_message_says_so(tmp_path: Path) -> None:
    """No such path, a path without one, a file that went, and a scheme that is none of ours."""
    with pytest.raises(StorageError, match="does not exist; give the checkpoint directory"):
        find_histories(str(tmp_path / "nowhere"))
    with pytest.raises(StorageError, match="holds no history of checkpoints"):
        find_histories(str(tmp_path))
    with pytest.raises(StorageError, match="does not exist any more"):
        read_history(KeptHistory(LocalDisk(tmp_path), "checkpoints.json", "a"))
    with pytest.raises(ConfigError, match="scheme 'ftp'"):
        find_histories("ftp://host/x")
