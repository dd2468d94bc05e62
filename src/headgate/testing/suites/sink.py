"""The conformance suite of two-phase commit sinks, as tests that a class inherits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.api.sink import (
    Fork,
    Lineage,
    Sink,
    SinkCommitter,
    SinkCommitterContext,
    SinkWriter,
    SinkWriterContext,
)
from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import FencedError

_UID = "out"

Start = Callable[..., "_Job"]
"""Function that begins a job writing to one place: by name, perhaps from another job's snapshot.

The test is skipped if the committer's attribute named in `needs` is false.
"""


class SinkSuite:
    """Tests of a two-phase commit sink; inherit from it under a name that pytest collects.

    Two hooks are needed, `new_sink` and `read`. Tests of what is known about commits after a snapshot, also
    by other jobs, are skipped where the committer's `tells_commits` is false; those of taking output back
    where its `takes_back` is false.

    Example:
        >>> import headgate as hg
        >>> from headgate.connectors.files import json_sink
        >>> class TestLines(SinkSuite):
        ...     def new_sink(self, folder):
        ...         return json_sink(folder)
        ...     def read(self, sink, folder):
        ...         return [int(line) for file in folder.glob("part-*") for line in file.read_text().split()]
        >>> len([name for name in dir(TestLines) if name.startswith("test_")]) > 10
        True
    """

    def new_sink(self, folder: Path) -> Sink:
        """Return a new sink; all sinks for one `folder`, which each test has anew, write to the same place,
        as those of other programs would.
        """
        raise NotImplementedError

    def read(self, sink: Sink, folder: Path) -> Sequence[int]:
        """Return the records, which are integers, that readers of the folder see now, in any order; `sink` is
        one of the test's sinks for this folder.
        """
        raise NotImplementedError

    @pytest.fixture
    def start(self, tmp_path: Path) -> Iterator[Start]:
        """Provide a function that starts a simulated job with this sink, perhaps from a snapshot."""
        jobs: list[_Job] = []

        def start(
            name: str,
            restored: _Snapshot | None = None,
            lineage: str | None = None,
            generation: int = 1,
            needs: str | None = None,
        ) -> _Job:
            jobs.append(_Job(self, tmp_path, name, restored, lineage, generation))
            if needs is not None and not getattr(jobs[-1].committer, needs):
                pytest.skip(f"the committer of this sink has `{needs}` false")
            return jobs[-1]

        yield start
        for job in jobs:
            job.close()

    def test_nothing_is_visible_before_the_commit(self, start: Start) -> None:
        """Readers do not see records that are written or prepared, until they are committed."""
        job = start("a")
        job.write(1)
        snapshot = job.take()
        assert job.seen() == []
        job.commit(snapshot)
        assert job.seen() == [1]

    def test_committables_are_plain_values(self, start: Start) -> None:
        """A committable from the decoded checkpoint can be committed by another driver."""
        job = start("a")
        job.write(1, 2)
        snapshot = job.take()
        assert snapshot.committables
        start("a", snapshot, generation=2).commit(snapshot)
        assert job.seen() == [1, 2]

    def test_a_commit_can_be_repeated(self, start: Start) -> None:
        """A commit may be repeated, in one process, or after a crash by a driver that does not know of it."""
        job = start("a")
        job.write(1)
        snapshot = job.take()
        for _ in range(2):
            job.commit(snapshot)
        start("a", snapshot, generation=2).commit(snapshot)
        assert job.seen() == [1]

    def test_a_commit_that_broke_off_is_completed(self, start: Start) -> None:
        """A driver dies in the middle of a commit; the next driver publishes everything once."""
        job = start("a", generation=1)
        snapshot = job.of_two_subtasks(1, 2)
        job.commit(snapshot, first=1)
        start("a", snapshot, generation=2).commit(snapshot)
        assert job.seen() == [1, 2]

    def test_a_crash_before_the_log_publishes_nothing(self, start: Start) -> None:
        """Output of a checkpoint that never completed is abandoned and never published."""
        job = start("a")
        job.write(1)
        first = job.take()
        job.commit(first)
        job.write(2)
        job.take()
        job.write(3)
        job.restart(first)
        job.write(2)
        job.commit(job.take())
        assert job.seen() == [1, 2]

    def test_a_crash_between_log_and_commit_loses_nothing(self, start: Start) -> None:
        """A restart commits the restored checkpoint's committables that the crash left uncommitted."""
        job = start("a")
        job.write(1)
        snapshot = job.take()
        job.restart(snapshot)
        assert job.seen() == [1]

    def test_what_is_written_later_stays_apart(self, start: Start) -> None:
        """A commit publishes the records of its checkpoint, and none that were written later."""
        job = start("a")
        job.write(1)
        snapshot = job.take()
        job.write(2)
        job.commit(snapshot)
        assert job.seen() == [1]
        job.commit(job.take())
        assert job.seen() == [1, 2]

    def test_closing_late_changes_nothing(self, start: Start) -> None:
        """Closing a writer of an earlier attempt late does not remove output that is published."""
        job = start("a")
        job.write(1)
        snapshot, old = job.take(), job.writers
        job.restart(snapshot)
        for writer in old:
            writer.close()
        job.restart(snapshot)
        assert job.seen() == [1]

    def test_two_jobs_in_one_place_do_not_meet(self, start: Start) -> None:
        """Two jobs write to one place: abandoning the prepared output of one leaves the other's alone."""
        one, other = start("a"), start("b")
        one.write(1)
        other.write(2)
        snapshot = one.take()
        other.restart(None)
        one.commit(snapshot)
        other.write(3)
        other.commit(other.take())
        assert one.seen() == [1, 3]

    # -- snapshots older than the last commit

    def test_a_job_that_goes_on_from_the_newest_is_told_of_nothing(self, start: Start) -> None:
        """For a job that begins from the newest snapshot, the committer reports no newer output."""
        job = start("a", needs="tells_commits")
        job.write(1)
        snapshot = job.take()
        job.commit(snapshot)
        assert start("b", snapshot).newer() is None

    def test_later_commits_are_told(self, start: Start) -> None:
        """The committer reports output after a snapshot, of its own job and of a job that continued it."""
        job = start("a", needs="tells_commits")
        old = job.checkpoint(1)
        new = job.checkpoint(2)
        assert start("b", old).newer()
        second = start("c", new)
        last = second.checkpoint(3)
        assert start("d", new).newer()
        assert start("e", last).newer() is None

    def test_a_job_that_goes_back_behind_its_own_checkpoint_is_told(self, start: Start) -> None:
        """For a job that falls back to an older checkpoint, the committer reports the output after it."""
        job = start("a", needs="tells_commits")
        old, new = job.checkpoint(1), job.checkpoint(2)
        again = start("a", new, generation=2)
        assert again.newer_than(new) is None
        assert again.newer_than(old)
        assert again.newer_than(None)
        if again.committer.takes_back:
            again.take_back_to(old)
            assert again.seen() == [1]
            again.restart(old)
            again.checkpoint(3)
            assert again.seen() == [1, 3]

    def test_a_savepoint_may_hold_what_is_committed_later(self, start: Start) -> None:
        """Output of a savepoint that a checkpoint commits, too, belongs to both and is published once."""
        job = start("a", needs="tells_commits")
        job.write(1)
        savepoint = job.take()
        job.hold(savepoint)
        job.commit(job.take(also=savepoint))
        second = start("b", savepoint)
        assert second.newer() is None
        second.restart(savepoint)
        assert job.seen() == [1]

    def test_what_a_savepoint_holds_outlives_its_job(self, start: Start) -> None:
        """A savepoint whose output is held can be restored, even if its job restarted from before it."""
        job = start("a")
        job.write(1)
        savepoint = job.take()
        job.hold(savepoint)
        job.restart(None)
        start("b", savepoint).restart(savepoint)
        assert job.seen() == [1]

    def test_what_was_released_takes_nothing_along(self, start: Start) -> None:
        """Releasing a savepoint, also twice, does not affect another one that holds the same output."""
        job = start("a")
        job.write(1)
        first = job.take()
        job.hold(first)
        second = job.take(also=first)
        job.hold(second)
        job.release(first)
        job.release(first)
        job.restart(None)
        start("b", second).restart(second)
        assert job.seen() == [1]

    def test_released_output_is_still_committed(self, start: Start) -> None:
        """Output of a released savepoint is still committed with the checkpoint that holds it, too."""
        job = start("a")
        job.write(1)
        savepoint = job.take()
        job.hold(savepoint)
        job.release(savepoint)
        job.commit(job.take(also=savepoint))
        assert job.seen() == [1]

    def test_of_two_forks_one_goes_on(self, start: Start) -> None:
        """Of two jobs from one snapshot the first to commit goes on; the other and the origin are fenced."""
        job = start("a", needs="tells_commits")
        old = job.checkpoint(1)
        one, other = start("b", old), start("c", old)
        assert (one.newer(), other.newer()) == (None, None)
        one.checkpoint(2)
        for loser in (other, job):
            loser.write(2)
            with pytest.raises(FencedError):
                loser.commit(loser.take())
        one.checkpoint(3)
        assert job.seen() == [1, 2, 3]

    def test_a_line_of_its_own_disturbs_nobody(self, start: Start) -> None:
        """A job with a lineage of its own and the job of its snapshot both commit, undisturbed."""
        job = start("a", needs="tells_commits")
        old = job.checkpoint(1)
        job.checkpoint(2)
        job.write(3)
        waiting = job.take()
        other = start("b", old, lineage="b")
        mine = other.checkpoint(20)
        other.restart(mine)
        job.commit(waiting)
        assert job.seen() == [1, 2, 3, 20]
        assert start("c", mine).newer() is None

    def test_taking_back_leaves_the_history(self, start: Start) -> None:
        """Taking back, also twice, removes output after the snapshot, and fences the job that wrote it."""
        job = start("a", needs="takes_back")
        old = job.checkpoint(1)
        job.checkpoint(2)
        second = start("b", old)
        second.take_back()
        second.take_back()
        assert (second.newer(), job.seen()) == (None, [1])
        job.write(3)
        with pytest.raises(FencedError):
            job.commit(job.take())
        second.checkpoint(20)
        assert job.seen() == [1, 20]

    def test_what_was_taken_back_can_come_again(self, start: Start) -> None:
        """A job that begins from a newer snapshot gets back the output that was taken back before."""
        job = start("a", needs="takes_back")
        old, new = job.checkpoint(1), job.checkpoint(2)
        second = start("b", old)
        second.take_back()
        second.checkpoint(20)
        third = start("c", new)
        third.take_back()
        assert job.seen() == [1, 2]
        third.checkpoint(3)
        assert job.seen() == [1, 2, 3]


class _Snapshot(msgspec.Struct):
    """The committables of one sink in a checkpoint or savepoint, as they are stored."""

    fork: Fork  # the snapshot's own identity
    lineage: Lineage  # of the job that took it
    committables: list[Any]


class _Job:
    """A simulated job with one sink and two subtasks, whose steps a test makes one by one."""

    def __init__(
        self,
        suite: SinkSuite,
        folder: Path,
        name: str,
        restored: _Snapshot | None,
        lineage: str | None,
        generation: int,
    ) -> None:
        self._suite, self._folder, self._name, self._generation = suite, folder, name, generation
        self._sink, self._attempt, self._number = suite.new_sink(folder), 0, 0
        self._lineage = _lineage(name, restored, lineage)
        committer = self._sink.create_committer()
        assert committer is not None, "the suite is for sinks with a committer"
        self.committer: SinkCommitter = committer
        self.committer.begin(self._context)
        self.writers: list[SinkWriter] = []
        self._opened: list[SinkWriter] = []
        self._deploy()

    @property
    def _context(self) -> SinkCommitterContext:
        return SinkCommitterContext(_UID, self._name, self._generation, self._lineage)

    def _deploy(self) -> None:
        self._attempt += 1
        shipped: list[Sink] = [copy.deepcopy(self._sink) for _ in range(2)]
        self.writers = [
            sink.create_writer(
                SinkWriterContext(_UID, subtask, 2, self._attempt, self._name, self._generation), []
            )
            for subtask, sink in enumerate(shipped)
        ]
        self._opened += self.writers

    def close(self) -> None:
        for writer in self._opened:
            writer.close()
        self.committer.close()

    def write(self, *records: int) -> None:
        self.writers[0].write(list(records))

    def of_two_subtasks(self, one: int, other: int) -> _Snapshot:
        self.writers[0].write([one])
        self.writers[1].write([other])
        return self.take()

    def take(self, also: _Snapshot | None = None) -> _Snapshot:
        self._number += 1
        ready = [] if also is None else list(also.committables)
        ready += [entry for writer in self.writers for entry in writer.prepare_commit_at(self._number)]
        fork = Fork(self._name, self._generation, self._attempt, self._number)
        snapshot = _Snapshot(fork, self._lineage, ready)
        return msgpack_decoder(_Snapshot).decode(msgspec.msgpack.encode(snapshot))

    def commit(self, snapshot: _Snapshot, first: int | None = None) -> None:
        self.committer.commit(snapshot.committables[:first])

    def checkpoint(self, *records: int) -> _Snapshot:
        self.write(*records)
        snapshot = self.take()
        self.commit(snapshot)
        return snapshot

    def restart(self, snapshot: _Snapshot | None) -> None:
        committables = [] if snapshot is None else snapshot.committables
        if committables:
            self.committer.commit(committables)
        self.committer.abandon(committables)
        self._deploy()

    def hold(self, snapshot: _Snapshot) -> None:
        self.committer.hold(snapshot.committables, snapshot.fork)

    def release(self, snapshot: _Snapshot) -> None:
        committer = self._sink.create_committer()
        assert committer is not None
        committer.release(snapshot.committables, snapshot.fork)
        committer.close()

    def newer(self) -> str | None:
        return self.committer.committed_after(self._context)

    def newer_than(self, snapshot: _Snapshot | None) -> str | None:
        return self.committer.committed_after(self._after(snapshot))

    def take_back(self) -> None:
        self.committer.take_back(self._context)

    def take_back_to(self, snapshot: _Snapshot) -> None:
        self.committer.take_back(self._after(snapshot))

    def _after(self, snapshot: _Snapshot | None) -> SinkCommitterContext:
        fork = Fork(self._name, 0, 0, 0) if snapshot is None else snapshot.fork
        lineage = Lineage(self._lineage.id, (*self._lineage.forks, fork))
        return SinkCommitterContext(_UID, self._name, self._generation, lineage)

    def seen(self) -> list[int]:
        return sorted(self._suite.read(self._sink, self._folder))


def _lineage(name: str, restored: _Snapshot | None, lineage: str | None) -> Lineage:
    if restored is None:
        return Lineage(lineage or name)
    forks = restored.lineage.forks
    if restored.fork.job != name:
        forks += (restored.fork,)
    return Lineage(lineage or restored.lineage.id, forks)
