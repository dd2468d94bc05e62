"""Jobs that are asked for their state while they run: the answers are of moments between two records."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, running_counts

import headgate as hg
from headgate.testing import JobListener, LiveState, MiniCluster

WORDS = [f"w{n % 7}" for n in range(200)]
WAIT_S = 30


class Asker(JobListener):
    """Asks for every word's count from a thread of its own, over and over, until all have come to their end.

    Attributes:
        seen: word -> what was answered, in order.
        refusals: what was said instead, where nothing could be answered.
    """

    def __init__(self, uid: str, wanted: dict[str, int]) -> None:
        self._uid, self._wanted = uid, wanted
        self.seen: dict[str, list[int]] = {word: [] for word in wanted}
        self.refusals: list[hg.HeadgateError] = []
        self.done = threading.Event()
        self.names: list[str] = []

    def begins(self, live_state: LiveState) -> None:
        threading.Thread(target=self._ask, args=(live_state,), daemon=True).start()

    def _ask(self, live_state: LiveState) -> None:
        until = time.monotonic() + WAIT_S
        while {word: max(seen, default=0) for word, seen in self.seen.items()} != self._wanted:
            for word, seen in self.seen.items():
                try:
                    seen.append(live_state.value(self._uid, "count", word))
                except hg.HeadgateError as error:
                    self.refusals.append(error)
                    time.sleep(0.001)
            if time.monotonic() > until:
                return
        for uid, state in [("out", "count"), (self._uid, "total")]:
            try:
                live_state.value(uid, state, "w1")
            except hg.UsageError as error:
                self.names.append(str(error))
        self.done.set()


class Lasting(Halting):
    """Ends only when somebody has asked enough; then the input is at its end."""

    def __init__(self, name: int, at: int, asker: int, *splits: Sequence[Any]) -> None:
        super().__init__(name, at, *splits)
        self.asker = asker

    def create_reader(self, context: hg.SourceReaderContext) -> Any:
        reader: Any = super().create_reader(context)
        poll, done = reader.poll, ASKERS[self.asker].done

        def until_asked(max_records: int) -> Any:
            records = poll(max_records)
            return hg.NOTHING_AVAILABLE if records is hg.END_OF_INPUT and not done.is_set() else records

        reader.poll = until_asked
        return reader


ASKERS: dict[int, Asker] = {}
"""By the name of their job's source: workers are threads of this process."""


@hg.blocking
class SlowCount(Count):
    """Runs beside the loop."""

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        time.sleep(0.0001)
        yield from super().process(record, ctx)


@pytest.mark.parametrize(
    ("name", "backend", "function"),
    [
        (1350, "hashmap", Count),
        pytest.param(1351, "rocksdb", Count, marks=pytest.mark.ci),
        (1352, "hashmap", SlowCount),
    ],
)
def test_state_is_read_while_the_job_runs_crashes_and_goes_on(
    tmp_path: Path, name: int, backend: str, function: type[Count]
) -> None:
    """Counts only grow, but for what a failure undoes; the last answers are the batch result."""
    asker = ASKERS[name] = Asker("counts", dict(Counter(WORDS)))
    config = {
        **TINY,
        **RESTART_AT_ONCE,
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(asker), config=config)
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    source = Lasting(name, len(WORDS) // 2, name, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(function(), uid="counts")
    out = counted.collect_later("out")
    result = env.execute("counts")
    assert asker.done.is_set()
    assert result.restarts == 1
    assert sorted(out.records) == running_counts(WORDS)
    for word, seen in asker.seen.items():
        steps_back = sum(left > right for left, right in pairwise(seen))
        assert steps_back <= result.restarts, (word, seen)
    assert all(isinstance(error, hg.NoEntryError | hg.OperatingError) for error in asker.refusals)
    assert [text.split(";")[0] for text in asker.names] == [
        "the job has no operator with keyed state and uid 'out'",
        "operator 'counts' has no keyed state 'total'",
    ]
