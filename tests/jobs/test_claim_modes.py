"""Whole jobs that begin from another's snapshot: what they leave untouched, build upon, and delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts
from running_jobs import Valve, wait_until
from test_rocksdb_jobs import Everything, assert_exactly_what_is_needed

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges
from headgate.checkpoint.ownership import RECORD
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.verifying import verify
from headgate.common.errors import StorageError
from headgate.runtime.job.listener import JobListener
from headgate.testing.mini_cluster import MiniCluster

WORDS = [f"w{n % 7}" for n in range(200)]
CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}


class Heard(JobListener):
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def run(
    folder: Path,
    number: int,
    storage: str,
    restore_from: str | None = None,
    listener: JobListener | None = None,
    **config: Any,
) -> Any:
    """A job with incremental checkpoints of RocksDB; where nothing is restored it fails half-way."""
    settings = {
        **TINY,
        **({"restart-strategy.type": "none"} if restore_from is None else RESTART_AT_ONCE),
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(folder / "local"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        "execution.checkpointing.incremental": True,
        # Tables in files of their own, and kept by more than one checkpoint.
        "execution.checkpointing.data-inline-threshold": "0b",
        **config,
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(listener), config=settings)
    env.checkpoints(every="10ms", storage=str(folder / storage))
    source = Halting(number, len(WORDS) // 2, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word)
    counted.process(Everything(), uid="all").write_json(str(folder / "out"), uid="out")
    return env.execute("everything", restore_from=restore_from)


def failed(folder: Path, number: int, storage: str = "checkpoints", **config: Any) -> Path:
    """The job's folder after it failed half-way."""
    with pytest.raises(hg.HeadgateError):
        run(folder, number, storage, **config)
    (job,) = [each for each in (folder / storage).iterdir() if each.name[0] != "."]
    return job


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def needed(job: Path) -> set[str]:
    """Files that the newest checkpoint of a job refers to."""
    return {item.file for item in referenced_ranges(open_checkpoint(str(job))[1])}


def check_output(folder: Path) -> None:
    """Both jobs together counted every record once."""
    found = json_lines(folder / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)


def test_no_claim_touches_nothing_and_refers_to_nothing_of_the_other_job(tmp_path: Path) -> None:
    """Not a byte of the old job's folder changes; the new job's checkpoints name its own files only."""
    old = failed(tmp_path, 1480)
    before = contents(old)
    result = run(tmp_path, 1480, "checkpoints", str(old))
    assert contents(old) == before
    assert result.job_id != old.name
    names = needed(tmp_path / "checkpoints" / result.job_id)
    assert names
    assert {name.partition("/")[0] for name in names} == {result.job_id}
    assert verify(str(tmp_path / "checkpoints")).clean
    check_output(tmp_path)


def test_a_claimed_newest_checkpoint_is_gone_on_from_as_the_same_job(tmp_path: Path) -> None:
    """The new job has the old one's id; in the end there is one job with exactly the files that it needs."""
    old = failed(tmp_path, 1481)
    first = {path.name for path in old.glob("chk-*")}
    result = run(tmp_path, 1481, "checkpoints", str(old), **CLAIM)
    assert result.job_id == old.name
    assert not first & {path.name for path in old.glob("chk-*") if (path / "_metadata").exists()}
    assert_exactly_what_is_needed(tmp_path / "checkpoints")
    check_output(tmp_path)


def test_a_claimed_checkpoint_of_another_storage_is_deleted_with_its_log_entry(tmp_path: Path) -> None:
    """The new job's first checkpoint is full; older checkpoints of the old job stay whole."""
    old = failed(tmp_path, 1482, "old", **{"execution.checkpointing.num-retained": 2})
    disk = LocalDisk(tmp_path / "old")
    log = CompletedCheckpointLog(disk, f"{old.name}/log")
    *others, newest = [entry.checkpoint for entry in log.completed()]
    left_over = verify(str(old)).orphans
    result = run(tmp_path, 1482, "new", str(old / f"chk-{newest}"), **CLAIM)
    assert result.job_id != old.name
    assert [entry.checkpoint for entry in log.completed()] == others
    report = verify(str(old))
    assert report.clean
    assert report.orphans == left_over  # of a checkpoint that was on its way when the old job failed
    assert not (tmp_path / "new" / result.job_id / RECORD).exists()
    assert verify(str(tmp_path / "new")).clean
    assert_exactly_what_is_needed(tmp_path / "new")
    check_output(tmp_path)


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_a_savepoint_is_kept_or_deleted_as_the_user_says(tmp_path: Path, mode: str) -> None:
    """With CLAIM its folder is empty in the end, with NO_CLAIM not a byte of it has changed."""
    valve = Valve(1483 + (mode == "CLAIM"), 20, WORDS[:40])

    def program(storage: str, **config: Any) -> hg.Environment:
        env = environment(1, {**TINY, "restart-strategy.type": "none", **config})
        env.checkpoints(every="10ms", storage=str(tmp_path / storage))
        counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Everything(), uid="all")
        counted.write_json(str(tmp_path / "out"), uid="out")
        return env

    with program("checkpoints").execute_async("everything") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    folder = Path(unquote(urlsplit(uri).path))
    before = contents(folder)
    valve.open_to()
    program("checkpoints", **{"execution.state-recovery.claim-mode": mode}).execute(
        "everything", restore_from=uri
    )
    assert contents(folder) == (before if mode == "NO_CLAIM" else {})
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(WORDS[:40])


class NothingGoes:
    """A probe for a driver that never gets from the log to the deletion."""

    def reached(self, place: str) -> None:
        if place == "checkpoint.trimmed":
            raise StorageError("the driver is gone before it deletes anything")


def test_a_driver_that_ends_before_it_deletes_leaves_that_to_the_next(tmp_path: Path) -> None:
    """The new job's checkpoints are complete and the claimed savepoint still whole; then it goes."""
    valve = Valve(1490, 20, WORDS[:40])

    def program(**config: Any) -> hg.Environment:
        env = environment(1, {**TINY, "restart-strategy.type": "none", **config})
        env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
        counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Everything(), uid="all")
        counted.write_json(str(tmp_path / "out"), uid="out")
        return env

    with program().execute_async("everything") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    valve.open_to()
    probe = {"headgate.probe": f"{__name__}:NothingGoes"}
    second = program(**CLAIM, **probe).execute("everything", restore_from=uri).job_id
    assert verify(uri).clean
    assert (tmp_path / "checkpoints" / second / RECORD).exists()
    third = program(**CLAIM).execute("everything", restore_from=str(tmp_path / "checkpoints" / second))
    assert third.job_id == second
    assert contents(Path(unquote(urlsplit(uri).path))) == {}
    assert not (tmp_path / "checkpoints" / second / RECORD).exists()
    assert verify(str(tmp_path / "checkpoints")).clean
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(WORDS[:40])


@pytest.mark.parametrize("which", ["newest", "older"])
def test_the_checkpoint_of_a_job_that_is_seen_to_run_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """Neither to go on as that job nor to own one checkpoint of it; the job does not notice."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))

    def program(valve: Valve, **config: Any) -> hg.Environment:
        env = environment(1, {**TINY, "restart-strategy.type": "none", "rest.enabled": True, **config})
        env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
        counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Everything(), uid="all")
        counted.write_json(str(tmp_path / "out"), uid="out")
        return env

    valve = Valve(1491 + (which == "older"), 20, WORDS[:40])
    keep = {"execution.checkpointing.num-retained": 1000}
    with program(valve, **keep).execute_async("everything") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        (job,) = [each for each in (tmp_path / "checkpoints").iterdir() if each.name[0] != "."]
        older = min(job.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:])).parent
        second = program(Valve(1493, float("inf"), WORDS[:40]), **CLAIM)
        with pytest.raises(hg.UsageError, match=f"the job is running .*headgate stop {job.name}"):
            second.execute("everything", restore_from=str(job if which == "newest" else older))
        valve.open_to()
        assert handle.result().restarts == 0
    assert older.exists()
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(WORDS[:40])


def test_claiming_the_checkpoint_of_a_running_job_stops_that_job_first(tmp_path: Path) -> None:
    """Where nobody sees that it runs. It completes nothing more; its other checkpoints stay whole."""

    def program(valve: Valve, **config: Any) -> hg.Environment:
        env = environment(1, {**TINY, "restart-strategy.type": "none", **config})
        env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
        counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Everything(), uid="all")
        counted.write_json(str(tmp_path / "out"), uid="out")
        return env

    keep = {"execution.checkpointing.num-retained": 50}
    beside = {"execution.sinks.older-snapshot": "new-lineage"}
    with program(Valve(1486, 20, WORDS[:40]), **keep).execute_async("everything") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        (job,) = [each for each in (tmp_path / "checkpoints").iterdir() if each.name[0] != "."]
        older = min(job.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:])).parent
        for sign in tmp_path.glob("*/.headgate-*/*.json"):
            sign.unlink()  # as where the file system has no locks
        second = program(Valve(1489, float("inf"), WORDS[:40]), **CLAIM, **beside)
        second.execute("everything", restore_from=str(older))
        with pytest.raises(hg.HeadgateError, match="another job master has claimed"):
            handle.result()
    assert not older.exists()
    assert verify(str(tmp_path / "checkpoints")).clean


@pytest.mark.parametrize("told", [False, True])
def test_a_damaged_newest_checkpoint_needs_the_users_word_to_go_back(tmp_path: Path, told: bool) -> None:
    """Refused with the file and the older one named; with leave the older one is taken, which is told."""
    old = failed(tmp_path, 1487 + told, **{"execution.checkpointing.num-retained": 3})
    disk = LocalDisk(tmp_path / "checkpoints")
    newest = CompletedCheckpointLog(disk, f"{old.name}/log").completed()[-1]
    file = next(
        tmp_path / "checkpoints" / name for name in needed(old) if f"chk-{newest.checkpoint}/" in name
    )
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    leave = {
        "execution.state-recovery.fallback-to-older": told,
        "execution.sinks.older-snapshot": "take-back",
    }
    if not told:
        with pytest.raises(hg.HeadgateError, match=f"{file.name} is damaged"):
            run(tmp_path, 1487 + told, "checkpoints", str(old), **leave)
        return
    heard = Heard()
    run(tmp_path, 1487 + told, "checkpoints", str(old), heard, **leave)
    assert any(f"{file.name} is damaged" in line and "going back to" in line for line in heard.notes)
    check_output(tmp_path)
