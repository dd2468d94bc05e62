"""Jobs that keep many checkpoints, and replays of their keys in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.checkpoint.layout import checkpoint_number
from headgate.common.keys.key_text import key_text
from headgate.common.settings.config import Config
from headgate.connectors.discard import CountingSink
from headgate.offline.replay.in_program import replayed
from headgate.offline.replay.replay_report import ReplayReport, ReplayRequest
from headgate.offline.replay.to_failure import replayed_to_failure
from headgate.testing.mini_cluster import MiniCluster

FIFTH = hg.OutputTag("fifth")


class Visits(hg.KeyedProcessFunction[str, dict, str]):
    """Has states of several kinds, timers of event time, a main and a side output."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    pages: hg.MapState[str, int] = hg.map_state()
    last: hg.ListState[int] = hg.list_state()

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        self.count.value += 1
        self.pages.put(record["page"], int(self.count.value))
        self.last.add(record["t"])
        if ctx.timestamp is not None:
            ctx.timers.register_event_time(ctx.timestamp + 50)
        if self.count.value % 5 == 0:
            self.last.clear()
            ctx.side_output(FIFTH, record["t"])
        yield f"{ctx.key} {self.count.value}"

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[str]:
        yield f"{ctx.key} timer {timestamp}"


def visit(number: int) -> dict:
    return {"user": "abc"[number % 3], "page": "xyzuv"[number * 7 % 5], "t": number}


def environment(
    folder: Path, parallelism: int = 1, config: Mapping[str, Any] | None = None
) -> hg.Environment:
    """An environment on the mini cluster that keeps all checkpoints, one every 20 ms."""
    settings = {
        "execution.checkpointing.interval": "20ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.num-retained": 1000,
        "restart-strategy.type": "none",
    }
    return hg.Environment(
        parallelism=parallelism, executor=MiniCluster(), config=settings | dict(config or {})
    )


def sink(stream: Any) -> None:
    stream.sink_to(CountingSink(), uid="out")


def kept(folder: Path) -> list[str]:
    """The checkpoints of the only job of a folder, oldest first."""
    found = {}
    for file in (folder / "checkpoints").rglob("_metadata"):
        number = checkpoint_number(file.parent.name)
        if number is not None:
            found[number] = str(file.parent)
    return [found[number] for number in sorted(found)]


def replay_here(
    env: hg.Environment,
    uid: str,
    key: Any,
    snapshot: str,
    to: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **changes: Any,
) -> ReplayReport:
    """The report of a replay by a program of this process."""
    request: ReplayRequest = {
        "program": "job.py",
        "uid": uid,
        "key": key_text(key),
        "snapshot": snapshot,
        "to": to,
        "count": None,
        "records": None,
        "save": None,
        "side_effects": False,
        "debug": False,
        "until_failure": False,
    }
    request.update(changes)  # type: ignore[typeddict-item]
    config = Config().with_program(dict(settings or {}))
    run = replayed_to_failure if request["until_failure"] else replayed
    plan = env.plan("visits")  # which adds the writers of quarantines to the program
    return run(request, env.program.nodes(), plan, config)
