"""Wrong use is refused before anything starts, in a sentence that says how to mend it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

LOCK = threading.Lock()


class Count(hg.KeyedProcessFunction):
    """A running count per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.count.value += 1
        yield ctx.key, self.count.value


def environment(tmp_path: Path, **config: Any) -> hg.Environment:
    """An environment with checkpoints whose executor refuses to be reached."""

    class Unreachable(MiniCluster):
        def execute(self, job: Any) -> Any:
            raise AssertionError("the job was started")

    env = hg.Environment(parallelism=2, executor=Unreachable(), config=config)
    return env.checkpoints(every="1s", storage=str(tmp_path / "checkpoints"))


def counted(
    env: hg.Environment, source: Path | str, output: Path, uid: str | None = "count"
) -> hg.Environment:
    """The smallest stateful job over JSON lines."""
    env.read_json(str(source)).key_by("k").process(Count(), uid=uid).write_json(str(output))
    return env


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file with two records."""
    file = tmp_path / "in.jsonl"
    file.write_text('{"k": "a"}\n{"k": "b"}\n')
    return file


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A source file that does not exist is refused by name."""
    env = counted(environment(tmp_path), tmp_path / "absent.jsonl", tmp_path / "out")
    with pytest.raises(hg.UsageError, match=r"absent\.jsonl"):
        env.execute("job")


def test_empty_glob_is_named(tmp_path: Path) -> None:
    """A glob without a match is refused."""
    env = counted(environment(tmp_path), tmp_path / "*.nothing", tmp_path / "out")
    with pytest.raises(hg.UsageError, match=r"\*\.nothing"):
        env.execute("job")


def test_missing_uid_is_refused_when_checkpoints_are_on(tmp_path: Path, lines: Path) -> None:
    """State is found by uid, so a stateful operator needs one."""
    with pytest.raises(hg.PlanError, match="uid"):
        counted(environment(tmp_path), lines, tmp_path / "out", uid=None).execute("job")


def test_uid_used_twice_is_refused(tmp_path: Path, lines: Path) -> None:
    """Two operators cannot share a uid."""
    env = environment(tmp_path)
    stream = env.read_json(str(lines)).key_by("k").process(Count(), uid="same")
    stream.key_by(lambda pair: pair[0]).process(Count(), uid="same").write_json(str(tmp_path / "out"))
    with pytest.raises(hg.PlanError, match="'same'"):
        env.execute("job")


def test_state_declared_twice_is_refused(tmp_path: Path, lines: Path) -> None:
    """A state name stands for one state."""

    class Again(Count):
        count: hg.ValueState[str] = hg.value_state(default="")

    env = environment(tmp_path)
    with pytest.raises(hg.PlanError, match="count"):
        env.read_json(str(lines)).key_by("k").process(Again(), uid="c").write_json(str(tmp_path / "out"))
        env.execute("job")


def test_function_that_cannot_be_shipped_names_the_variable(tmp_path: Path, lines: Path) -> None:
    """What cannot travel is named: which variable of which function."""
    lock = threading.Lock()

    def guarded(record: Any) -> Any:
        with lock:
            return record

    env = environment(tmp_path)
    env.read_json(str(lines)).map(guarded).write_json(str(tmp_path / "out"))
    with pytest.raises(hg.NotShippableError, match=r"(?s)lock.*guarded|guarded.*lock"):
        env.execute("job")


@pytest.mark.parametrize(
    "misuse",
    [
        lambda stream: stream.with_event_time("t", out_of_orderness="-1s"),
        lambda stream: stream.with_event_time("t", out_of_orderness=-5),
        lambda stream: stream.with_event_time("t", idleness="soon"),
    ],
)
def test_negative_or_senseless_durations_are_refused(
    tmp_path: Path, lines: Path, misuse: Callable[[Any], Any]
) -> None:
    """A duration is zero or more and has a unit."""
    with pytest.raises(hg.UsageError, match=r"out_of_orderness|idleness"):
        misuse(environment(tmp_path).read_json(str(lines)))


def test_negative_checkpoint_interval_is_refused(tmp_path: Path) -> None:
    """Settings are durations, too."""
    with pytest.raises(hg.UsageError, match=r"execution\.checkpointing\.interval"):
        hg.Environment(parallelism=1).checkpoints(every="-1s", storage=str(tmp_path))


def test_unknown_option_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """A misspelt key names the one that was meant."""
    with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.interval"):
        environment(tmp_path, **{"execution.checkpointing.intervall": "1s"})


def test_storage_that_is_a_file_is_refused(tmp_path: Path, lines: Path) -> None:
    """Checkpoints need a directory that can be written; nothing starts without."""
    in_the_way = tmp_path / "checkpoints"
    in_the_way.write_text("not a directory")
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    env.checkpoints(every="1s", storage=str(in_the_way))
    counted(env, lines, tmp_path / "out")
    with pytest.raises(hg.HeadgateError, match="checkpoints"):
        env.execute("job")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("part*"))


def test_storage_that_workers_do_not_share_is_refused(
    tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that sees another directory than the driver says so at the start."""
    from headgate.runtime.worker import worker_process

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(worker_process, "disks_with", lambda _: lambda uri: _local(elsewhere))
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    env.checkpoints(every="1s", storage=str(tmp_path / "checkpoints"))
    counted(env, lines, tmp_path / "out")
    with pytest.raises(hg.HeadgateError, match="storage"):
        env.execute("job")


def _local(folder: Path) -> Any:
    from headgate.checkpoint.storage.local import LocalDisk

    return LocalDisk(folder)
