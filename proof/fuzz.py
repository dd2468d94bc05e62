"""Fuzzing of everything that decodes stored bytes: python -m proof fuzz [--minutes M] [--seed N] [--smoke].

Each target runs in processes of its own with a limit on memory. It must read any bytes at all without any
exception but the declared one, without hanging and without asking for memory that the bytes do not fill.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof.fuzz_child import HANGS_S, LEDGER, Ledger, describe, folder_name
from proof.fuzz_target import Target
from proof.record import ROOT, write_json

MINUTES = 10.0
SMOKE_S = 0.3
"""Of each target in the smoke form."""
SMOKE_COVERED = "metadata"
"""The target that has its coverage measured even then."""
START_S = 60.0
"""How long a process may take to import everything on a busy machine."""
KEPT = ROOT / "proof" / "results" / "fuzz"
"""Where the inputs of findings stay."""

_PROGRESS = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


@dataclass
class TargetResult:
    """One target.

    Attributes:
        target: its name.
        engine: "atheris" with coverage, or "chance" without.
        seeds: inputs that it began with and that are right.
        executions: inputs that were read.
        accepted: those that were read without a complaint.
        corpus: inputs that were kept because they reached something new; None without coverage.
        coverage: edges of Headgate's code that were reached; None without coverage.
        findings: what went wrong, each kind once.
    """

    target: str
    engine: str
    seeds: int
    executions: int = 0
    accepted: int = 0
    corpus: int | None = None
    coverage: int | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)


def targets() -> list[Target]:
    """All targets, in the order of the record."""
    from proof import fuzz_files, fuzz_serde, fuzz_spark

    return [*fuzz_serde.TARGETS, *fuzz_files.TARGETS, *fuzz_spark.TARGETS]


@dataclass(frozen=True)
class Process:
    """One process of a campaign.

    Attributes:
        engine: "atheris" or "chance".
        places: of its targets; one for atheris.
        seconds: for each of them.
    """

    engine: str
    places: list[int]
    seconds: float

    def limit_s(self) -> float:
        """When it hangs."""
        return START_S + len(self.places) * self.seconds + 2 * HANGS_S


class Campaign:
    """Processes one after the other, as many at a time as there are processors.

    Args:
        processes: what to do.
        seed: decides what chance decides.
        root: folder for everything.
    """

    def __init__(self, processes: Sequence[Process], seed: int, root: Path) -> None:
        self._processes, self._seed, self._root = processes, seed, root
        self._targets = targets()

    def run(self) -> list[TargetResult]:
        """Fuzz; the results in the order of the processes."""
        with ThreadPoolExecutor(processors()) as pool:
            return [result for results in pool.map(self._one, self._processes) for result in results]

    def _one(self, process: Process) -> list[TargetResult]:
        root = Path(tempfile.mkdtemp(dir=self._root))
        for place in process.places:
            (root / folder_name(place)).mkdir()
            Ledger(root / folder_name(place) / LEDGER, create=True)
        ended = self._carry_out(process, root)
        progress = _PROGRESS.findall((root / "output").read_text(errors="replace"))
        results = [self._result(process, place, root / folder_name(place)) for place in process.places]
        if ended is not None:
            self._blame(results, process, root, ended)
        if progress:
            coverage, _, corpus = progress[-1]
            results[0].coverage, results[0].corpus = int(coverage), int(corpus)
        return results

    def _result(self, process: Process, place: int, folder: Path) -> TargetResult:
        target = self._targets[place]
        executions, accepted, _ = Ledger(folder / LEDGER).counts()
        findings = [describe(path) for path in sorted(folder.glob("finding-*.json"))]
        if not executions:
            findings.append({"wrong": "nothing was read", "input": ""})
        return TargetResult(
            target.name, process.engine, len(target.seeds()), executions, accepted, findings=findings
        )

    def _blame(self, results: list[TargetResult], process: Process, root: Path, ended: str) -> None:
        """The target whose input was in hand when the process ended."""
        begun = [at for at, result in enumerate(results) if result.executions] or [0]
        data = Ledger(root / folder_name(process.places[begun[-1]]) / LEDGER).data()
        results[begun[-1]].findings.append({"wrong": ended, "input": data.hex()})

    def _carry_out(self, process: Process, root: Path) -> str | None:
        """How the process ended when that was not as it should."""
        command = [
            sys.executable, "-m", "proof.fuzz_child", str(root), *map(str, process.places),
            "--seconds", str(process.seconds), "--seed", str(self._seed), "--engine", process.engine,
        ]  # fmt: skip
        paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        with (root / "output").open("wb") as output:
            child = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=root, env=os.environ | {"PYTHONPATH": paths}
            )
            try:
                code = child.wait(process.limit_s())
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                return f"hangs: not over after {process.limit_s():.0f} s"
        if code == 0:
            return None
        last = (root / "output").read_text(errors="replace").strip().splitlines()[-1:]
        why = signal.Signals(-code).name if code < 0 else f"code {code}"
        return f"the process ended with {why}: {' '.join(last)[:200]}"


def processors() -> int:
    """How many targets run at a time."""
    return min(4, os.cpu_count() or 1)


def engine() -> str:
    """The one with coverage, where it can be installed."""
    return "chance" if find_spec("atheris") is None else "atheris"


def whole(minutes: float, only: str = "") -> list[Process]:
    """Each target in a process of its own, so long that all together take about `minutes`."""
    places = [place for place, target in enumerate(targets()) if only in target.name]
    rounds = max(1, -(-len(places) // processors()))
    return [Process(engine(), [place], max(0.5, minutes * 60 / rounds)) for place in places]


def smoke(only: str = "") -> list[Process]:
    """All targets for a moment in one process, and one of them with coverage."""
    known = targets()
    places = [place for place, target in enumerate(known) if only in target.name]
    covered = [place for place in places if known[place].name == SMOKE_COVERED]
    return [
        Process("chance", places, SMOKE_S),
        *(Process("atheris", [place], 1) for place in covered if engine() == "atheris"),
    ]


def campaign(processes: Sequence[Process], seed: int) -> list[TargetResult]:
    """Fuzz in a folder that goes afterwards."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
    try:
        return Campaign(processes, seed, root).run()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def summary(results: Sequence[TargetResult], seed: int, took_s: float) -> dict[str, Any]:
    """What the proof's record says of a campaign."""
    return {
        "seed": seed,
        "duration_s": round(took_s, 1),
        "executions": sum(result.executions for result in results),
        "seeds": sum(result.seeds for result in results),
        "corpus": sum(result.corpus or 0 for result in results),
        "findings": sum(len(result.findings) for result in results),
        "targets": [
            {
                "target": result.target,
                "engine": result.engine,
                "executions": result.executions,
                "accepted": result.accepted,
                "seeds": result.seeds,
                "corpus": result.corpus,
                "coverage": result.coverage,
                "findings": [finding["wrong"] for finding in result.findings],
            }
            for result in results
        ],
    }


def keep_inputs(results: Sequence[TargetResult]) -> list[Path]:
    """Keep the inputs of findings, each as a file, so that each can become a test."""
    kept = []
    for result in results:
        for number, finding in enumerate(result.findings):
            KEPT.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^a-z]+", "-", result.target.lower())
            path = KEPT / f"{int(time.time())}-{name}-{number}.bin"
            path.write_bytes(bytes.fromhex(finding["input"]))
            kept.append(path)
    return kept


def show(results: Sequence[TargetResult], console: Console) -> None:
    """A table, then the findings."""
    table = Table(title="Fuzzing of what decodes stored bytes")
    table.add_column("target")
    for column in ("engine", "seeds", "executions", "accepted", "corpus", "edges", "findings"):
        table.add_column(column, justify="right")
    for result in results:
        row = (result.seeds, result.executions, result.accepted, result.corpus, result.coverage)
        counts = ("-" if count is None else f"{count:,}" for count in row)
        seeds, *others = counts
        table.add_row(result.target, result.engine, seeds, *others, str(len(result.findings)))
    console.print(table)
    for result in results:
        for finding in result.findings:
            console.print(f"FINDING {result.target}: {finding['wrong']}", markup=False)


def carry_out(processes: Sequence[Process], seed: int, console: Console) -> dict[str, Any]:
    """Fuzz, show and keep what was found; gives the summary for the record."""
    began = time.monotonic()
    results = campaign(processes, seed)
    took_s = time.monotonic() - began
    show(results, console)
    console.print(f"seed {seed}, {took_s:.0f} s")
    for path in keep_inputs(results):
        console.print(f"kept {path}", soft_wrap=True)
    return summary(results, seed, took_s)


def main(arguments: Sequence[str]) -> int:
    """Fuzz, show and keep what was found; 0 when nothing was."""
    parser = argparse.ArgumentParser(prog="python -m proof fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"in total; {MINUTES:.0f} by default")
    parser.add_argument("--smoke", action="store_true", help="seconds only")
    parser.add_argument("--seed", type=int, help="by default a new one")
    parser.add_argument("--only", default="", help="part of a target's name")
    parser.add_argument("--results", type=Path, help="file for the summary")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    processes = smoke(options.only) if options.smoke else whole(options.minutes, options.only)
    found = carry_out(processes, seed, console)
    if options.results is not None:
        write_json(found, options.results)
    return int(found["findings"] > 0)
