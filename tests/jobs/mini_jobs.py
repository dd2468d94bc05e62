"""What tests of whole jobs share: an environment on the mini cluster, a running count, read-back of files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

TINY = {
    "execution.step-target": "1ms",
    "execution.buffer-timeout": "1ms",
    "taskmanager.network.credit-initial": 1,
}
"""Short steps and one frame of credit: as much interleaving as there can be."""

RESTART_AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    "restart-strategy.fixed-delay.delay": "1ms",
}


class Count(hg.KeyedProcessFunction[Any, Any, Any]):
    """A running count per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.count.value += 1
        yield ctx.key, self.count.value


def environment(parallelism: int = 2, config: Mapping[str, Any] | None = None) -> hg.Environment:
    """An environment on the mini cluster."""
    return hg.Environment(parallelism=parallelism, executor=MiniCluster(), config=config or {})


def running_counts(keys: Iterable[Any]) -> list[tuple[Any, int]]:
    """The batch answer to :class:`Count`, sorted."""
    totals = Counter(keys)
    return sorted((key, n) for key, total in totals.items() for n in range(1, total + 1))


def json_lines(folder: Path) -> list[Any]:
    """All records that a files sink published."""
    files = [file for file in sorted(folder.rglob("*.jsonl")) if not file.name.startswith((".", "_"))]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
