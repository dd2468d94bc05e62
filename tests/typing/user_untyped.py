"""The first example of the manual: no type arguments anywhere, and strict checking is content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import headgate as hg


class Streak(hg.KeyedProcessFunction):
    """Emits an author's running count of commits, and a note when 30 days pass without one."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    quiet_at: hg.ValueState[int | None] = hg.value_state(default=None)

    def process(self, commit: Any, ctx: hg.KeyedContext) -> Iterator[tuple[Any, int | str]]:
        """Count."""
        self.count.value += 1
        quiet_at = ctx.timestamp + 30 * hg.DAYS
        self.quiet_at.value = quiet_at
        ctx.timers.register_event_time(quiet_at)
        yield commit["author"], self.count.value

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext) -> Iterator[tuple[Any, int | str]]:
        """Note."""
        if timestamp == self.quiet_at.value:
            yield ctx.key, "quiet"


env = hg.Environment(parallelism=2)
env.checkpoints(every="1s", mode=hg.EXACTLY_ONCE, storage="file:///checkpoints/streaks")
commits = env.read_json("commits.jsonl.gz")
timed = commits.with_event_time("author_ms", out_of_orderness="7d")
streaks = timed.key_by("author").process(Streak(), uid="streaks")
assert_type(streaks, hg.DataStream[Any])
streaks.write_json("out/")
env.execute("streaks")
