"""Metrics of splits, sinks, channels and databases are right while jobs run."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import TINY, Count, ListEnumerator, ListReader
from prometheus_client.parser import text_string_to_metric_families
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.common.files.job_files import known_jobs
from headgate.metrics.of_parts import PENDING_BYTES
from headgate.testing import Counters, JobListener, MiniCluster

OFTEN = {**TINY, "heartbeat.interval": "5ms", "rest.enabled": True}
EVIL = '0 "quoted"\n# TYPE headgate_workers gauge\nheadgate_workers 99 <b>\x01.jsonl'
Labels = Mapping[str, str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of jobs of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))


def scraped(name: str) -> list[tuple[Labels, float]]:
    """All series of one metric of the job that runs."""
    (known,) = known_jobs()
    request = urllib.request.Request(
        f"{known.file.address}/metrics", headers={"authorization": f"Bearer {known.file.secret}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
    return [(sample.labels, sample.value) for sample in samples]


def total(name: str) -> float:
    """The sum of a metric's series."""
    return sum(value for _, value in scraped(name))


class Topic(hg.Source[Any]):
    """A partition that grows while it is read, like a broker's: the end is known, and moves."""

    boundedness = hg.Boundedness.UNBOUNDED
    end: ClassVar[int] = 0
    reached: ClassVar[int] = 0  # the reader reads so far
    closed: ClassVar[bool] = False

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return ListEnumerator([0] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _TopicReader(self)


class _TopicReader(ListReader):
    def poll(self, max_records: int) -> Any:
        for split in self.splits:
            if Topic.reached > split[1]:
                found, split[1] = list(range(split[1], Topic.reached)), Topic.reached
                return found
        return hg.END_OF_INPUT if Topic.closed else hg.NOTHING_AVAILABLE

    def left_to_read(self) -> Mapping[str, hg.InputLeft]:
        return {
            f"topic-{name}": hg.InputLeft(Topic.end - at, behind_ms=1_500 if Topic.end > at else 0)
            for name, at in self.splits
        }


def test_the_lag_of_a_partition_is_its_end_less_the_position() -> None:
    """It grows with the topic, falls while records are read, and is 0 when all is read."""
    Topic.end, Topic.reached, Topic.closed = 100, 40, False
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=OFTEN)
    env.from_source(Topic(), uid="in").map(str).print()
    lag = "headgate_source_pending_records"
    with env.execute_async("lagging") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: total(lag) == 60, "40 of 100 are read")
        ((labels, behind),) = scraped("headgate_source_behind_seconds")
        assert behind == 1.5
        assert [labels[name] for name in ("operator", "subtask", "split")] == ["in", "0", "topic-0"]
        assert scraped("headgate_source_pending_bytes") == []  # nobody knows them: absent, not 0
        Topic.end = 120
        wait_until(lambda: total(lag) == 80, "the topic grows")
        Topic.reached = 120
        wait_until(lambda: total(lag) == 0, "all is read")
        assert [value for _, value in scraped("headgate_source_behind_seconds")] == [0]
        assert total("headgate_source_splits_total") == 1
        Topic.closed = True
        handle.result()


class Gate:
    """Lets records pass up to a number."""

    passes: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def hold(cls, record: Any) -> Any:
        """Wait at the record 1."""
        if record["n"] == 1:
            assert cls.passes.wait(30)
        return record


class Heard(JobListener):
    """Keeps the bytes left of each split, one value for each heartbeat."""

    def __init__(self) -> None:
        self.left: dict[str, list[int]] = {}
        self.now: list[str] = []
        self.unread_bytes: list[int | None] = []

    def unread(self, left: Mapping[str, hg.InputLeft | None]) -> None:
        self.unread_bytes.append(None if left["in"] is None else left["in"].bytes)

    def progress(self, counters: Sequence[Counters]) -> None:
        parts = [part for each in counters for part in each.parts]
        left = [
            (part.labels[0], dict(part.known())[PENDING_BYTES]) for part in parts if part.place == "split"
        ]
        self.now = [name for name, _ in left]
        for name, value in left:
            self.left.setdefault(name, []).append(value)


def test_bytes_of_files_are_those_that_are_not_read(tmp_path: Path) -> None:
    """First all but what one reader has; in the end none. A file's name is a label, whatever is in it."""
    Gate.passes = threading.Event()
    text = "".join(json.dumps({"n": n}) + "\n" for n in range(20_000))
    (tmp_path / "in").mkdir()
    for name in (EVIL, "y.jsonl", "z.jsonl"):
        (tmp_path / "in" / name).write_text(text)
    size, heard = len(text), Heard()
    env = hg.Environment(parallelism=1, executor=MiniCluster(heard), config=OFTEN)
    records = env.read_json(str(tmp_path / "in"), uid="in").map(hg.blocking(Gate.hold))
    records.filter(lambda record: False).print()
    with env.execute_async("reading") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: 0 < total(PENDING_BYTES.name) < size, "a part of the first file is read")
        ((labels, _),) = scraped(PENDING_BYTES.name)
        assert labels["split"] == str(tmp_path / "in" / EVIL.replace("\x01", "\ufffd"))
        assert total("headgate_source_unassigned_bytes") == 2 * size
        assert scraped("headgate_source_pending_records") == []
        assert [value for _, value in scraped("headgate_workers")] == [1]
        Gate.passes.set()
        handle.result()
    assert heard.unread_bytes[0] == 3 * size
    assert heard.unread_bytes[-1] == 0
    assert heard.unread_bytes == sorted(heard.unread_bytes, key=lambda left: -(left or 0))
    assert heard.now == []
    assert all(values == sorted(values, reverse=True) for values in heard.left.values())


class Slow(hg.Sink[Any]):
    """Prepares each record as a transaction, and commits when it may."""

    may: ClassVar[threading.Event] = threading.Event()

    def create_writer(self, context: hg.SinkWriterContext, restored: Sequence[Any]) -> hg.SinkWriter[Any]:
        return _SlowWriter()

    def create_committer(self) -> hg.SinkCommitter:
        return _SlowCommitter()


class _SlowWriter(hg.SinkWriter[Any]):
    def __init__(self) -> None:
        self._records: list[Any] = []

    def write(self, records: Any) -> None:
        self._records += records

    def prepare_commit(self) -> list[Any]:
        records, self._records = self._records, []
        return records


class _SlowCommitter(hg.SinkCommitter):
    def commit(self, committables: Sequence[Any]) -> None:
        assert Slow.may.wait(30)


def test_a_transaction_is_pending_between_prepare_and_commit(tmp_path: Path) -> None:
    """And its commit took as long as the sink took."""
    Slow.may = threading.Event()
    valve = Valve(9_961, 1, ["a", "b"])
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=OFTEN)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    env.from_source(valve, uid="in").sink_to(Slow(), uid="out")
    pending, commits = "headgate_sink_pending_commits", "headgate_sink_commit_seconds"
    with env.execute_async("committing") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: total(pending) == 1, "one is prepared")
        assert scraped(f"{commits}_count") == []
        Slow.may.set()
        wait_until(lambda: total(pending) == 0, "it is committed")
        ((labels, count),) = scraped(f"{commits}_count")
        assert labels["operator"] == "out"
        assert count >= 1  # the checkpoint after the first has the transaction, too
        assert 0 < total(f"{commits}_sum") < 30
        valve.open_to()
        handle.result()


def test_a_receiver_that_works_has_frames_in_flight_and_no_credit_left() -> None:
    """One frame of credit: the one that is processed is in flight, further ones wait."""
    Gate.passes = threading.Event()
    valve = Valve(9_962, 50, [{"n": n} for n in range(100)])
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=OFTEN)
    records = env.from_source(valve, uid="in").rebalance()
    records.map(Gate.hold, uid="held").filter(lambda record: False).print()
    names = [f"headgate_channel_{name}_frames" for name in ("in_flight", "waiting", "credit")]
    with env.execute_async("held up") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: total(names[0]) == 1, "a frame is processed")
        ((labels, in_flight),) = scraped("headgate_channel_in_flight_bytes")
        assert {**labels} == {**labels, "operator": "in", "receiver": "held", "receiver_subtask": "0"}
        assert in_flight > 0
        assert total(names[2]) == 0
        Gate.passes.set()
        wait_until(lambda: [total(name) for name in names] == [0, 0, 1], "all is processed")
        assert total("headgate_channel_in_flight_bytes") == 0
        valve.open_to()
        handle.result()


def test_rocksdb_says_how_large_it_is(tmp_path: Path) -> None:
    """Of an operator that keeps its state there; others say nothing of it."""
    valve = Valve(9_963, 500, [{"n": n} for n in range(1_000)])
    config = {**OFTEN, "state.backend.type": "rocksdb", "state.backend.rocksdb.localdir": str(tmp_path)}
    config["state.backend.rocksdb.statistics"] = True
    env = hg.Environment(parallelism=1, executor=MiniCluster(), config=config)
    env.checkpoints(every="50ms", storage=str(tmp_path / "checkpoints"))
    counts = env.from_source(valve, uid="in").key_by(lambda record: record["n"]).process(Count(), uid="count")
    counts.filter(lambda record: False).print()
    with env.execute_async("stored") as handle:
        wait_until(known_jobs, "the job can be found")
        wait_until(lambda: total("headgate_rocksdb_entries") >= 500, "all keys are there")
        wait_until(lambda: total("headgate_rocksdb_sst_bytes") > 0, "a checkpoint has written them")
        assert {labels["operator"] for labels, _ in scraped("headgate_rocksdb_memtable_bytes")} == {"count"}
        assert total("headgate_rocksdb_stopped_databases") == 0
        for name in ("block_cache_hits", "block_cache_misses", "stalled_seconds"):
            assert scraped(f"headgate_rocksdb_{name}_total")
        valve.open_to()
        handle.result()
