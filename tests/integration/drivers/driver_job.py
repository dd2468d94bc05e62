"""A program that tests hand to `headgate run`: counts per key, slowly, until the file `gate` lets it end.

headgate run driver_job.py [--json] <scratch folder> [mini | spark | beside] [name]

"beside" is the mini cluster, beside whose job the program goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.connectors.generator import ThrottledReader, ThrottledSource, generator_source
from headgate.display.progress import listener_for
from headgate.testing.mini_cluster import MiniCluster

RECORDS = 20_000
KEYS = 7
RATE_PER_S = 400.0
"""Slow enough that a busy machine sends its signals before the input is at its end."""


class Shown(MiniCluster):
    """The mini cluster with the display that the command line asks for."""

    def execute(self, job: JobSpec) -> JobResult:
        """See :class:`MiniCluster`."""
        return MiniCluster(listener_for(job.config, job.name, job.plan)).execute(job)


class Gated(ThrottledSource[int]):
    """Reads slowly until a file appears, then at full speed."""

    def __init__(self, source: hg.Source[int], gate: Path) -> None:
        super().__init__(source, RATE_PER_S, None)
        self.gate = gate

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[int]:
        """See :class:`hg.Source`."""
        slow = super().create_reader(context)
        assert isinstance(slow, ThrottledReader)
        return GatedReader(slow, self.source.create_reader(context), self.gate)


class GatedReader(ThrottledReader[int]):
    """See :class:`Gated`."""

    def __init__(self, slow: ThrottledReader[int], reader: hg.SourceReader[int], gate: Path) -> None:
        super().__init__(reader, slow._rate_per_s, slow._clock)
        self._gate = gate

    def poll(self, max_records: int) -> Any:
        """See :class:`hg.SourceReader`."""
        return self._reader.poll(max_records) if self._gate.exists() else super().poll(max_records)


class Count(hg.KeyedProcessFunction):
    """How often each key came."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: Any) -> Iterator[Any]:
        """One more."""
        self.count.value += 1
        yield {"key": ctx.key, "count": self.count.value, "pid": os.getpid()}


def main(scratch: Path, cluster: str = "mini", name: str = "counting") -> None:
    """Run the job, and leave its totals in a file."""
    env = hg.Environment(parallelism=2, executor="spark" if cluster == "spark" else Shown())
    env.checkpoints(every="100ms", storage=str(scratch / "checkpoints"))
    env.config("execution.checkpointing.num-retained", 3)
    source = Gated(generator_source(int, RECORDS, split_size=500), scratch / "gate")
    numbers = env.from_source(source, uid="numbers")
    counts = numbers.key_by(lambda record: record % KEYS).process(Count(), uid="counts")
    counts.write_json(str(scratch / "out"), uid="out")
    result = env.execute_async(name).result() if cluster == "beside" else env.execute(name)
    totals = {"records_in": dict(result.records_in), "records_out": dict(result.records_out)}
    (scratch / f"result-{os.getpid()}.json").write_text(json.dumps(totals))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
