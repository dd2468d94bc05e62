"""Budgets of the source: lines, untyped names, long files. `budgets.txt` has them, and only shrinks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from source_tree import ROOT, source

from scripts.house_numbers import LONG, lines_of, long_files, untyped

FILE = Path(__file__).with_name("budgets.txt")


class Budgets(NamedTuple):
    """What the source may have.

    Attributes:
        lines: of all files of the package.
        untyped: uses of `Any`, `object` and `cast`, and of names that stand for them.
        long: files that may have more than 450 lines.
    """

    lines: int
    untyped: int
    long: frozenset[str]


def parsed(text: str) -> Budgets:
    """The budgets of a file's text."""
    rows = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    numbers = {name: int(value) for name, value in rows if name != "long-file"}
    long = frozenset(value for name, value in rows if name == "long-file")
    return Budgets(numbers["lines-of-src"], numbers["untyped-names"], long)


def grown(before: Budgets, now: Budgets) -> list[str]:
    """What of the budgets is more than it was."""
    return [
        *([f"lines-of-src: {before.lines} -> {now.lines}"] if now.lines > before.lines else []),
        *([f"untyped-names: {before.untyped} -> {now.untyped}"] if now.untyped > before.untyped else []),
        *([f"long files: {len(before.long)} -> {len(now.long)}"] if len(now.long) > len(before.long) else []),
    ]


@pytest.fixture(scope="module")
def budgets() -> Budgets:
    """Those that are in force."""
    return parsed(FILE.read_text(encoding="utf-8"))


def test_lines(budgets: Budgets) -> None:
    """Blank ones and docstrings included; what is new takes the place of something."""
    assert sum(map(lines_of, source())) <= budgets.lines


def test_untyped_names(budgets: Budgets) -> None:
    """A type variable, a protocol or a union says more than `Any`, `object` or a cast."""
    assert untyped(source()) <= budgets.untyped


def test_long_files(budgets: Budgets) -> None:
    """A file has at most 450 lines, or is listed; one that became shorter is taken off the list."""
    assert set(long_files(source())) - budgets.long == set(), f"files of more than {LONG} lines: split them"
    assert budgets.long - set(long_files(source())) == set(), f"shorten {FILE.name}"


def earlier() -> list[Budgets]:
    """Those of all commits, as far as this copy of the repository goes back."""

    def git(*arguments: str) -> str:
        said = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return said.stdout

    name = FILE.relative_to(ROOT).as_posix()
    return [
        parsed(git("show", f"{commit}:{name}")) for commit in git("log", "--format=%h", "--", name).split()
    ]


def test_budgets_only_shrink(budgets: Budgets) -> None:
    """Nobody makes room by a higher number, or by a longer list; a file that was moved keeps its place."""
    assert [growth for before in earlier() for growth in grown(before, budgets)] == []


def test_growth_is_found() -> None:
    """A higher number, and one file more; less of anything is welcome."""
    before = Budgets(100, 10, frozenset({"a", "b"}))
    assert grown(before, Budgets(101, 11, frozenset({"a", "b", "c"}))) == [
        "lines-of-src: 100 -> 101",
        "untyped-names: 10 -> 11",
        "long files: 2 -> 3",
    ]
    assert grown(before, Budgets(100, 10, frozenset({"a", "moved/b"}))) == []
    assert grown(before, Budgets(99, 9, frozenset({"a"}))) == []
