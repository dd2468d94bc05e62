"""The sections of the proof: each ends within two hours, by itself, and leaves a record of its own.

    python -m proof sections                   # all, one after the other, also after one that failed
    python -m proof sections faults fuzz       # some
    python -m proof sections fuzz --smoke      # further arguments are for the section; no record is kept
    python -m proof sections --list

Each is a process of its own. Its record is `docs/proof/sections/<section>.json`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from proof.record import FOLDER, ROOT, origin, write_json

LIMIT_S: Final = 7_200
"""No section takes longer: it is ended then, and has not held."""

RECORDS: Final = FOLDER / "sections"
RESULTS: Final = "{results}"
"""Stands for the file into which a section's command writes what it found."""


def counts_of_tests(results: Path) -> dict[str, Any]:
    """How many tests ran, which failed, and which took longest."""
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    slowest = sorted(cases, key=_seconds, reverse=True)[:20]
    return {
        "tests": len(cases),
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "failed": [_name(case) for case in failed],
        "slowest_s": {_name(case): round(_seconds(case), 1) for case in slowest},
    }


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _seconds(case: ElementTree.Element) -> float:
    return float(case.get("time", 0))


def details(results: Path) -> dict[str, Any]:
    """What the section itself has written."""
    content: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    return content


@dataclass(frozen=True)
class Section:
    """A part of the proof.

    Attributes:
        what: it shows, in a few words.
        command: arguments of Python.
        read: makes of the file of results what the record says.
    """

    what: str
    command: tuple[str, ...]
    read: Callable[[Path], dict[str, Any]] = details


_SEARCHES = ("tests/unit/core", "tests/unit/checkpoint", "tests/jobs")
_REPLAYS = "tests/jobs/test_replay_triples.py"
_TESTS = (
    "-m", "pytest", "-q", "-m", "proof", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder",
    "--junitxml", RESULTS,
)  # fmt: skip

SECTIONS: Final[Mapping[str, Section]] = {
    "searches": Section(
        "exhaustive searches of the machines, and simulated jobs at length",
        (*_TESTS, *_SEARCHES, f"--ignore={_REPLAYS}"),
        counts_of_tests,
    ),
    "replays": Section(
        "500 replays of random keys of simulated jobs from one checkpoint to the next",
        (*_TESTS, _REPLAYS),
        counts_of_tests,
    ),
    "at-length": Section(
        "random models, conformance suites and long tests with their full counts",
        (*_TESTS, "tests", *(f"--ignore={folder}" for folder in _SEARCHES)),
        counts_of_tests,
    ),
    "upgrades": Section(
        "5,000 generated upgrades: the verdict is what the restore does",
        ("-m", "proof", "upgrades", "--pairs", "5000", "--record", "docs/proof", "--results", RESULTS),
    ),
    "faults": Section(
        "faults of real processes, every group in every mode",
        ("-m", "proof", "--only", "abcdefghi", "--results", RESULTS),
    ),
    "nexmark": Section(
        "Nexmark's queries with killed workers and rescales: exactly the rows of DuckDB",
        ("-m", "proof", "nexmark", "--results", RESULTS),
    ),
    "fuzz": Section(
        "everything that decodes stored bytes, fuzzed",
        ("-m", "proof", "fuzz", "--minutes", "30", "--results", RESULTS),
    ),
    "simulation": Section(
        "20,000 seeds of the simulator, and every crash of a driver",
        ("-m", "proof", "simulation", "--minutes", "95", "--results", RESULTS),
    ),
    "soak": Section(
        "a job that 200 pages and a scrape a second watch for an hour",
        ("-m", "proof", "soak", "--results", RESULTS),
    ),
    "random-plans": Section(
        "20,000 random plans of corrected tables: DuckDB's answer at every mark",
        (
            *("-m", "sim.plans", "--seeds", "20000", "--processes", "2", "--keep-going"),
            *("--results", RESULTS),
        ),
    ),
    "corrected-jobs": Section(
        "5,000 whole simulated jobs whose answers are corrected, under faults",
        (
            *("-m", "sim", "--jobs", "marks", "--seeds", "5000", "--processes", "2", "--keep-going"),
            *("--results", RESULTS),
        ),
    ),
    "why": Section(
        "60 jobs with a planted cause or none: headgate why names kind and place",
        ("-m", "proof", "why", "--results", RESULTS),
    ),
}


def carry_out(name: str, section: Section, extra: Sequence[str], folder: Path | None) -> bool:
    """Run a section, and write its record; True when everything held.

    Args:
        name: of the section.
        section: what it is.
        extra: further arguments of its command.
        folder: for the record; None writes none.
    """
    print(f"\n=== {name}: {section.what}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headgate-proof-") as scratch:
        results = Path(scratch) / "results"
        command = [str(results) if part == RESULTS else part for part in section.command]
        within = [sys.executable, str(ROOT / "scripts" / "run_within.py"), str(LIMIT_S), sys.executable]
        code = subprocess.run([*within, *command, *extra], cwd=ROOT, check=False).returncode
        found = section.read(results) if results.exists() else {}
    print(f"=== {name}: {'held' if code == 0 else f'DID NOT HOLD, exit code {code}'}", flush=True)
    if folder is not None:
        content = found | origin()
        content |= {
            "what": section.what,
            "command": shlex.join(["python", *section.command]),
            "duration_s": round(time.monotonic() - began),
            "held": code == 0,
            "exit_code": code,
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        write_json(content, path)
        print(f"record in {path}", flush=True)
    return code == 0


def main(arguments: Sequence[str]) -> int:
    """Carry out sections; 0 when all held."""
    parser = argparse.ArgumentParser(
        prog="python -m proof sections",
        description="Sections of the proof, each within two hours, each with a record of its own.",
        epilog="Further arguments are for the section, and then no record is kept.",
    )
    parser.add_argument("section", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--list", action="store_true", help="say what the sections are")
    parser.add_argument("--record", type=Path, help="folder for the records")
    options, extra = parser.parse_known_args(arguments)
    if options.list:
        print(*(f"{name:12} {section.what}" for name, section in SECTIONS.items()), sep="\n")
        return 0
    wanted = options.section or list(SECTIONS)
    if unknown := [name for name in wanted if name not in SECTIONS]:
        parser.error(f"there is no section {', '.join(unknown)}; expected {', '.join(SECTIONS)}")
    if extra and len(wanted) > 1:
        parser.error(f"{' '.join(extra)} is for one section; name it")
    folder = options.record or (None if extra else RECORDS)
    failed = [name for name in wanted if not carry_out(name, SECTIONS[name], extra, folder)]
    print(f"\nsections that did not hold: {', '.join(failed)}" if failed else "\nall of it held", flush=True)
    return 1 if failed else 0
