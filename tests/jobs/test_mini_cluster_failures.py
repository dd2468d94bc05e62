"""Whole jobs that fail: they restart from the checkpoint to the exact answer, or say whose move it is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.connectors.collection import collection_source
from headgate.testing import CRASH_ONCE, JobListener, MiniCluster, TestSource

LOCK = threading.Lock()


class Diary(JobListener):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.attempts: list[tuple[int, int | None]] = []
        self.failures: list[Exception] = []
        self.gangs, self.end = 0, ""

    def gang_submitted(self, gang: int, slots: int) -> None:
        self.gangs = gang

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.attempts.append((attempt, checkpoint))

    def failed(self, attempt: int, error: Exception, restart_in_ms: int | None) -> None:
        self.failures.append(error)

    def ended(self, state: str) -> None:
        self.end = state


def watched(parallelism: int, config: dict[str, Any]) -> tuple[hg.Environment, Diary]:
    """An environment whose listener keeps a diary."""
    diary = Diary()
    return hg.Environment(parallelism=parallelism, executor=MiniCluster(diary), config=config), diary


def checkpointed(env: hg.Environment, tmp_path: Path) -> hg.Environment:
    """Checkpoints as often as can be."""
    return env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))


WORDS = [f"w{n % 7}" for n in range(200)]


def test_more_workers_than_slots_are_refused_before_the_start(tmp_path: Path) -> None:
    """One sentence, and nothing was started or written; as many as there are slots may run."""
    diary = Diary()
    for parallelism in (3, 2):
        env = hg.Environment(parallelism=parallelism, executor=MiniCluster(diary, slots=2))
        numbers = checkpointed(env, tmp_path).from_collection([1, 2], uid="in").map(lambda n: n)
        if parallelism == 3:
            with pytest.raises(hg.UsageError, match="it needs 3 workers, and the mini cluster has 2 slots"):
                numbers.write_json(str(tmp_path / "out"), uid="out"), env.execute("wide")
            assert (diary.gangs, list(tmp_path.iterdir())) == (0, [])
        else:
            assert sorted(numbers.collect()) == [1, 2]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_crash_after_a_checkpoint_leaves_no_trace_in_the_output(tmp_path: Path, parallelism: int) -> None:
    """Restored from the checkpoint, the files sink holds each running count exactly once."""
    env, diary = watched(parallelism, {**RESTART_AT_ONCE, **TINY})
    checkpointed(env, tmp_path)
    source = Halting(parallelism, len(WORDS) // 2, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(Count(), uid="count")
    counted.map(lambda pair: {"word": pair[0], "n": pair[1]}).write_json(str(tmp_path / "out"), uid="out")
    result = env.execute("words")
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(WORDS + WORDS)
    assert 1 <= result.restarts <= 2  # two crashes at the same time are one restart
    assert diary.attempts[0] == (1, None)
    assert all(checkpoint is not None for _, checkpoint in diary.attempts[1:])
    assert (diary.gangs, diary.end) == (1, "finished"), "user code failed, workers live: no new gang"


def test_a_crash_before_any_checkpoint_begins_anew(tmp_path: Path) -> None:
    """Without checkpoints a restart reads everything again, and nothing was published before."""
    env, diary = watched(2, RESTART_AT_ONCE)
    source = TestSource([*WORDS, CRASH_ONCE, *WORDS], memory=tmp_path)
    result = env.from_source(source).key_by(lambda word: word).process(Count(), uid="count").collect()
    assert sorted(result) == running_counts(WORDS + WORDS)
    assert diary.attempts == [(1, None), (2, None)]


TROUBLE = {"left": 0}


def strike(record: Any) -> Any:
    """Raise as long as there is trouble left."""
    with LOCK:
        TROUBLE["left"] -= 1
        if TROUBLE["left"] >= 0:
            raise ValueError(f"trouble with {record}")
    return record


def test_restart_strategy_none_makes_the_first_failure_final() -> None:
    """The program hears its own error: operator, record, attempt and its own frames."""
    env, diary = watched(2, {"restart-strategy.type": "none"})
    TROUBLE["left"] = 1
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection([7]).map(strike, uid="careless").collect()
    error = caught.value
    assert "(uid 'careless')" in error.operator
    assert (error.record, error.attempt) == ("7", 1)
    assert "ValueError: trouble with 7" in error.traceback_text
    assert "test_mini_cluster_failures.py" in error.traceback_text
    assert "src/headgate" not in error.traceback_text
    assert (len(diary.failures), diary.end) == (1, "failed")


@pytest.mark.parametrize(("trouble", "ends"), [(3, "finished"), (4, "failed")])
def test_fixed_delay_restarts_as_often_as_it_says(trouble: int, ends: str) -> None:
    """Three restarts outlive three failures; the fourth is final and tells the last attempt."""
    env, diary = watched(1, RESTART_AT_ONCE)
    TROUBLE["left"] = trouble
    stream = env.from_collection([1]).map(strike)
    if ends == "finished":
        assert stream.collect() == [1]
    else:
        with pytest.raises(hg.UserFunctionError, match="in attempt 4 for record 1"):
            stream.collect()
    assert [attempt for attempt, _ in diary.attempts] == [1, 2, 3, 4]
    assert (len(diary.failures), diary.end) == (trouble, ends)


def test_an_exit_in_user_code_is_an_error_like_others() -> None:
    """`sys.exit` in a function must not take the worker away without a word."""
    env = environment(2, {"restart-strategy.type": "none"})
    with pytest.raises(hg.HeadgateError, match="SystemExit: 3"):
        env.from_collection([3]).map(sys.exit).collect()


# -- user code that raises beside records


class Fragile(hg.ProcessFunction[int, int]):
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, context: hg.RuntimeContext) -> None:
        if self.where == "open":
            raise LookupError("no database")

    def process(self, record: int, ctx: Any) -> Iterator[int]:
        yield record

    def close(self) -> None:
        if self.where == "close":
            raise LookupError("no goodbye")


def test_an_error_in_open_is_the_users() -> None:
    """It names the operator and what it was doing, and the job does not hang."""
    env = environment(2)
    with pytest.raises(hg.UserFunctionError, match="no database") as caught:
        env.from_collection([1]).process(Fragile("open"), uid="fragile").collect()
    assert "(uid 'fragile')" in caught.value.operator
    assert caught.value.record == "none (in open())"


def test_an_error_in_close_does_not_undo_a_finished_job(caplog: pytest.LogCaptureFixture) -> None:
    """Everything is committed by then; the error is told on the way out."""
    env = environment(2)
    assert env.from_collection([1, 2]).process(Fragile("close")).collect() == [1, 2]
    assert "no goodbye" in caplog.text


class Picky(hg.Sink[Any]):
    """A sink of the program's own that fails where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def create_writer(self, context: Any, restored: Sequence[Any]) -> hg.SinkWriter[Any]:
        return PickyWriter(self.where)

    def create_committer(self) -> Any:
        return PickyCommitter(self.where)


class PickyWriter(hg.SinkWriter[Any]):
    def __init__(self, where: str) -> None:
        self.where = where

    def write(self, records: Any) -> None:
        if self.where == "write":
            raise LookupError("picky write")

    def prepare_commit(self) -> list[Any]:
        if self.where == "prepare_commit":
            raise LookupError("picky prepare_commit")
        return ["something"]

    def snapshot(self) -> list[Any]:
        if self.where == "snapshot":
            raise LookupError("picky snapshot")
        return []


class PickyCommitter(hg.SinkCommitter):
    """Counts commits; refuses the first `refusals` of them."""

    refusals = 0
    commits: ClassVar[list[Any]] = []

    def __init__(self, where: str) -> None:
        self.where = where

    def commit(self, committables: Sequence[Any]) -> None:
        with LOCK:
            if PickyCommitter.refusals > 0:
                PickyCommitter.refusals -= 1
                raise hg.OperatingError("the shop is closed")
            PickyCommitter.commits.append(list(committables))


@pytest.mark.parametrize("where", ["write", "prepare_commit", "snapshot"])
def test_an_error_of_a_users_sink_is_the_users(where: str) -> None:
    """A sink of the program's own is user code, too."""
    env = environment(1)
    env.from_collection([1]).sink_to(Picky(where), uid="picky")
    with pytest.raises(hg.UserFunctionError, match=f"picky {where}") as caught:
        env.execute("picky")
    assert "(uid 'picky')" in caught.value.operator


@pytest.mark.parametrize("refusals", [1, 3])
def test_a_committer_that_fails_for_now_is_asked_again(tmp_path: Path, refusals: int) -> None:
    """The checkpoint is in the log, so recovery commits it once more - also if that fails, too."""
    PickyCommitter.refusals, PickyCommitter.commits = refusals, []
    env, diary = watched(1, RESTART_AT_ONCE)
    checkpointed(env, tmp_path)
    env.from_collection([1], uid="in").sink_to(Picky(""), uid="picky")
    result = env.execute("picky")
    assert PickyCommitter.commits
    assert all(set(commit) == {"something"} for commit in PickyCommitter.commits)
    assert (result.restarts, diary.end) == (1, "finished")


def test_a_committer_that_always_fails_ends_the_job(tmp_path: Path) -> None:
    """When the restart strategy gives up, the committer's own words are the error."""
    PickyCommitter.refusals, PickyCommitter.commits = 1_000, []
    env, diary = watched(1, RESTART_AT_ONCE)
    checkpointed(env, tmp_path)
    env.from_collection([1], uid="in").sink_to(Picky(""), uid="picky")
    with pytest.raises(hg.OperatingError, match="the shop is closed"):
        env.execute("picky")
    assert (PickyCommitter.commits, diary.end) == ([], "failed")


def test_a_key_function_that_raises_is_the_users() -> None:
    """Keys are read before records travel; the keyed operator is named all the same."""
    env = environment(2)
    stream = env.from_collection([{"k": "a"}, {}]).key_by(lambda record: record["k"])
    with pytest.raises(hg.UserFunctionError, match="KeyError: 'k'") as caught:
        stream.process(Count(), uid="count").collect()
    assert "(uid 'count')" in caught.value.operator
    assert caught.value.record == "{}"


class Torn(hg.Source[int]):
    """A source of the program's own whose parts raise."""

    def __init__(self, where: str) -> None:
        self.where = where

    def create_enumerator(self, restored: Any) -> Any:
        return TornEnumerator(self.where)

    def create_reader(self, context: Any) -> Any:
        return TornReader(self.where)


class TornEnumerator(hg.SplitEnumerator):
    def __init__(self, where: str) -> None:
        self.where = where
        if where == "enumerator":
            raise LookupError("torn enumerator")

    def next_splits(self, subtask: int) -> Any:
        if self.where == "splits":
            raise LookupError("torn splits")
        return [hg.Split("s")]

    def snapshot(self) -> Any:
        return None


class TornReader(hg.SourceReader[int]):
    def __init__(self, where: str) -> None:
        self.splits: list[Any] = []

    def add_splits(self, splits: Any) -> None:
        self.splits += splits

    def no_more_splits(self) -> None: ...

    def poll(self, max_records: int) -> Any:
        if self.splits:
            raise LookupError("torn poll")
        return hg.NOTHING_AVAILABLE

    def snapshot(self) -> Any:
        return self.splits


@pytest.mark.parametrize("where", ["enumerator", "splits", "poll"])
def test_errors_of_a_users_source_end_the_job_with_their_text(where: str) -> None:
    """Wherever a source raises, in the driver or in a worker, the job ends and says why."""
    env = environment(2)
    with pytest.raises(hg.HeadgateError, match=f"torn {where}"):
        env.from_source(Torn(where)).collect()


# -- restoring


def stopped_half_way(tmp_path: Path, parallelism: int) -> Path:
    """The last checkpoint of a job that failed for good after a checkpoint."""
    env = environment(parallelism, {"restart-strategy.type": "none"})
    checkpointed(env, tmp_path)
    build(env, Halting(id(env), 200, WORDS, [*WORDS, *WORDS]), tmp_path)
    with pytest.raises(hg.HeadgateError):
        env.execute("words")
    return max((tmp_path / "checkpoints").rglob("_metadata"), key=lambda file: file.stat().st_mtime).parent


def build(
    env: hg.Environment, source: Any, tmp_path: Path, function: Callable[[Any], Any] | None = None
) -> None:
    """Counting words into files."""
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(Count(), uid="count")
    counted.map(function or (lambda pair: {"word": pair[0], "n": pair[1]})).write_json(
        str(tmp_path / "out"), uid="out"
    )


@pytest.mark.ci
@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 2), (3, 1), (2, 4)])
def test_a_job_goes_on_from_a_checkpoint_at_another_parallelism(
    tmp_path: Path, before: int, after: int
) -> None:
    """What a job left, another one with more or fewer subtasks completes, each count once."""
    checkpoint = stopped_half_way(tmp_path, before)
    env = environment(after)
    checkpointed(env, tmp_path)
    build(env, Halting(0, 1_000, WORDS, [*WORDS, *WORDS]), tmp_path)
    env.execute("words", restore_from=str(checkpoint))
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(3 * WORDS)


def test_state_without_an_operator_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """A renamed uid would lose the state silently."""
    checkpoint = stopped_half_way(tmp_path, 1)
    env, diary = watched(1, {})
    env.from_source(TestSource(WORDS, memory=tmp_path), uid="words").key_by(lambda w: w).process(
        Count(), uid="renamed"
    ).collect_later()
    with pytest.raises(hg.UsageError, match="holds state of 'count'"):
        env.execute("words", restore_from=str(checkpoint))
    assert diary.gangs == 0


def test_an_unusable_checkpoint_directory_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """A directory that cannot be made is named, and no worker was asked for."""
    (tmp_path / "file").write_text("")
    env, diary = watched(1, {})
    env.checkpoints(every="1s", storage=str(tmp_path / "file" / "checkpoints"))
    env.from_source(collection_source([1]), uid="in").collect_later()
    with pytest.raises(hg.HeadgateError, match="file/checkpoints"):
        env.execute("job")
    assert diary.gangs == 0


def test_nothing_is_left_behind() -> None:
    """After jobs that ended well and badly, no thread of theirs runs."""
    for trouble in (0, 1):
        TROUBLE["left"] = trouble
        env = environment(2, {"restart-strategy.type": "none"})
        stream = env.from_collection([1, 2]).map(strike)
        if trouble:
            with pytest.raises(hg.UserFunctionError):
                stream.collect()
        else:
            assert sorted(stream.collect()) == [1, 2]
    for thread in threading.enumerate():
        if thread.name.startswith("headgate-"):
            thread.join(timeout=10)
    assert [t.name for t in threading.enumerate() if t.name.startswith("headgate-")] == []
