"""Sources that are read together stay near each other in event time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY

import headgate as hg
from headgate.connectors.files import json_source
from headgate.testing import MiniCluster

RECORDS = 1_200
DRIFT = 100
OFTEN = 50
"""The fast source has each time so often: what it reads before the slow one has a split is no long time."""
REACHED: dict[str, int] = {}
"""Name of a source -> the greatest time that was read from it."""
AHEAD: list[int] = []
"""How far the fast source was ahead of the slow one, at each of its records."""


def slow(record: Any) -> Any:
    """Take a millisecond for each record."""
    time.sleep(0.001)
    REACHED["slow"] = record["at"]
    return record


def fast(record: Any) -> Any:
    """Take no time."""
    AHEAD.append(record["at"] - REACHED.get("slow", 0))
    return record


def run(folder: Path, parallelism: int, max_drift: int | None) -> list[int]:
    """Read two sources of the same times, one of them slowly; return the times that came out."""
    REACHED.clear()
    AHEAD.clear()
    config = {**TINY, "heartbeat.interval": "10ms"}
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster(), config=config)

    def source(name: str, often: int, function: Callable[[Any], Any]) -> hg.DataStream[Any]:
        file = folder / f"{name}.jsonl"
        file.write_text("\n".join(json.dumps({"at": at}) for at in range(RECORDS) for _ in range(often)))
        timed = env.from_source(json_source(str(file)), uid=name).with_event_time("at", max_drift=max_drift)
        return timed.map(function)

    both = source("slow", 1, slow).union(source("fast", OFTEN, fast))
    return sorted(record["at"] for record in both.collect())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_fast_source_waits_for_a_slow_one(parallelism: int, tmp_path: Path) -> None:
    """It is ahead by the limit and a batch at most, in the same worker and another one; nothing is lost."""
    assert run(tmp_path, parallelism, DRIFT) == sorted([*range(RECORDS)] * (1 + OFTEN))
    assert max(AHEAD) < RECORDS / 2


def test_without_a_limit_it_does_not_wait(tmp_path: Path) -> None:
    """The test above can fail."""
    run(tmp_path, 1, None)
    assert max(AHEAD) > RECORDS / 2


def passes(record: Any) -> bool:
    """Whether a record goes on."""
    return bool(record["at"] % 2 == 0)


def test_only_a_sources_own_event_time_has_a_limit() -> None:
    """Nothing could be held back where another one, or another chain, decides how far the source is."""
    limited = hg.WatermarkStrategy("at", max_drift_ms=100)
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_collection([{"at": 1}])
    stream.with_watermarks(limited).filter(passes).with_watermarks(limited).collect_later()
    with pytest.raises(hg.PlanError, match="has max_drift, but does not decide how far a source has read"):
        env.explain()
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_collection([{"at": 1}])
    for _ in range(2):
        stream.filter(passes).with_watermarks(limited).collect_later()
    with pytest.raises(hg.PlanError, match="before it branches"):
        env.explain()
