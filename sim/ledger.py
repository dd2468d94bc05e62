"""Which seeds were simulated on which state of the source, over many runs: `docs/proof/simulation.json`."""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from sim.campaign import Tally

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("src", "sim")
NOT_RUN: Final = tuple(
    f"src/headgate/{package}/"
    for package in (
        "cli",
        "connectors",
        "deploy",
        "offline",
        "spark",
        "stateprocessor",
        "testing/suites",
        "usercode",
    )
)
"""What no simulation loads, so that a change of it leaves counts as they are."""
KEPT: Final = 5
"""States of the source whose counts are kept."""


def fingerprint(root: Path = ROOT) -> str:
    """Return the state of the code that a simulation runs; comments and docstrings are no part of it."""
    found = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not name.startswith(NOT_RUN):
                found.update(f"{name}\0".encode())
                found.update(_code_of(path.read_text(encoding="utf-8")).encode())
    return found.hexdigest()[:16]


def _code_of(text: str) -> str:
    """Return the syntax tree of a source text as text, without positions and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class Ledger:
    """The counts of one state of the source, in a file with those of others.

    Args:
        path: the file; made when it is not there.
        mark: of the source; see :func:`fingerprint`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "ledger.json"
        >>> ledger = Ledger(path, "abc")
        >>> ledger.note(range(0, 10), Tally(10)); ledger.note(range(20, 30), Tally(10))
        >>> Ledger(path, "abc").missing(range(0, 40)), Ledger(path, "abc").seeds
        ([range(10, 20), range(30, 40)], 20)
    """

    def __init__(self, path: Path, mark: str) -> None:
        self._path, self._mark = path, mark
        self._entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
        known = next((entry for entry in self._entries if entry["source"] == mark), None)
        if known is None:
            known = {"source": mark, "done": [], "seeds": 0, "failed": [], "counts": {}}
            self._entries = [known, *self._entries][:KEPT]
        self._entry = known

    @property
    def seeds(self) -> int:
        """How many were simulated on this state of the source."""
        return int(self._entry["seeds"])

    @property
    def failed(self) -> list[int]:
        """Those that failed."""
        return list(self._entry["failed"])

    def missing(self, wanted: range) -> list[range]:
        """What of `wanted` was not simulated yet."""
        left, start = [], wanted.start
        for first, last in self._entry["done"]:
            if first > start:
                left.append(range(start, min(first, wanted.stop)))
            start = max(start, last + 1)
        left.append(range(start, wanted.stop))
        return [span for span in left if len(span)]

    def note(self, seeds: range, tally: Tally) -> None:
        """Some seeds were simulated; written at once."""
        entry = self._entry
        done = range(seeds.start, seeds.start + tally.seeds)
        entry["done"] = _joined([*map(tuple, entry["done"]), (done.start, done.stop - 1)])
        entry["seeds"] = sum(last - first + 1 for first, last in entry["done"])
        entry["failed"] = sorted({*entry["failed"], *(seed for seed, _ in tally.failures)})
        counts = entry["counts"]
        for name, count in tally.counts.items():
            counts[name] = counts.get(name, 0) + count
        entry["counts"] = dict(sorted(counts.items()))
        entry["last"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._entries, indent=1) + "\n")
        temporary.replace(self._path)


def _joined(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    joined: list[list[int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined
