"""Whole jobs on RocksDB whose types change, whose timers are on the local disk, and whose maps are large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines

import headgate as hg
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator

WORDS = [f"w{n % 40}" for n in range(400)]


class Counting(hg.KeyedProcessFunction[str, str, Any]):
    """Counts each key and each place of it, and tells them at the end by a timer."""

    count: Any
    places: Any

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        for n in range(50):  # more than a map that lies whole has
            self.places.put(n, (self.places.get(n) or 0) + 1)
        ctx.timers.register_event_time(10 + len(ctx.key))
        yield {"word": ctx.key, "n": int(self.count.value)}

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[Any]:
        places = [int(n) for _, n in self.places.items()]
        yield {"end": ctx.key, "n": int(self.count.value), "sum": sum(places)}


class Narrow(Counting):
    """In ints."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    places: hg.MapState[int, int] = hg.map_state()


class Wide(Counting):
    """In floats."""

    count: hg.ValueState[float] = hg.value_state(default=0.0)
    places: hg.MapState[int, float] = hg.map_state()


def run(
    folder: Path, parallelism: int, name: int, function: Any, restore_from: str | None = None, **more: Any
) -> Any:
    """A job that stops half-way when `restore_from` is "stop", and else goes on from it."""
    config = {
        **TINY,
        **({"restart-strategy.type": "none"} if restore_from == "stop" else RESTART_AT_ONCE),
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(folder / "local"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        "execution.checkpointing.incremental": True,
        **more,
    }
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    source = Halting(name, len(WORDS) // 2, WORDS, WORDS)
    stream = env.from_source(source, uid="words").key_by(lambda word: word).process(function, uid="all")
    stream.write_json(str(folder / "out"), uid="out")
    return env.execute("large", restore_from=None if restore_from == "stop" else restore_from)


def half_way(folder: Path, parallelism: int, name: int, **more: Any) -> str:
    """The last checkpoint of a job that ended in the middle."""
    with pytest.raises(hg.HeadgateError):
        run(folder, parallelism, name, Narrow(), "stop", **more)
    stored = (folder / "checkpoints").rglob("_metadata")
    return str(max(stored, key=lambda file: file.stat().st_mtime).parent)


def assert_exact(folder: Path) -> None:
    """Every record counts once, and every key's timer fires once, at the end."""
    found = json_lines(folder / "out")
    ends = sorted((line["end"], line["n"], line["sum"]) for line in found if "end" in line)
    words = sorted(set(WORDS))
    assert ends == [(word, 2 * WORDS.count(word), 100 * WORDS.count(word)) for word in words]
    counted = sorted((line["word"], line["n"]) for line in found if "word" in line)
    assert counted == sorted((word, n + 1) for word in words for n in range(2 * WORDS.count(word)))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The states of which older values are left when an operator is open."""
    found: list[str] = []
    opened = KeyedProcessOperator.open

    def note(self: KeyedProcessOperator) -> None:
        opened(self)
        found.extend(progress.state for progress in self._backend.migration_progress())

    monkeypatch.setattr(KeyedProcessOperator, "open", note)
    return found


@pytest.mark.parametrize("migration", ["lazy", pytest.param("eager", marks=pytest.mark.ci)])
def test_a_job_goes_on_after_its_types_changed(tmp_path: Path, begun: list[str], migration: str) -> None:
    """At once, with values of both types side by side, or when all are rewritten; the result is exact."""
    number = 1310 + len(migration)
    checkpoint = half_way(tmp_path, 2, number)
    assert begun == []
    run(tmp_path, 2, number, Wide(), checkpoint, **{"state.backend.rocksdb.migration": migration})
    assert_exact(tmp_path)
    assert set(begun) == ({"count", "places"} if migration == "lazy" else set())


@pytest.mark.ci
@pytest.mark.parametrize(
    ("before", "after"), [("heap", "rocksdb"), ("rocksdb", "heap"), ("rocksdb", "rocksdb")]
)
def test_where_timers_live_may_change_with_the_parallelism(tmp_path: Path, before: str, after: str) -> None:
    """Also when the job crashes on the way; no timer is lost and none fires twice."""
    key = "state.backend.rocksdb.timer-service.factory"
    number = 1320 + ["heap", "rocksdb"].index(before) + 2 * ["heap", "rocksdb"].index(after)
    checkpoint = half_way(tmp_path, 2, number, **{key: before})
    run(tmp_path, 3, number, Narrow(), checkpoint, **{key: after})
    assert_exact(tmp_path)
