"""What upgrades begin from: savepoints and retained checkpoints of one program, and what each holds."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import HeadgateError
from headgate.restore.in_flight_shares import records_of
from proof.upgrade_versions import STOP, WORDS, Gate, Version, program

Base = tuple[str, str]
"""Backend, and the form of what was stored."""

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
    "changelog": {"state.backend.type": "hashmap", "state.changelog.enabled": True},
    "rocksdb changelog": {"state.backend.type": "rocksdb", "state.changelog.enabled": True},
}
"""Backend -> the settings of the version that stored."""

BASES: Final[list[Base]] = [
    *((backend, form) for backend in ("hashmap", "rocksdb") for form in ("canonical", "native")),
    ("changelog", "native"),
    ("hashmap", "checkpoint"),
    ("incremental", "checkpoint"),
    ("changelog", "checkpoint"),
    ("rocksdb changelog", "checkpoint"),
    ("hashmap", "unaligned"),
    ("changelog", "unaligned"),
]
"""`checkpoint` and `unaligned` are checkpoints that a cancelled job leaves behind, the second with records in
flight; the other forms are those of savepoints."""

FIRST, SLOW_S, WAIT_S = STOP // 2, 0.1, 60.0


@dataclass(frozen=True)
class Point:
    """A snapshot.

    Attributes:
        place: of its folder, below the base's.
        before: what the keyed operator had processed.
        flying: records on their way to it, which the snapshot holds.
    """

    place: str
    before: tuple[str, ...]
    flying: tuple[str, ...] = ()

    @property
    def after(self) -> list[str]:
        """What is still to be processed, records in flight included."""
        whole = Counter(word for split in WORDS for word in split)
        return [*(whole - Counter(self.before)).elements()]


@dataclass
class Taken:
    """The snapshots of one base, in its folder.

    Attributes:
        folder: with everything that the first version wrote.
        older: the first point.
        newest: the last one.
        published: what of its input the first version had published when it ended.
    """

    folder: Path
    older: Point = field(init=False)
    newest: Point = field(init=False)
    published: tuple[str, ...] = ()


def settings_of(base: Base) -> dict[str, Any]:
    """What the program that stored had set, and each version of it has unless it changes that."""
    unaligned = {"execution.checkpointing.unaligned.enabled": True} if base[1] == "unaligned" else {}
    return SETTINGS[base[0]] | unaligned


def take(base: Base, folder: Path) -> Taken:
    """Run the first version, and keep two snapshots of it.

    Args:
        base: which.
        folder: for all that it writes; becomes its own.
    """
    version = Version(config=settings_of(base))
    version.config["execution.checkpointing.num-retained"] = 2
    version.slow_s = SLOW_S if base[1] == "unaligned" else 0.0
    taken, points = Taken(folder), []
    env = program(version, folder, old=True)
    with env.execute_async("words") as handle:
        for limit in (FIRST, STOP):
            Gate.limits[str(folder)] = limit
            points.append(_point(base, handle, folder, limit))
        handle.cancel()
    taken.older, taken.newest = points
    taken.published = taken.newest.before if is_checkpoint(base) else ()
    return taken


def is_checkpoint(base: Base) -> bool:
    """Whether it is no savepoint: the first version has published what its snapshots hold."""
    return base[1] in ("checkpoint", "unaligned")


def _point(base: Base, handle: hg.JobHandle, folder: Path, limit: int) -> Point:
    """A snapshot of the running version, which reads `limit` words of each split."""
    given = tuple(word for split in WORDS for word in split[:limit])
    if base[1] == "unaligned":
        _wait(lambda: _records(handle, "in", out=True) == len(given), "the source has not given its input")
        behind = len(WORDS) * (limit - FIRST)
        _wait(lambda: _records(handle, "count") > behind, "nothing was processed")
    else:
        _wait(lambda: _records(handle, "count") == len(given), "the input was not processed")
    if not is_checkpoint(base):
        uri = handle.savepoint(str(folder / "savepoints"), format=base[1])
        return Point(_place(uri, folder), given)
    uri = handle.checkpoint()
    before = tuple(line["key"] for line in lines_in(folder / "out"))
    flying = tuple((Counter(given) - Counter(before)).elements())
    path = folder / _place(uri, folder)
    held = sum(map(records_of, open_checkpoint(str(path))[1].in_flight))
    assert held == len(flying), f"{held} records in flight are stored, and {len(flying)} are missing"
    assert flying or base[1] != "unaligned", "no record was in flight"
    return Point(_place(uri, folder), before, flying)


def lines_in(folder: Path) -> list[Any]:
    """Everything that a version has published in a folder, in either format."""
    found = [
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    for file in sorted(folder.glob("*.parquet")):
        import pyarrow.parquet as pq

        found += [json.loads(line) for line in pq.read_table(file).column("line").to_pylist()]
    return found


def copied(taken: Taken, to: Path) -> None:
    """Everything that the first version left, in a folder of a pair's own."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(taken.folder, to)


def _place(uri: str, folder: Path) -> str:
    return Path(unquote(urlsplit(uri).path)).relative_to(folder.resolve()).as_posix()


def _records(handle: hg.JobHandle, uid: str, out: bool = False) -> int:
    """How many records the vertex with an operator has taken, or given."""
    try:
        vertices = handle.status().vertices
    except HeadgateError:
        return 0
    found = [vertex for vertex in vertices if uid in vertex.uids]
    return sum(vertex.records_out if out else vertex.records_in for vertex in found)


def _wait(reached: Callable[[], bool], else_: str) -> None:
    until = time.monotonic() + WAIT_S
    while not reached():
        assert time.monotonic() < until, f"the first version: {else_}"
        time.sleep(0.01)
