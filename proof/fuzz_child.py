"""Targets under fuzzing in a process of their own: python -m proof.fuzz_child <folder> <place of target>...

Started by `proof.fuzz`, which reads the ledger: whatever ends this process, even a fault in native code, the
counts and the input in hand are there.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import struct
import sys
import time
from argparse import ArgumentParser
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from proof.fuzz_mutate import LENGTH_MAX, mutations
from proof.fuzz_target import Target, attempt

LEDGER = "ledger"
MEMORY_BYTES = 512 << 20
"""What one process may take above what it has when all seeds were read."""
HANGS_S = 10

_COUNTS = struct.Struct("<QQQ")


class Ledger:
    """Counts and the present input, in a file that outlives the process.

    Args:
        path: the file.
        create: whether it is begun here.
    """

    def __init__(self, path: Path, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_COUNTS.size + LENGTH_MAX))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def begin(self, data: bytes) -> None:
        """An input is about to be read."""
        executions, accepted, _ = self.counts()
        _COUNTS.pack_into(self._map, 0, executions + 1, accepted, len(data))
        self._map[_COUNTS.size : _COUNTS.size + len(data)] = data

    def accepted(self) -> None:
        """It was read without a complaint."""
        executions, accepted, length = self.counts()
        _COUNTS.pack_into(self._map, 0, executions, accepted + 1, length)

    def counts(self) -> tuple[int, int, int]:
        """Executions, accepted inputs, length of the present input."""
        return _COUNTS.unpack_from(self._map)

    def data(self) -> bytes:
        """The present input."""
        return bytes(self._map[_COUNTS.size : _COUNTS.size + self.counts()[2]])


class Fuzzing:
    """Reads inputs and keeps the first one of each kind of finding.

    Args:
        target: what is fuzzed.
        folder: for the ledger and the findings.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._ledger = Ledger(folder / LEDGER)
        self._kinds: set[str] = set()

    def one(self, data: bytes) -> None:
        """Read one input."""
        data = data[:LENGTH_MAX]
        self._ledger.begin(data)
        accepted, wrong = attempt(self._target, data)
        if accepted:
            self._ledger.accepted()
        elif wrong is not None:
            self._note(wrong, data)

    def _note(self, wrong: str, data: bytes) -> None:
        kind = wrong.partition(": ")[0]
        if kind not in self._kinds:
            self._kinds.add(kind)
            name = sha256(kind.encode()).hexdigest()[:12]
            text = json.dumps({"wrong": wrong, "input": data.hex()})
            (self._folder / f"finding-{name}.json").write_text(text)


def limit_memory(more: int = MEMORY_BYTES) -> None:
    """Let an allocation fail that takes the process so far above what it has; where the system tells that."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        has = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (has + more, has + more))


def _with_coverage(fuzzing: Fuzzing, seeds: list[bytes], folder: Path, seconds: float, seed: int) -> None:
    """libFuzzer by way of atheris; ends the process."""
    atheris = _atheris()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate([*seeds, *islice(mutations(seeds, seed), 2 * len(seeds))]):
        (corpus / f"seed-{number}").write_bytes(data)
    options = {
        "max_total_time": max(1, round(seconds)),
        "max_len": LENGTH_MAX,
        "timeout": HANGS_S,
        "rss_limit_mb": 0,  # the limit is on addresses
        "seed": seed % 2**32 or 1,
        "artifact_prefix": f"{folder}/",
    }
    arguments = [sys.argv[0], str(corpus), *(f"-{name}={value}" for name, value in options.items())]
    atheris.Setup(arguments, fuzzing.one)
    atheris.Fuzz()


def _by_chance(fuzzing: Fuzzing, seeds: list[bytes], _: Path, seconds: float, seed: int) -> None:
    end = time.monotonic() + seconds
    for data in mutations(seeds, seed):
        fuzzing.one(data)
        if time.monotonic() > end:
            return


def _atheris() -> Any:
    """It is not there for every platform."""
    return import_module("atheris")


def _targets(instrumented: bool) -> list[Target]:
    if not instrumented:
        from proof.fuzz import targets

        return targets()
    with _atheris().instrument_imports(include=["headgate"]):
        from proof.fuzz import targets

        return targets()


def main() -> int:
    """Fuzz one target."""
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("places", type=int, nargs="+", help="one, where coverage is measured")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--engine", choices=["atheris", "chance"], required=True)
    options = parser.parse_args()
    with_coverage = options.engine == "atheris"
    known = _targets(with_coverage)
    seeds = {place: known[place].seeds() for place in options.places}
    for place in options.places:
        _check_seeds(known[place], seeds[place])
    limit_memory()
    for place in options.places:
        folder = options.folder / folder_name(place)
        fuzzing = Fuzzing(known[place], folder)
        run = _with_coverage if with_coverage else _by_chance
        run(fuzzing, seeds[place], folder, options.seconds, options.seed)
    return 0


def folder_name(place: int) -> str:
    """Of one target's ledger and findings."""
    return f"target-{place}"


def _check_seeds(target: Target, seeds: list[bytes]) -> None:
    """Seeds that are refused would fuzz nothing but the refusal; this also loads whatever is loaded late."""
    for data in seeds:
        accepted, wrong = attempt(target, data)
        if not accepted:
            raise SystemExit(f"a seed of {target.name!r} is refused: {wrong or 'by the declared error'}")


def describe(finding: Path) -> dict[str, Any]:
    """What a finding's file says."""
    content: dict[str, Any] = json.loads(finding.read_text())
    return content


if __name__ == "__main__":
    sys.exit(main())
