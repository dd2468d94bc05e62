"""Who goes on a line of output in a directory of files, whatever breaks in between."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.api.sink import Fork, Lineage, SinkCommitter, SinkCommitterContext, SinkWriterContext
from headgate.common.errors import FencedError, OperatingError, UsageError
from headgate.common.files import durable
from headgate.connectors.files import json_sink
from headgate.connectors.files.committer import FilesCommitter
from headgate.connectors.files.file_names import origin_of
from headgate.connectors.files.owner_log import OwnerLog


def context(job: str, *forks: Fork, generation: int = 1) -> SinkCommitterContext:
    """Of a job on the line that job "a" began."""
    return SinkCommitterContext("out", job, generation, Lineage("a", forks))


def committer(root: Path, where: SinkCommitterContext) -> SinkCommitter:
    """That of one driver."""
    made = json_sink(root).create_committer()
    made.begin(where)
    return made


def prepared(root: Path, checkpoint: int, job: str = "a", attempt: int = 1, generation: int = 1) -> list[Any]:
    """One file for a checkpoint, whose only record is the checkpoint's id."""
    where = SinkWriterContext("out", checkpoint, 1, attempt, job, generation)
    writer = json_sink(root).create_writer(where, [])
    writer.write([checkpoint])
    return writer.prepare_commit_at(checkpoint)


def committed(root: Path, upto: int, job: str = "a") -> SinkCommitter:
    """A job that has committed its checkpoints from 1 on."""
    made = committer(root, context(job))
    for checkpoint in range(1, upto + 1):
        made.commit(prepared(root, checkpoint, job))
    return made


def seen(root: Path) -> list[int]:
    """What readers see."""
    return sorted(json.loads(path.read_text()) for path in root.glob("part-*"))


OLD = Fork("a", 1, 1, 2)


def test_the_message_names_the_newest_commit(tmp_path: Path) -> None:
    """How many files, where, and the last checkpoint and job that wrote one."""
    committed(tmp_path, 4)
    found = FilesCommitter(str(tmp_path)).committed_after(context("b", OLD))
    assert found == f"2 files in {str(tmp_path)!r}, the last of checkpoint 4 of job 'a'"


def test_a_checkpoint_id_used_twice_is_told_apart(tmp_path: Path) -> None:
    """A savepoint leaves no id behind: a later attempt or driver may use it for other output."""
    first = committed(tmp_path, 1)
    first.commit(prepared(tmp_path, 2, attempt=2))
    assert len(OwnerLog(tmp_path, context("b", OLD)).newer()) == 1
    committer(tmp_path, context("a", generation=2)).commit(prepared(tmp_path, 2, generation=2))
    assert len(OwnerLog(tmp_path, context("b", OLD)).newer()) == 2


def test_names_from_before_there_were_lines_stay_readable(tmp_path: Path) -> None:
    """A committable of then is published as it says; its file belongs to nobody's line."""
    made = committer(tmp_path, context("a"))
    pending = tmp_path / "_pending" / "a+out" / "0123456789ab.part-a+out+00000-1-0.jsonl"
    pending.parent.mkdir(parents=True)
    pending.write_bytes(b"7\n")
    final = "part-a+out+00000-1-0.jsonl"
    named = {"pending": str(pending.relative_to(tmp_path)), "final": final}
    made.commit([{**named, "size": 2, "crc32": zlib.crc32(b"7\n")}])
    assert seen(tmp_path) == [7]
    assert origin_of(final) is None
    assert FilesCommitter(str(tmp_path)).committed_after(context("b", OLD)) is None


def test_another_sink_or_line_in_the_directory_is_no_obstacle(tmp_path: Path) -> None:
    """Only files of the same line and the same sink count."""
    committed(tmp_path, 2)
    other = SinkCommitterContext("out", "z", 1, Lineage("y", (Fork("y", 1, 1, 1),)))
    elsewhere = SinkCommitterContext("out-2", "b", 1, Lineage("a", (Fork("a", 1, 1, 1),)))
    for where in (other, elsewhere):
        assert FilesCommitter(str(tmp_path)).committed_after(where) is None


def test_a_crash_while_taking_back_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it breaks off, the next job takes back the rest, and nothing is lost without a trace."""
    real = durable.system.rename
    for steps in itertools.count():
        root = tmp_path / str(steps)
        committed(root, 5)
        left = [steps]

        def rename(path: Path, target: Path, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(5, "I/O error")
            real(path, target)

        monkeypatch.setattr(durable.system, "rename", rename)
        try:
            FilesCommitter(str(root)).take_back(context("b", OLD))
            broke_off = False
        except OperatingError:
            broke_off = True
        monkeypatch.setattr(durable.system, "rename", real)
        again = context("c", OLD)
        FilesCommitter(str(root)).take_back(again)
        assert seen(root) == [1, 2]
        aside = sorted(int(path.read_text()) for path in root.glob("_taken_back/*/part-*"))
        assert aside == [3, 4, 5]
        committer(root, again).commit(prepared(root, 30, "c"))
        assert seen(root) == [1, 2, 30]
        if not broke_off:
            break
    assert steps == 3


def test_a_history_that_was_taken_back_is_not_gone_on_from_silently(tmp_path: Path) -> None:
    """A newer snapshot builds on files that are not there any more."""
    committed(tmp_path, 4)
    FilesCommitter(str(tmp_path)).take_back(context("b", OLD))
    newer = context("c", Fork("a", 1, 1, 4))
    with pytest.raises(UsageError, match=r"sink 'out' does not hold .* 2 files .* taken back to .*take-back"):
        FilesCommitter(str(tmp_path)).committed_after(newer)
    with pytest.raises(FencedError, match="2 files of checkpoints that it descends from"):
        committer(tmp_path, newer).commit(prepared(tmp_path, 5, "c"))


def between(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> None:
    """Once, do something right after a committer has renamed its files."""
    real, todo = FilesCommitter._publish_all, [what]

    def publish(self: FilesCommitter, committables: Any) -> Any:
        renamed = real(self, committables)
        if todo:
            todo.pop()()
        return renamed

    monkeypatch.setattr(FilesCommitter, "_publish_all", publish)


def test_who_loses_the_line_in_the_middle_of_a_commit_undoes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job took the line between the look and the rename, and saw none of it."""
    first = committed(tmp_path, 2)
    between(monkeypatch, OwnerLog(tmp_path, context("b", OLD)).seize)
    with pytest.raises(FencedError, match="job 'b' went on after this one"):
        first.commit(prepared(tmp_path, 3))
    assert seen(tmp_path) == [1, 2]
    committer(tmp_path, context("b", OLD)).commit(prepared(tmp_path, 30, "b"))
    assert seen(tmp_path) == [1, 2, 30]


def test_a_job_that_finds_newer_files_after_its_claim_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both published at the same moment: the second look of the later one sees it."""
    first = committed(tmp_path, 2)
    real = OwnerLog._append

    def append(self: OwnerLog, number: int) -> bool:
        if self._context.job == "b":
            first.commit(prepared(tmp_path, 3))
        return real(self, number)

    monkeypatch.setattr(OwnerLog, "_append", append)
    with pytest.raises(FencedError, match="checkpoint 3 of job 'a'"):
        committer(tmp_path, context("b", OLD)).commit(prepared(tmp_path, 30, "b"))
    assert seen(tmp_path) == [1, 2, 3]


def test_an_entry_number_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two jobs that want the same entry one gets it, and the other one looks again."""
    committed(tmp_path, 2)
    real, rivals = OwnerLog._append, [OwnerLog(tmp_path, context("c", OLD))]

    def append(self: OwnerLog, number: int) -> bool:
        if rivals:
            assert real(rivals.pop(), number)
        return real(self, number)

    monkeypatch.setattr(OwnerLog, "_append", append)
    committer(tmp_path, context("b", OLD)).commit(prepared(tmp_path, 30, "b"))
    entries = sorted((tmp_path / "_headgate" / "a+out").glob("*"))
    assert [json.loads(path.read_text())["job"] for path in entries] == ["a", "c", "b"]
    with pytest.raises(FencedError):
        committer(tmp_path, context("c", OLD)).commit(prepared(tmp_path, 31, "c"))


def test_a_damaged_entry_is_named(tmp_path: Path) -> None:
    """Nobody publishes where it is not known who may."""
    first = committed(tmp_path, 1)
    (entry,) = (tmp_path / "_headgate" / "a+out").glob("*.json")
    entry.write_text("{")
    with pytest.raises(OperatingError, match=r"000001\.json.* does not tell which job"):
        first.commit(prepared(tmp_path, 2))
    assert seen(tmp_path) == [1]


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    """A job of the same id that begins anew would take its own file for the old one."""
    first = committed(tmp_path, 1)
    (path,) = tmp_path.glob("part-*")
    path.write_text("8\n")
    with pytest.raises(OperatingError, match="published already with other bytes"):
        first.commit(prepared(tmp_path, 1))
    assert seen(tmp_path) == [8]


def test_a_replaced_driver_leaves_its_successors_files(tmp_path: Path) -> None:
    """What a later driver of the same job has prepared is no leftover of the earlier one."""
    old, new = (committer(tmp_path, context("a", generation=number)) for number in (1, 2))
    later = prepared(tmp_path, 2, generation=2)
    prepared(tmp_path, 1)
    old.abandon([])
    assert [path.name for path in tmp_path.glob("_pending/*/*")] == ["part-a+out+00002-2.1-0.jsonl"]
    new.commit(later)
    assert seen(tmp_path) == [2]


def test_a_line_left_behind_keeps_what_it_prepared(tmp_path: Path) -> None:
    """A job on a line of its own cleans up nothing of a job that may still run; one that goes on does."""
    committed(tmp_path, 2)
    waiting = prepared(tmp_path, 3)
    beside = SinkCommitterContext("out", "b", 1, Lineage("b", (OLD,)))
    apart = committer(tmp_path, beside)
    apart.commit(prepared(tmp_path, 1, "b"))
    apart.abandon([])
    assert (tmp_path / waiting[0]["pending"]).exists()
    committer(tmp_path, context("c", OLD)).commit(prepared(tmp_path, 1, "c"))
    assert not (tmp_path / waiting[0]["pending"]).exists()
