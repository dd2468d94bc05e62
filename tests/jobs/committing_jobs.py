"""Jobs whose driver is struck while it commits: probes, and a program for a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, ClassVar

from mini_jobs import RESTART_AT_ONCE, TINY, Count, environment
from running_jobs import Valve

import headgate as hg
from headgate.common.errors import OperatingError
from headgate.connectors.files.committer import FilesCommitter

WORDS = [[f"w{(n + 3 * split) % 7}" for n in range(60)] for split in range(3)]
ALL = [word for split in WORDS for word in split]

PLACES = ("checkpoint.logged", "sink.first-file", "sinks.committed")
"""Between log and commit, in the middle of a commit, between commit and notice."""

DIED = 71


class Strike:
    """A probe that strikes once, at its place, after a first checkpoint went well."""

    place: ClassVar[str] = ""
    kills: ClassVar[bool] = False
    completed: ClassVar[int] = 0
    done: ClassVar[bool] = False

    @classmethod
    def arm(cls, place: str, *, kills: bool) -> None:
        """Strike at `place`: kill the process, or raise there."""
        cls.place, cls.kills, cls.completed, cls.done = place, kills, 0, False

    def reached(self, place: str) -> None:
        """See `common.ports.Probe`."""
        Strike.completed += place == "sinks.committed"
        if place != Strike.place or Strike.done or Strike.completed < 1 + (place == "sinks.committed"):
            return
        Strike.done = True
        if Strike.kills:
            os._exit(DIED)
        raise OperatingError(f"struck at {place}")


def strike() -> Strike:
    """The factory that `headgate.probe` names."""
    return Strike()


class TellingCommitter(FilesCommitter):
    """Tells the probe when it has published the first file of several."""

    def _publish(self, ready: Any) -> bool:
        renamed = super()._publish(ready)
        if renamed:
            Strike().reached("sink.first-file")
        return renamed


class TellingSink(hg.Sink[Any]):
    """The files sink with such a committer."""

    def __init__(self, folder: Path) -> None:
        from headgate.connectors.files import json_sink

        self.files = json_sink(folder)

    def create_writer(self, context: hg.SinkWriterContext, restored: Any) -> hg.SinkWriter[Any]:
        return self.files.create_writer(context, restored)

    def create_committer(self) -> hg.SinkCommitter:
        return TellingCommitter(self.files.path)


def committing_job(folder: Path, valve: Valve) -> hg.Environment:
    """Counts words into files, with a checkpoint every 10 ms."""
    env = environment(2, {**TINY, **RESTART_AT_ONCE, "headgate.probe": "committing_jobs:strike"})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    counted = env.from_source(valve, uid="in").key_by(lambda word: word).process(Count(), uid="counts")
    counted.sink_to(TellingSink(folder / "out"), uid="out")
    return env


class Dribbling(Valve):
    """A valve that opens a little with every checkpoint, so that each one has something to commit."""

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        reader = super().create_reader(context)
        number = self.number

        def opens(checkpoint: int) -> None:
            limit = Valve.limits[number] + 5
            Valve.limits[number] = limit if limit <= len(WORDS[0]) else float("inf")

        reader.checkpoint_complete = opens  # type: ignore[method-assign]
        return reader


if __name__ == "__main__":
    Strike.arm(sys.argv[2], kills=True)
    sys.modules["committing_jobs"] = sys.modules["__main__"]
    committing_job(Path(sys.argv[1]), Dribbling(1, 5, *WORDS)).execute("words")
