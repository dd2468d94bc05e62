"""A failure that is always the same is told, with the choices; the job goes on trying unless told to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mini_jobs import ListEnumerator, ListReader

import headgate as hg
from headgate.api.jobs.executor_contract import RepeatingFailure
from headgate.cli.pages.jobs_page import shown
from headgate.common.errors import HeadgateError
from headgate.testing import JobListener, MiniCluster

OFTEN = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 7,
    "restart-strategy.fixed-delay.delay": "1ms",
}
ENDS = {"restart-strategy.same-failure-limit.action": "fail"}


class Notes(JobListener):
    """What is told, in order, and the status at each failure."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.repeating: list[tuple[int, RepeatingFailure]] = []
        self.checkpoints: list[int] = []

    def repeats(self, failure: RepeatingFailure) -> None:
        self.repeating.append((len(self.failures) + 1, failure))

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self.failures.append(error)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.checkpoints.append(checkpoint)


def poisoned(record: Any) -> Any:
    """Cannot take a seven."""
    if record == 7:
        raise ValueError(f"no {record}")
    return record


def run(**config: Any) -> tuple[Notes, Exception]:
    """A job with a record that its function cannot take."""
    notes = Notes()
    env = hg.Environment(executor=MiniCluster(notes), config={**OFTEN, **config})
    with pytest.raises(hg.UserFunctionError) as caught:
        env.from_collection([1, 7]).map(poisoned, uid="careless").collect()
    return notes, caught.value


def test_it_is_told_and_the_job_goes_on_trying() -> None:
    """At the third time and at the sixth; the restart strategy has the last word."""
    notes, _ = run()
    assert len(notes.failures) == 8
    assert [number for number, _ in notes.repeating] == [3, 6]
    told = notes.repeating[0][1]
    assert "(uid 'careless')" in told.operator
    assert (told.kind, told.times, told.since) == ("ValueError", 3, None)
    line = next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "no {record}" in text
    )
    assert told.line == f"{__file__}:{line}"
    for word in ("3rd time since the beginning", told.line, "same-failure-limit.action=fail", "--from"):
        assert word in told.text


def test_it_ends_the_job_where_the_option_says_so() -> None:
    """With the user's own error, after the reason was told."""
    notes, error = run(**ENDS)
    assert len(notes.failures) == 3
    assert notes.repeating[0][1].text.count("the job ends") == 1
    assert "ValueError: no 7" in str(error)


def test_the_status_has_it() -> None:
    """For people and as JSON, until a checkpoint shows that the job got further."""
    env = hg.Environment(executor=MiniCluster(), config={**OFTEN, **ENDS})
    env.from_collection([7]).map(poisoned, uid="careless").collect_later()
    handle = env.execute_async("poisoned")
    with pytest.raises(hg.UserFunctionError):
        handle.result()
    status = handle.status()
    assert status.repeating is not None
    assert status.repeating.text in shown(status).replace("\n", " ")
    facts = json.loads(msgspec.json.encode(status))
    assert facts["repeating"]["kind"] == "ValueError"
    assert facts["repeating"]["times"] == 3


class Moving(hg.Source[int]):
    """Fails after each of its first checkpoints, always on the same line."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return ListEnumerator([0] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[int]:
        return MovingReader(self)


class MovingReader(ListReader):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.armed = False

    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        if self.armed:
            self.armed = False
            raise LookupError("one step further")
        if self.splits[0][1] >= 5:
            self.splits.pop()
        return [1]

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        if self.splits:
            self.splits[0][1] += 1
            self.armed = True


def test_a_job_that_gets_further_between_failures_is_not_told(tmp_path: Path) -> None:
    """Each failure comes from another checkpoint: something moves."""
    notes = Notes()
    env = hg.Environment(executor=MiniCluster(notes), config={**OFTEN, **ENDS})
    env.checkpoints("5ms", storage=str(tmp_path / "checkpoints"))
    env.from_source(Moving(), uid="moving").set_parallelism(1).write_json(str(tmp_path / "out"), uid="out")
    with pytest.raises(hg.UserFunctionError):
        env.execute("moving")
    assert len(notes.failures) == 8
    assert notes.repeating == []


class Untrue(hg.KeyedProcessFunction[Any, Any, Any]):
    """Keeps what its state cannot."""

    last: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> None:
        self.last.value = "seven"  # type: ignore[assignment]


class Full(hg.Sink[Any]):
    """Cannot publish."""

    def create_writer(self, context: Any, restored: Any) -> hg.SinkWriter[Any]:
        return FullWriter()

    def create_committer(self) -> hg.SinkCommitter:
        return FullCommitter()


class FullWriter(hg.SinkWriter[Any]):
    def write(self, records: Any) -> None:
        pass

    def prepare_commit(self) -> list[Any]:
        return ["it"]


class FullCommitter(hg.SinkCommitter):
    def commit(self, committables: Any) -> None:
        raise hg.StorageError("no room for 1 more")


def unstorable(env: hg.Environment) -> None:
    """A state of another type than declared."""
    env.from_collection([7], uid="in").key_by(lambda r: r).process(Untrue(), uid="untrue").collect_later()


def unpublished(env: hg.Environment) -> None:
    """A sink that refuses."""
    env.from_collection([7], uid="in").sink_to(Full(), uid="full")


@pytest.mark.parametrize(
    ("build", "kind", "said"),
    [
        (unstorable, "StorageError", "'Untrue' (uid 'untrue')"),
        (unpublished, "StorageError", "no room for N more"),
    ],
)
def test_failures_of_checkpoints_and_sinks_have_a_fingerprint(
    tmp_path: Path, build: Any, kind: str, said: str
) -> None:
    """What differs in their texts is the number of the checkpoint; no message has pairs of numbers."""
    notes = Notes()
    config = {**OFTEN, **ENDS, "execution.checkpointing.tolerable-failed-checkpoints": 0}
    env = hg.Environment(executor=MiniCluster(notes), config=config)
    env.checkpoints("5ms", storage=str(tmp_path / "checkpoints"))
    build(env)
    with pytest.raises(hg.HeadgateError):
        env.execute("always")
    assert [failure.times for _, failure in notes.repeating] == [3]
    told = notes.repeating[0][1]
    assert told.kind == kind
    assert said in told.text
    assert not any("task (" in str(failure) for failure in notes.failures)
