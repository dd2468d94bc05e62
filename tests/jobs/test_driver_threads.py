"""Where workers are threads of the driver's process: its own threads are no user code's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, running_counts
from running_jobs import Valve, wait_until
from test_savepoints import Sabotage, published

import headgate as hg
from headgate.testing import JobListener, MiniCluster

WORDS = [f"w{n % 7}" for n in range(60)]
NUMBERS = count(188_500)


class Notes(JobListener):
    """Remembers what a person is told, and the attempts."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.attempts = 0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.attempts = attempt


class Counting(hg.KeyedProcessFunction[str, str, Any]):
    """A running count; the first attempt may leave a thread behind."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    strays = False
    over = threading.Event()

    def open(self, context: hg.RuntimeContext) -> None:
        if self.strays and context.attempt == 1:
            threading.Thread(target=self.over.wait, args=(30,), name="stray", daemon=True).start()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        yield ctx.key, self.count.value


class Straying(Counting):
    """Leaves a thread behind."""

    strays = True


@pytest.mark.parametrize("function", [Counting, Straying])
def test_after_a_failed_stop_only_user_code_is_blamed_for_its_threads(
    tmp_path: Path, function: type[Counting]
) -> None:
    """The driver's program runs threads while the job runs, and `stop` fails for want of room."""
    Counting.over.clear()
    notes, valve = Notes(), Valve(next(NUMBERS), 10, WORDS)
    env = hg.Environment(parallelism=2, executor=MiniCluster(notes), config={**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    keyed = env.from_source(valve, uid="in").key_by(lambda word: word)
    keyed.process(function(), uid="counts").write_json(str(tmp_path / "out"), uid="out")
    before, over = threading.Thread.start, threading.Event()
    with env.execute_async("words") as handle:
        wait_until(lambda: handle.status().state == "running", "the job runs")
        own = threading.Thread(target=over.wait, args=(30,), name="of the program")
        own.start()
        Sabotage.of(tmp_path / "savepoints")
        try:
            with pytest.raises(hg.HeadgateError):
                handle.stop(str(tmp_path / "savepoints"))
        finally:
            Sabotage.end()
        wait_until(lambda: notes.attempts == 2, "it is deployed again")
        valve.open_to()
        handle.result()
    over.set()
    Counting.over.set()
    own.join()
    blamed = [note for note in notes.notes if "keeps threads of user code" in note]
    assert bool(blamed) is function.strays
    assert not any("of the program" in note for note in blamed)
    assert published(tmp_path) == running_counts(WORDS)
    assert threading.Thread.start is before
