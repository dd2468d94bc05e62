"""The job under test and its batch answer: files, event time, shuffle by key, state and timers, files.

The answer must not depend on how records of different files interleave, or it could not be known:
running counts are the same set in any order, and weeks close only when all their commits are in,
because files follow each other in time and disorder stays within the bound. Neither depends on how
fast anybody is: backpressure only makes readers wait, and a reader that waits holds event time back.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

import headgate as hg
from headgate.connectors.files import json_source
from headgate.connectors.files.committer import FilesCommitter
from headgate.connectors.files.folder_layout import Layout
from headgate.connectors.files.sink import FilesSink, FilesWriter, JsonFormat
from headgate.connectors.generator import ThrottledReader, ThrottledSource
from proof.strikes import reached

COMMITS = Path(__file__).parents[1] / "examples" / "data" / "commits.jsonl.gz"
FILES = 24
"""So many that every reader goes through several of them in a run, and splits move."""

WEEK_MS = 7 * hg.DAYS
DISORDER_MS = 3 * hg.DAYS

Record = dict[str, Any]
Answer = Counter[str]


class Brake:
    """Makes every record cost time until a file appears, so that records queue up before a slow function.

    Args:
        gate: the file.
        cost_s: of a record.
    """

    def __init__(self, gate: Path, cost_s: float) -> None:
        self._gate, self._cost_s = gate, cost_s

    def slow_down(self) -> None:
        """Take the time of one record."""
        if not self._cost_s:
            return
        if self._gate.exists():
            self._cost_s = 0.0
        else:
            time.sleep(self._cost_s)


class Weeks(hg.KeyedProcessFunction[str, Record, Record]):
    """Per author a running count, and for each week with commits its totals once it is over."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    commits: hg.MapState[int, int] = hg.map_state()
    lines: hg.MapState[int, int] = hg.map_state()

    def __init__(self, brake: Brake) -> None:
        self._brake = brake

    def process(self, commit: Record, ctx: hg.KeyedContext[str]) -> Iterator[Record]:
        reached("user.process")
        self._brake.slow_down()
        week = commit["author_ms"] // WEEK_MS
        end = (week + 1) * WEEK_MS - 1
        if end <= ctx.timers.current_watermark:
            yield {"author": ctx.key, "late": commit["author_ms"]}  # never in the answer
        self.count.value += 1
        self.commits.put(week, (self.commits.get(week) or 0) + 1)
        self.lines.put(week, (self.lines.get(week) or 0) + commit["insertions"])
        ctx.timers.register_event_time(end)
        yield {"author": ctx.key, "count": self.count.value}

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[Record]:
        week = timestamp // WEEK_MS
        yield {
            "author": ctx.key,
            "week": week,
            "commits": self.commits.get(week),
            "lines": self.lines.get(week),
        }
        self.commits.remove(week)
        self.lines.remove(week)


class GatedSource(ThrottledSource[Record]):
    """Reads slowly until a file appears, so that a run is as long as its faults need; then at full speed."""

    def __init__(self, source: hg.Source[Record], rate_per_s: float, gate: Path) -> None:
        super().__init__(source, rate_per_s, None)
        self.gate = gate

    @override
    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Record]:
        slow = super().create_reader(context)
        assert isinstance(slow, ThrottledReader)
        return GatedReader(slow, self.source.create_reader(context), self.gate)


class GatedReader(ThrottledReader[Record]):
    """See :class:`GatedSource`."""

    def __init__(self, slow: ThrottledReader[Record], reader: hg.SourceReader[Record], gate: Path) -> None:
        super().__init__(reader, slow._rate_per_s, slow._clock)
        self._gate, self._open = gate, False

    @override
    def poll(self, max_records: int) -> Any:
        self._open = self._open or self._gate.exists()
        return self._reader.poll(max_records) if self._open else super().poll(max_records)


class StruckSink(FilesSink):
    """The exactly-once files sink with two more places where a fault may strike."""

    @override
    def create_writer(self, context: hg.SinkWriterContext, restored: Sequence[Any]) -> hg.SinkWriter[Any]:
        return StruckWriter(self, context)

    @override
    def create_committer(self) -> hg.SinkCommitter:
        return StruckCommitter(self.path, self.layout.success_markers)


class StruckWriter(FilesWriter):
    """See :class:`StruckSink`."""

    @override
    def prepare_commit(self) -> list[Any]:
        ready = super().prepare_commit()
        reached("sink.prepare-commit")
        return ready


class StruckCommitter(FilesCommitter):
    """Strikes when some of the files are published and others are not."""

    @override
    def commit(self, committables: Sequence[Any]) -> None:
        super().commit(committables[:1])
        reached("sink.commit")
        super().commit(committables)


@dataclass(frozen=True)
class Place:
    """Where one run happens.

    Attributes:
        root: its folder, with everything it writes.
        data: folder with the input.
    """

    root: Path
    data: Path

    @property
    def out(self) -> Path:
        """What the job writes."""
        return self.root / "out"

    @property
    def storage(self) -> Path:
        """Its checkpoints."""
        return self.root / "checkpoints"

    @property
    def gate(self) -> Path:
        """Appears when the rest may be read at full speed."""
        return self.root / "gate"


def build(
    env: hg.Environment, place: Place, rate_per_s: float, cost_s: float, source_parallelism: int | None
) -> None:
    """The dataflow.

    Args:
        env: takes it up.
        place: where its files are.
        rate_per_s: how many records the source reads while the gate is closed.
        cost_s: what a record costs a subtask of the keyed function meanwhile.
        source_parallelism: readers, when not as many as subtasks of the rest.
    """
    source = GatedSource(json_source(place.data), rate_per_s, place.gate)
    commits = env.from_source(source, uid="commits")
    if source_parallelism is not None:
        commits.set_parallelism(source_parallelism)
    timed = commits.with_event_time("author_ms", out_of_orderness=DISORDER_MS)
    if source_parallelism is not None:
        timed.set_parallelism(source_parallelism)
    weeks = timed.key_by("author").process(Weeks(Brake(place.gate, cost_s)), uid="weeks")
    weeks.sink_to(StruckSink(place.out, JsonFormat(), 1 << 20, "append", Layout()), uid="lines")


def write_input(folder: Path, seed: int) -> Answer:
    """Cut the commits into files, in order of time but for bounded disorder; gives the batch answer."""
    chance = random.Random(seed)
    with gzip.open(COMMITS, "rt", encoding="utf-8") as file:
        commits = [json.loads(line) for line in file]
    commits.sort(key=lambda commit: commit["author_ms"] + chance.uniform(0, DISORDER_MS - 1))
    size = -(-len(commits) // FILES)
    folder.mkdir(parents=True)
    for number in range(FILES):
        piece = commits[number * size : (number + 1) * size]
        text = "".join(json.dumps(commit) + "\n" for commit in piece).encode()
        if number % 2:
            (folder / f"{number:02d}.jsonl.gz").write_bytes(gzip.compress(text, 1))
        else:
            (folder / f"{number:02d}.jsonl").write_bytes(text)
    return batch_answer(commits)


def batch_answer(commits: Sequence[Record]) -> Answer:
    """Every line that the job must have written, as :func:`line` writes it, with how often."""
    answer: Answer = Counter()
    count: Counter[str] = Counter()
    weeks: dict[tuple[str, int], list[int]] = {}
    for commit in commits:
        author = commit["author"]
        count[author] += 1
        answer[line({"author": author, "count": count[author]})] += 1
        totals = weeks.setdefault((author, commit["author_ms"] // WEEK_MS), [0, 0])
        totals[0] += 1
        totals[1] += commit["insertions"]
    for (author, week), (number, lines) in weeks.items():
        answer[line({"author": author, "week": week, "commits": number, "lines": lines})] += 1
    return answer


def line(record: Record) -> str:
    """A record as text that does not depend on the order of its fields."""
    return json.dumps(record, sort_keys=True)


def written(folder: Path) -> Answer:
    """What the job published."""
    found: Answer = Counter()
    for path in sorted(folder.glob("part-*")):
        for text in path.read_text(encoding="utf-8").splitlines():
            found[line(json.loads(text))] += 1
    return found
