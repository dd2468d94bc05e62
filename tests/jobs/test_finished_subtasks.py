"""Subtasks that are through go on taking part in checkpoints, and do not read again after a restore."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.checkpoint.history_file import CheckpointStatus, find_histories, read_history

PARALLELISM = 2
NAMES = itertools.count(70_000)
"""Of sources that crash once in the life of this process."""
LONG = [f"w{n % 7}" for n in range(400)]
SHORT = [f"w{n % 3}" for n in range(50)]


class Seen:
    """What user code of all workers and attempts went through."""

    lock: ClassVar = threading.Lock()
    events: ClassVar[Counter[str]] = Counter()

    @classmethod
    def note(cls, event: str) -> None:
        with cls.lock:
            cls.events[event] += 1


@pytest.fixture(autouse=True)
def _forget() -> None:
    Seen.events.clear()


class Short(Halting):
    """Ends early; counts its readers and their polls that gave something or the end."""

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        Seen.note("reader")
        return _counted(super().create_reader(context))


def _counted(reader: Any) -> Any:
    poll = reader.poll

    def counting(max_records: int) -> Any:
        polled = poll(max_records)
        if polled is hg.END_OF_INPUT:
            Seen.note("end")
        elif polled is not hg.NOTHING_AVAILABLE:
            Seen.note("poll")
        return polled

    reader.poll = counting
    return reader


class Long(Halting):
    """Begins when all readers of the short one have ended, so its crashes come behind that in every run."""

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        reader: Any = super().create_reader(context)
        poll = reader.poll

        def patient(max_records: int) -> Any:
            return poll(max_records) if Seen.events["end"] >= PARALLELISM else hg.NOTHING_AVAILABLE

        complete, heard = reader.checkpoint_complete, list[int]()

        def second(checkpoint_id: int) -> None:
            # The first one may have been drawn before this reader halted; the next was triggered after that.
            if reader.drawn_here:
                heard.append(checkpoint_id)
            if len(heard) > 1:
                complete(checkpoint_id)

        reader.poll, reader.checkpoint_complete = patient, second
        return reader


class Passing(hg.ProcessFunction[Any, Any]):
    """Stands behind the short source."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        Seen.note("passed")
        yield record


def run(folder: Path, mode: str, joined: bool) -> hg.JobResult:
    """Two sources, joined into one count or each with a sink of its own."""
    config = {**RESTART_AT_ONCE, **TINY, "execution.checkpointing.num-retained": 100}
    if mode != "aligned":
        config["execution.checkpointing.unaligned.enabled"] = True
    if mode == "timeout":
        config["execution.checkpointing.aligned-checkpoint-timeout"] = "5ms"
    env = environment(PARALLELISM, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    short = env.from_source(Short(next(NAMES), len(SHORT) + 1, SHORT, SHORT), uid="short")
    passed = short.process(Passing(), uid="pass")
    long = env.from_source(Long(next(NAMES), len(LONG) // 2, LONG, LONG), uid="long")
    streams = [passed.union(long)] if joined else [passed, long]
    for number, stream in enumerate(streams):
        counted = stream.key_by(lambda word: word).process(Count(), uid=f"count-{number}")
        lines = counted.map(lambda pair: {"word": pair[0], "n": pair[1]}, uid=f"line-{number}")
        lines.write_json(str(folder / f"out-{number}"), uid=f"out-{number}")
    return env.execute("words")


def published(folder: Path) -> list[tuple[str, int]]:
    """What a sink holds."""
    return sorted((line["word"], line["n"]) for line in json_lines(folder))


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "apart"])
@pytest.mark.parametrize("mode", ["aligned", "unaligned", "timeout"])
def test_sc14_a_finished_source_is_not_run_again(tmp_path: Path, mode: str, joined: bool) -> None:
    """sC14: checkpoints complete after sources have ended, and say which ones those were. No reader is made,
    nothing is read and nothing passes a second time, however often the rest fails.
    """
    result = run(tmp_path, mode, joined)
    assert result.restarts >= 1
    assert Seen.events["reader"] == PARALLELISM
    assert Seen.events["end"] == PARALLELISM
    assert Seen.events["passed"] == 2 * len(SHORT)
    if joined:
        assert published(tmp_path / "out-0") == running_counts(SHORT + SHORT + LONG + LONG)
    else:
        assert published(tmp_path / "out-0") == running_counts(SHORT + SHORT)
        assert published(tmp_path / "out-1") == running_counts(LONG + LONG)


def test_every_subtask_is_part_of_every_checkpoint(tmp_path: Path) -> None:
    """Those that are through acknowledge like the others, to the last one, which commits."""
    run(tmp_path, "unaligned", joined=True)
    (file,) = find_histories(str(tmp_path / "checkpoints"))
    history = read_history(file)
    done = [record for record in history.records if record.status is CheckpointStatus.COMPLETED]
    assert len(done) >= 2
    assert all(record.missing == () for record in done)
    sizes = {len(record.subtasks) for record in done}
    assert len(sizes) == 1
    assert history.records[-1].kind == "final"
