"""Whole jobs with a time to live in event time: exact to the record, through crashes and restores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines

import headgate as hg

LIVES_MS = 40
EVENTS: list[dict[str, Any]] = [
    {"n": n, "user": f"u{n % 5 if n % 3 else n % 11}", "at": 1_000 + n * 3 + n * 7 % 5} for n in range(1, 300)
]
"""Some users come often, some hardly within their time; times are not quite in order."""


class Visits(hg.KeyedProcessFunction[str, dict[str, Any], dict[str, Any]]):
    """Counts visits in three kinds of state, each forgetting after a while."""

    count: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl(LIVES_MS, time="event"))
    times: hg.ListState[int] = hg.list_state(ttl=hg.StateTtl(LIVES_MS, time="event"))
    total: hg.ReducingState[int] = hg.reducing_state(
        lambda left, right: left + right, ttl=hg.StateTtl(LIVES_MS, time=hg.TtlTime.EVENT)
    )

    def process(self, record: dict[str, Any], ctx: hg.KeyedContext[str]) -> Iterator[dict[str, Any]]:
        self.count.value += 1
        self.times.add(record["at"])
        self.total.add(1)
        yield record | {"count": self.count.value, "times": self.times.get(), "total": self.total.get()}


def expected() -> list[dict[str, Any]]:
    """What a plain loop over the records gives, with the watermark that each of them carries.

    The first record has none yet; it counts as written at the first watermark.
    """
    marks = [EVENTS[0]["at"] - 5]
    for event in EVENTS[:-1]:
        marks.append(max(marks[-1], event["at"] - 5))
    counts: dict[str, tuple[int, int]] = {}
    times: dict[str, list[tuple[int, int]]] = {}
    found = []
    for event, mark in zip(EVENTS, marks, strict=True):
        user, at = event["user"], event["at"]
        before, since = counts.get(user, (0, mark))
        counts[user] = (before + 1 if since + LIVES_MS > mark else 1), mark
        times[user] = [held for held in times.get(user, []) if held[1] + LIVES_MS > mark] + [(at, mark)]
        count = counts[user][0]
        found.append(event | {"count": count, "times": [held[0] for held in times[user]], "total": count})
    return found


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.ci)])
def test_event_time_ttl_is_exact_across_a_crash(tmp_path: Path, backend: str) -> None:
    """The watermark of each record decides, whatever the batches; the crash leaves no trace."""
    config = {
        **TINY,
        **RESTART_AT_ONCE,
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
    }
    env = environment(1, config)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    source = Halting(1290 + (backend == "rocksdb"), len(EVENTS) // 2, EVENTS)
    events = env.from_source(source, uid="events").with_event_time("at", out_of_orderness=4)
    visits: Any = events.key_by("user").process(Visits(), uid="visits")
    visits.write_json(str(tmp_path / "out"), uid="out")
    result = env.execute("visits")
    assert result.restarts >= 1
    found = sorted(json_lines(tmp_path / "out"), key=lambda line: line["n"])
    assert found == expected()
    assert any(len(line["times"]) < line["count"] for line in found)  # elements end before the whole does
    assert sum(line["count"] == 1 for line in found) > 11  # and more often than there are users
