"""A job that many pages watch: `python -m proof soak [--minutes M] [--pages N]`.

The job has twenty subtasks and reads at a steady rate. First nobody watches it, then one page, then many
pages and a scrape every second. Every request must get an answer or a 503, the job must keep its rate and its
checkpoints, and the driver's memory must be flat. What the driver takes of a processor is measured in each
part. Exit code 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console

import headgate as hg
from headgate.common.files.job_files import JobFile, known_jobs
from headgate.testing import ProcessCluster
from proof.record import ROOT, write_json

PAGES: Final = 200
MINUTES: Final = 60.0
PARALLELISM: Final = 4
RATE: Final = 2_000
"""Records per second, of all readers together. The job has time to spare: what it lacks was taken from it."""
KEPT_SHARE: Final = 0.97
"""The part of its rate that the job must keep."""
GROWTH_MIB: Final = 24.0
"""By how much the driver's memory may differ between the middle and the end of the watched part."""
START_S: Final = 120.0
NAME: Final = "watched by many"


@dataclass
class Part:
    """What was measured while so many pages watched.

    Attributes:
        pages: how many.
        seconds: it lasted.
        rate: records per second that the job read.
        checkpoints: that were completed.
        driver: processors that the driver used.
        memory_mib: of the driver, in the middle and at the end.
        told: what the pages were told; empty without any.
    """

    pages: int
    seconds: float
    rate: float
    checkpoints: int
    driver: float
    memory_mib: tuple[float, float]
    told: dict[str, Any]


class Count(hg.KeyedProcessFunction[int, int, int]):
    """Counts the records of a key."""

    seen: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Any:
        self.seen.value += 1
        if self.seen.value % 1000 == 0:
            yield record


class Soak:
    """The job, and the parts of its watched life.

    Args:
        folder: for its checkpoints.
        pages: that watch in the last part.
        seconds: of that part.
        quiet_s: of each part before.
    """

    def __init__(self, folder: Path, pages: int, seconds: float, quiet_s: float) -> None:
        self._pages, self._seconds, self._quiet_s = pages, seconds, quiet_s
        config = {"rest.enabled": "true", "headgate.progress": "off"}
        env = hg.Environment(parallelism=PARALLELISM, executor=ProcessCluster(), config=config)
        env.checkpoints(every="1s", storage=str(folder))
        numbers = env.generate(lambda number: number, rate_per_s=RATE, uid="numbers")
        for depth in range(3):
            numbers = numbers.key_by(lambda number: number % 100).process(Keep(), uid=f"kept-{depth}")
        numbers.key_by(lambda number: number % 100).process(Count(), uid="counts").collect_later(uid="out")
        self._handle = env.execute_async(NAME)
        self._process = psutil.Process()

    def run(self) -> list[Part]:
        """All parts, one after the other; the job is cancelled after them."""
        try:
            found = self._waits()
            return [
                self._part(found, 0, self._quiet_s),
                self._part(found, 1, self._quiet_s),
                self._part(found, self._pages, self._seconds),
            ]
        finally:
            self._handle.cancel()

    def _waits(self) -> JobFile:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            status = self._handle.status()
            found = [job.file for job in known_jobs() if job.file.job_id == status.job_id]
            if found and status.checkpoints_completed >= 2:
                return found[0]
            time.sleep(0.2)
        raise TimeoutError(f"the job took no checkpoint within {START_S:g} s: {self._handle.status()}")

    def _part(self, job: JobFile, pages: int, seconds: float) -> Part:
        before, began, used = self._handle.status(), time.monotonic(), self._process.cpu_times()
        with tempfile.TemporaryFile("w+") as output:
            clients = _clients(job, pages, seconds, output)
            time.sleep(seconds / 2)
            middle = self._memory_mib()
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            after, took_s, uses = self._handle.status(), time.monotonic() - began, self._process.cpu_times()
            end = self._memory_mib()
            told = {}
            if clients is not None:
                clients.wait(60)
                output.seek(0)
                told = json.loads(output.read())
        cpu_s = uses.user + uses.system - used.user - used.system
        read = after.vertices[0].records_in - before.vertices[0].records_in
        completed = after.checkpoints_completed - before.checkpoints_completed
        memory = (round(middle, 1), round(end, 1))
        return Part(
            pages, seconds, round(read / took_s, 1), completed, round(cpu_s / took_s, 4), memory, told
        )

    def _memory_mib(self) -> float:
        return float(self._process.memory_info().rss) / 2**20


class Keep(hg.KeyedProcessFunction[int, int, int]):
    """Passes records on, so that the job has more subtasks and exchanges."""

    last: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Any:
        self.last.value = record
        yield record


def _clients(job: JobFile, pages: int, seconds: float, output: Any) -> subprocess.Popen[str] | None:
    if pages == 0:
        return None
    command = [sys.executable, "-m", "proof.page_clients", str(pages), str(seconds)]
    scrape = ["--scrape"] if pages > 1 else []
    clients = subprocess.Popen([*command, *scrape], cwd=ROOT, stdin=subprocess.PIPE, stdout=output, text=True)
    assert clients.stdin is not None
    clients.stdin.write(f"{job.address} {job.secret}\n")
    clients.stdin.close()
    return clients


def violations(parts: Sequence[Part]) -> list[str]:
    """What does not hold, in words."""
    alone, _, many = parts
    found = []
    if many.told["unanswered"]:
        such = "; ".join(many.told["such_as"])
        found.append(f"{many.told['unanswered']} requests got no answer, such as: {such}")
    strange = [each for each in many.told["answers"] if each.rpartition(" ")[2] not in ("200", "503")]
    if strange:
        found.append(f"requests were answered by neither 200 nor 503: {', '.join(strange)}")
    if many.rate < KEPT_SHARE * alone.rate:
        found.append(f"the job read {many.rate:,.0f} records/s, and {alone.rate:,.0f} when nobody watched")
    if many.checkpoints < many.seconds / 3:
        found.append(f"only {many.checkpoints} checkpoints were completed in {many.seconds:.0f} s")
    middle, end = many.memory_mib
    if end - middle > GROWTH_MIB:
        found.append(f"the driver's memory grew from {middle:.0f} to {end:.0f} MiB while it was watched")
    return found


def soak(pages: int, seconds: float, quiet_s: float) -> tuple[list[Part], list[str]]:
    """Run the job; what was measured, and what does not hold."""
    with tempfile.TemporaryDirectory(prefix="headgate-proof-") as folder:
        parts = Soak(Path(folder) / "checkpoints", pages, seconds, quiet_s).run()
    return parts, violations(parts)


def main(arguments: Sequence[str]) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m proof soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of the part with many pages")
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--results", type=Path, help="file for the figures, as JSON")
    asked = parser.parse_args(arguments)
    seconds = asked.minutes * 60
    parts, wrong = soak(asked.pages, seconds, min(60.0, seconds))
    console = Console(highlight=False)
    for part in parts:
        console.print(
            f"{part.pages} pages: {part.rate:,.0f} records/s, {part.checkpoints} checkpoints in "
            f"{part.seconds:.0f} s, the driver used {part.driver:.1%} of a processor and "
            f"{part.memory_mib[1]:.0f} MiB; {json.dumps(part.told)}",
            soft_wrap=True,
        )
    for each in wrong:
        console.print(f"[red]{each}[/]", soft_wrap=True)
    if asked.results is not None:
        write_json({"parts": [asdict(part) for part in parts], "violations": wrong}, asked.results)
    return int(bool(wrong))
