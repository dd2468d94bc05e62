"""Totals of a job count all its attempts, also those that end before a worker's next heartbeat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.common.process.system import SystemClock
from headgate.connectors.files import json_source
from headgate.display.progress import Narrator
from headgate.display.progress_status import JobProgress
from headgate.graph.logical import SourceNode
from headgate.testing import MiniCluster

RECORDS, FAILS_AT = 400, 250
RESTART_AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 5,
    "restart-strategy.fixed-delay.delay": "1ms",
}


class Events:
    """Keeps what a job's display is shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def show(self, event: str, facts: Mapping[str, Any]) -> None:
        self.shown.append({"event": event, **facts})


def test_events_and_result_count_every_attempt(tmp_path: Path) -> None:
    """Each of three attempts fails or ends within milliseconds; what it read and skipped is counted."""
    lines = [json.dumps({"n": n}) if n % 100 != 7 else "{broken" for n in range(RECORDS)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    tries = tmp_path / "tries"

    def strike(row: Any) -> int:
        if row["n"] == FAILS_AT and (not tries.exists() or len(tries.read_text()) < 2):
            tries.write_text("x" if not tries.exists() else "xx")
            raise LookupError("not yet")
        return int(row["n"])

    events = Events()
    cluster = MiniCluster()
    env = hg.Environment(parallelism=1, executor=cluster, config=RESTART_AT_ONCE)
    stream = env.from_source(json_source(str(tmp_path / "in.jsonl"), on_error="skip"), uid="in")
    stream.map(strike).collect_later()
    sources = {vertex.id for vertex in env.plan().vertices if isinstance(vertex.chain[0], SourceNode)}
    clock = SystemClock()
    cluster._listener = Narrator(JobProgress("job", sources, clock.monotonic_ms()), events, clock)
    result = env.execute("job")
    last = events.shown[-1]
    good = RECORDS - 4
    before = len([n for n in range(FAILS_AT) if n % 100 != 7])
    assert (last["event"], last["restarts"], result.restarts) == ("finished", 2, 2)
    assert good + 2 * before <= last["records_in"] <= 3 * good
    assert 4 + 2 * 3 <= last["records_skipped"] <= 12
    assert last["records_skipped"] == result.skipped["in"]
    assert result.records_in["in"] == good
