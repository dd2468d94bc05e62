"""A job that runs until its test ends, a slow operator behind a fast source; and requests to its endpoint."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import headgate as hg
from headgate.common.files.job_files import JobFile, known_jobs
from headgate.testing import MiniCluster

PATIENCE_S = 30
SPLIT = "<img src=x onerror=alert(1)>&lt;"
_numbers = itertools.count(1)


class Ticking(hg.Source[int]):
    """Numbers without an end, some of them at a time, as fast as they are taken."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _Splits(["0", "1"] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[int]:
        return _Reader()


class _Splits(hg.SplitEnumerator):
    def __init__(self, left: list[str]) -> None:
        self.left = left

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(self.left.pop())] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class _Reader(hg.SourceReader[int]):
    def __init__(self) -> None:
        self.bad_records, self.splits = [], []

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        """It has no end all the same."""

    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.NOTHING_AVAILABLE
        split = self.splits[0]
        found = list(range(split[1], split[1] + min(max_records, 50)))
        split[1] += len(found)
        return found

    def left_to_read(self) -> Mapping[str, hg.InputLeft]:
        return {f"{SPLIT} {name}": hg.InputLeft(records=7, behind_ms=1_500) for name, _ in self.splits}

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]


@dataclass
class Weather:
    """What the slow operator does: sleeps for each record, and raises once the test has given a text."""

    sleep_s: float = 0.0005
    text: str = ""
    raised: int = 0


SKY: dict[int, Weather] = {}


class Slow(hg.KeyedProcessFunction[int, int, Any]):
    """Counts by key; most records have the key 0."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, number: int) -> None:
        self.number = number

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        sky = SKY[self.number]
        if sky.text:
            text, sky.text, sky.raised = sky.text, "", sky.raised + 1
            raise ValueError(text)
        time.sleep(sky.sleep_s)
        self.count.value += 1
        yield record


@dataclass
class Watched:
    """A running job, its file with address and secret, and its sky."""

    handle: hg.JobHandle
    file: JobFile
    sky: Weather
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"{self.file.address}/#secret={self.file.secret}"

    def asks(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request; a header that is None is left out."""
        parts = urlsplit(self.file.address)
        line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        shown = {"Authorization": f"Bearer {self.file.secret}", "Content-Type": "application/json", **headers}
        try:
            line.request(method, path, body, {k: v for k, v in shown.items() if v is not None})
            answer = line.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            line.close()

    def gets(self, path: str) -> Any:
        """The JSON of a page, which must be there."""
        status, _, body = self.asks(path)
        assert status == 200, body
        return json.loads(body)

    def waits(self, path: str, true: Any) -> Any:
        """The JSON of a page as soon as it is as it should be."""
        until = time.monotonic() + PATIENCE_S
        while not true(found := self.gets(path)):
            assert time.monotonic() < until, f"waited in vain, {path} is {str(found)[:2000]}"
            time.sleep(0.02)
        return found


@contextlib.contextmanager
def watched(folder: Path, name: str = "ticks", uid: str = "count", **options: Any) -> Iterator[Watched]:
    """A job under way, with two subtasks, checkpoints in `folder`, and an endpoint; cancelled in the end."""
    number = next(_numbers)
    sky = SKY[number] = Weather()
    config = {
        # Barriers would wait for seconds behind the records that the slow operator has before it.
        "execution.checkpointing.unaligned.enabled": True,
        "rest.enabled": True, "heartbeat.interval": "100ms", "pipeline.max-parallelism": 8,
        "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 100,
        "restart-strategy.fixed-delay.delay": "300ms", "headgate.progress": "off", **options,
    }  # fmt: skip
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="500ms", storage=str(folder / "checkpoints"))
    ticks = env.from_source(Ticking(), uid="ticks")
    counted = ticks.key_by(lambda n: n % 8 if n % 4 == 0 else 0).process(Slow(number), uid=uid)
    counted.map(str, uid="text").write_json(str(folder / "out"), uid="out")
    with started(env, name, sky) as found:
        yield found


@contextlib.contextmanager
def started(env: hg.Environment, name: str, sky: Weather) -> Iterator[Watched]:
    """A job that runs, and is cancelled in the end."""
    before = {job.file.job_id for job in known_jobs()}
    handle = env.execute_async(name)
    try:
        yield Watched(handle, _file(handle, before), sky)
    finally:
        with contextlib.suppress(hg.HeadgateError):
            handle.cancel()
        with contextlib.suppress(hg.HeadgateError):
            handle.result(timeout_s=PATIENCE_S)


def _file(handle: hg.JobHandle, before: set[str]) -> JobFile:
    until = time.monotonic() + PATIENCE_S
    while True:
        found = [job.file for job in known_jobs() if job.file.job_id not in before]
        if found:
            return found[0]
        assert time.monotonic() < until, "the job has no endpoint"
        time.sleep(0.01)
