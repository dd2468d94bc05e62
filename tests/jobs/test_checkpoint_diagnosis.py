"""Whole jobs leave a history of their checkpoints from which the slow part can be told."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mini_jobs import RESTART_AT_ONCE, Count, environment

import headgate as hg
from headgate.checkpoint.history_file import (
    CheckpointStatus,
    History,
    find_histories,
    read_history,
    slowest_path,
)
from headgate.connectors.collection import collection_source
from headgate.testing import simulate

WORDS = [f"w{n % 50}" for n in range(3_000)]


def linger(record: Any) -> Any:
    """A slow user function."""
    time.sleep(0.001)
    return record


def run(storage: Path, slow: bool = False) -> History:
    """A job of three chains, and what it left."""
    env = environment(2, RESTART_AT_ONCE)
    env.checkpoints(every="100ms", storage=str(storage))
    counts = env.from_source(collection_source(WORDS, splits=4), uid="words").key_by(lambda w: w)
    shared = counts.process(Count(), uid="count").rebalance()
    result = (shared.map(linger, uid="linger") if slow else shared).collect_later()
    env.execute("collect")
    assert len(result.records) == len(WORDS)
    assert env.result is not None
    (file,) = find_histories(str(storage))
    history = read_history(file)
    completed = [record for record in history.records if record.status is CheckpointStatus.COMPLETED]
    assert len(completed) == env.result.checkpoints
    return history


def test_every_checkpoint_of_a_job_is_kept(tmp_path: Path) -> None:
    """Also the last: with all subtasks, and parts of time that fit into the whole."""
    last = run(tmp_path).records[-1]
    assert (last.kind, last.status, last.missing) == ("final", CheckpointStatus.COMPLETED, ())
    assert len(last.subtasks) == sum(vertex.parallelism for vertex in last.topology.vertices) == 6
    assert last.size > 0
    assert last.stored_ms is not None
    assert max(seen.ack_latency_ms for seen in last.subtasks) <= last.stored_ms <= last.duration_ms
    path = slowest_path(last)
    assert [hop.vertex for hop in path.hops] == sorted({hop.vertex for hop in path.hops})
    assert path.hops[0].label.startswith("'words'[")


def test_backpressure_is_found_where_it_is(tmp_path: Path) -> None:
    """A slow function makes barriers wait before it or in its input, or triggers before blocked sources."""
    records = [record for record in run(tmp_path, slow=True).records if record.kind == "periodic"]
    slowest = max(records, key=lambda record: record.duration_ms)
    assert slowest.duration_ms > 100
    assert "backpressure" in slowest_path(slowest).why


def test_a_job_without_checkpoints_leaves_no_history(tmp_path: Path, monkeypatch: Any) -> None:
    """Nothing is written anywhere."""
    monkeypatch.chdir(tmp_path)
    assert environment(1).from_collection([1, 2], uid="in").map(str, uid="text").collect() == ["1", "2"]
    assert list(tmp_path.iterdir()) == []


def test_a_history_changes_nothing_about_recovery_and_is_the_same_again() -> None:
    """Under faults of every kind, its own disk's among them; the same seed gives the same trace."""

    def build(env: hg.Environment) -> None:
        words = env.from_collection(WORDS[:200], uid="words").key_by(lambda word: word)
        words.process(Count(), uid="count").collect_later(uid="out")

    first, again = simulate(build, seeds=range(12)), simulate(build, seeds=range(12))
    assert first.digests == again.digests
    assert first.restarts > 0
