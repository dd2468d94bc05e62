"""Savepoints, checkpoints, stops and other parallelisms, asked for all at once, again and again.

Whatever is granted or refused: everybody is answered once, every savepoint that was promised is there, none
that failed leaves files, and the output of all runs together is exact.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, json_lines, running_counts
from running_jobs import PATIENCE_S, Valve, wait_until

import headgate as hg
from headgate.api.jobs.executor_contract import JobControl
from headgate.checkpoint.opening import open_checkpoint
from headgate.testing import JobListener, MiniCluster

WORDS = [[f"w{(n + 3 * split) % 7}" for n in range(60)] for split in range(3)]
ALL = [word for split in WORDS for word in split]

KINDS = {
    0: {},
    1: {"execution.checkpointing.unaligned.enabled": True},
    2: {"execution.checkpointing.max-concurrent-checkpoints": 2},
}


class Controls(JobListener):
    """Keeps what the job can be asked by."""

    def __init__(self) -> None:
        self.control: JobControl | None = None

    def controllable(self, control: JobControl) -> None:
        self.control = control


class Asked:
    """One wish, and all the answers that it got."""

    def __init__(self, kind: str, control: JobControl, chance: random.Random) -> None:
        self.kind, self.answered = kind, threading.Event()
        self.given: list[tuple[Any, Exception | None]] = []
        written = chance.choice(["canonical", "native"])
        if kind == "savepoint":
            control.savepoint(None, written, self)
        elif kind == "stop":
            control.stop(None, written, False, self)
        elif kind == "checkpoint":
            control.checkpoint(self)
        else:
            control.rescale(chance.choice([1, 2, 3]), self, chance.random() < 0.5)

    def __call__(self, answer: Any, error: Exception | None) -> None:
        self.given.append((answer, error))
        self.answered.set()


class Jobs:
    """One job after the other, each from the savepoint that the last one was stopped with."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.valve, self.more = Valve(4600 + seed, 5, *WORDS), KINDS[seed % len(KINDS)]
        self.asked: list[Asked] = []

    @contextmanager
    def running(self, restore_from: str | None) -> Iterator[tuple[hg.JobHandle, JobControl]]:
        """While it runs."""
        controls = Controls()
        config = {
            **TINY,
            **RESTART_AT_ONCE,
            "execution.checkpointing.savepoint-dir": str(self.folder / "sp"),
            **self.more,
        }
        parallelism = self.chance.choice([1, 2, 3])
        env = hg.Environment(parallelism=parallelism, executor=MiniCluster(controls), config=config)
        env.checkpoints(every="20ms", storage=str(self.folder / "checkpoints"))
        counted = env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(Count(), uid="counts").write_json(str(self.folder / "out"), uid="out")
        with env.execute_async("words", restore_from) as handle:
            wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
            assert controls.control is not None
            yield handle, controls.control

    def run(self) -> None:
        """Ask until all input is read."""
        restore_from, limit = None, 5
        while True:
            with self.running(restore_from) as (handle, control):
                while limit <= len(WORDS[0]) and not handle.done:
                    self.ask(control)
                    self.asked[-1].answered.wait(self.chance.random() / 20)
                    limit += 5
                    self.valve.open_to(limit)
                if limit > len(WORDS[0]):
                    self.valve.open_to()
                result = handle.result(PATIENCE_S)
            assert result.restarts == 0
            restore_from = result.savepoint
            if restore_from is None:
                return

    def ask(self, control: JobControl) -> None:
        """Some things at once, a stop now and then."""
        for _ in range(self.chance.randint(1, 4)):
            kind = self.chance.choice(["savepoint", "savepoint", "checkpoint", "parallelism"])
            self.asked.append(Asked(kind, control, self.chance))
        if self.chance.random() < 0.25:
            self.asked.append(Asked("stop", control, self.chance))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.ci] if seed > 2 else []) for seed in range(12)]
)
def test_everybody_is_answered_once_and_the_output_is_exact(tmp_path: Path, seed: int) -> None:
    """With aligned and unaligned checkpoints, one or two at a time."""
    jobs = Jobs(tmp_path, seed)
    jobs.run()
    for asked in jobs.asked:
        assert asked.answered.wait(PATIENCE_S), asked.kind
        assert len(asked.given) == 1, asked.kind
    answers = [(asked.kind, *asked.given[0]) for asked in jobs.asked]
    promised = {answer for kind, answer, error in answers if kind in ("savepoint", "stop") and answer}
    assert all(open_checkpoint(uri)[1].kind == "savepoint" for uri in promised)
    found = {
        folder.as_uri()
        for folder in tmp_path.glob("sp/savepoint-*")
        if any(file.is_file() for file in folder.rglob("*"))
    }
    # Of a stop whose commit was left to recovery the asker is told where it is, with the error.
    told = {uri for uri in found if any(uri in str(error) for _, _, error in answers)}
    assert found == promised | told
    assert sorted(tuple(line) for line in json_lines(tmp_path / "out")) == running_counts(ALL)
