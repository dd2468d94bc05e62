"""Budgets of the source: lines, untyped names, long files. `budgets.txt` has them, and only shrinks.

A room that brings a new capability has a budget of its own. While the capability is being built its room is
`open`, and its number may be raised; when it is accepted the word is taken away, and the room only shrinks.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from source_tree import ROOT, Module, source

from scripts.house_numbers import LONG, lines_of, long_files, untyped

FILE = Path(__file__).with_name("budgets.txt")
LINES_BEFORE = 97_330
"""What decision 0205 allows."""
ROOMS = ("room", "open-room")


class Budgets(NamedTuple):
    """What the source may have.

    Attributes:
        lines: of all files of the package but those in `rooms`.
        untyped: uses of `Any`, `object` and `cast`, and of names that stand for them, there.
        long: files that may have more than 450 lines.
        rooms: room -> its lines and untyped names.
        open: those of the rooms that are still being built.
    """

    lines: int
    untyped: int
    long: frozenset[str]
    rooms: Mapping[str, tuple[int, int]] = {}
    open: frozenset[str] = frozenset()


def parsed(text: str) -> Budgets:
    """The budgets of a file's text."""
    rows = [line.split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    numbers = {row[0]: int(row[1]) for row in rows if row[0] not in ("long-file", *ROOMS)}
    long = frozenset(row[1] for row in rows if row[0] == "long-file")
    rooms = {row[1]: (int(row[2]), int(row[3])) for row in rows if row[0] in ROOMS}
    building = frozenset(row[1] for row in rows if row[0] == "open-room")
    # Before other rooms had budgets of their own, one number was for all.
    lines = numbers.get("lines-of-older-rooms", LINES_BEFORE)
    return Budgets(lines, numbers["untyped-names"], long, rooms, building)


def within(module: Module, room: str) -> bool:
    """Whether a file is one of a room's, or is the room."""
    return module.inside == room or module.inside.startswith(f"{room}/")


def room_of(module: Module, budgets: Budgets) -> str | None:
    """The narrowest room with a budget of its own in which a file is."""
    return max((room for room in budgets.rooms if within(module, room)), key=len, default=None)


def older(budgets: Budgets) -> list[Module]:
    """The files that are in none of the rooms with a budget of their own."""
    return [module for module in source() if room_of(module, budgets) is None]


def grown(before: Budgets, now: Budgets) -> list[str]:
    """What of the budgets is more than it was."""
    both = (before.rooms.keys() & now.rooms.keys()) - now.open
    return [
        *([f"lines-of-older-rooms: {before.lines} -> {now.lines}"] if now.lines > before.lines else []),
        *([f"untyped-names: {before.untyped} -> {now.untyped}"] if now.untyped > before.untyped else []),
        *([f"long files: {len(before.long)} -> {len(now.long)}"] if len(now.long) > len(before.long) else []),
        *(
            f"{room}: {before.rooms[room]} -> {now.rooms[room]}"
            for room in sorted(both)
            if any(new > old for new, old in zip(now.rooms[room], before.rooms[room], strict=True))
        ),
    ]


@pytest.fixture(scope="module")
def budgets() -> Budgets:
    """Those that are in force."""
    return parsed(FILE.read_text(encoding="utf-8"))


def test_lines(budgets: Budgets) -> None:
    """Blank ones and docstrings included; what is new takes the place of something."""
    assert sum(map(lines_of, older(budgets))) <= budgets.lines


def test_untyped_names(budgets: Budgets) -> None:
    """A type variable, a protocol or a union says more than `Any`, `object` or a cast."""
    assert untyped(older(budgets)) <= budgets.untyped


def test_rooms_of_new_capabilities(budgets: Budgets) -> None:
    """Each is held to the size with which it was accepted."""
    rooms: dict[str | None, list[Module]] = {}
    for module in source():
        rooms.setdefault(room_of(module, budgets), []).append(module)
    for room, (lines, names) in budgets.rooms.items():
        found = rooms.get(room, [])
        assert found, f"there is no room {room}: take it off the list"
        assert sum(map(lines_of, found)) <= lines, room
        assert untyped(found) <= names, room


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
        "lines-of-older-rooms: 100 -> 101",
        "untyped-names: 10 -> 11",
        "long files: 2 -> 3",
    ]
    assert grown(before, Budgets(100, 10, frozenset({"a", "moved/b"}))) == []
    assert grown(before, Budgets(99, 9, frozenset({"a"}))) == []
    room = before._replace(rooms={"maps": (50, 5)})
    assert grown(before, room) == []
    assert grown(room, room._replace(rooms={"maps": (50, 6)})) == ["maps: (50, 5) -> (50, 6)"]
    assert grown(room, room._replace(rooms={"maps": (50, 6)}, open=frozenset({"maps"}))) == []
