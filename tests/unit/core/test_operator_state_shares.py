"""Redistribution of operator state: the field's examples by value, and its randomised test."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import InternalError
from headgate.core.operator_state_shares import redistribute

MODES = ("split", "union", "broadcast")


@dataclass(frozen=True)
class Held:
    """A state of one old subtask."""

    name: str
    mode: str
    count: int
    file: str = ""
    first: int = 0
    stop: int | None = None


def split(name: str, file: str, count: int) -> Held:
    """A list of one old subtask."""
    return Held(name, "split", count, file)


def shown(old: Sequence[Sequence[Held]], parallelism: int) -> list[str]:
    """What each new subtask gets, as the table of examples writes it: file and offsets."""
    return [
        ",".join(f"{share.held.file}:{''.join(map(str, range(share.first, share.stop)))}" for share in mine)
        for mine in redistribute(old, parallelism)
    ]


def files(old: Sequence[Sequence[Held]], parallelism: int) -> list[str]:
    """The files that each new subtask gets, whole."""
    return [" ".join(share.held.file for share in mine) for mine in redistribute(old, parallelism)]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (1, ["f0:0123,f1:012"]),
        (2, ["f0:0123", "f1:012"]),
        (3, ["f0:012", "f0:3,f1:0", "f1:12"]),
        (4, ["f0:01", "f0:23", "f1:01", "f1:2"]),
        (5, ["f0:01", "f0:23", "f1:0", "f1:1", "f1:2"]),
    ],
)
def test_so1_two_handles_are_split(new: int, expected: list[str]) -> None:
    """sO1: four and three elements of one name, at every parallelism."""
    assert shown([[split("s", "f0", 4)], [split("s", "f1", 3)]], new) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [(2, ["f0:01,f1:0", "f1:1,f2:01"]), (4, ["f0:01", "f1:01", "f2:0", "f2:1"])],
)
def test_so1_three_handles_are_split(new: int, expected: list[str]) -> None:
    """sO1: three times two elements."""
    assert shown([[split("s", f"f{n}", 2)] for n in range(3)], new) == expected


def test_so1_the_start_index_rotates_across_names() -> None:
    """sO1: the second name begins where the remainder of the first ran out."""
    assert shown([[split("a", "a", 4), split("b", "b", 4)]], 3) == ["a:01,b:3", "a:2,b:01", "a:3,b:2"]


def test_so1_uneven_lists_stay_where_they_are() -> None:
    """sO1: at the same parallelism nothing moves, and who had nothing has nothing."""
    assert shown([[split("s", "f0", 9)], [], [split("s", "f2", 1)]], 3) == ["f0:012345678", "", "f2:0"]


@pytest.mark.parametrize("new", [1, 2, 3, 5])
def test_so2_union_goes_to_everybody(new: int) -> None:
    """sO2: also when the parallelism is unchanged."""
    assert files([[Held("u", "union", 2, "f0")], [Held("u", "union", 1, "f1")]], new) == ["f0 f1"] * new


def test_so2_broadcast_takes_turns() -> None:
    """sO2: subtask i gets that of subtask i mod 2."""
    old = [[Held("b", "broadcast", 1, "f0")], [Held("b", "broadcast", 1, "f1")]]
    assert files(old, 5) == ["f0", "f1", "f0", "f1", "f0"]
    assert files(old, 2) == ["f0", "f1"]
    assert files(old, 1) == ["f0"]


def test_so2_broadcast_partially_reported() -> None:
    """sO2: who has none gets another's, also at the same parallelism."""
    assert files([[Held("b", "broadcast", 1, "f0")], []], 2) == ["f0", "f0"]
    assert files([[], [Held("b", "broadcast", 1, "f1")]], 3) == ["f1", "f1", "f1"]


def test_so2_split_stays_and_union_is_added_everywhere() -> None:
    """sO2: both modes in one checkpoint at the same parallelism."""
    old = [
        [Held("s", "split", 3, "s0"), Held("u", "union", 1, "u0")],
        [Held("s", "split", 1, "s1"), Held("u", "union", 1, "u1")],
    ]
    assert files(old, 2) == ["s0 u0 u1", "s1 u0 u1"]


def test_a_part_of_what_is_stored_is_dealt_out_as_such() -> None:
    """A handle may mean some of its elements only; the others are nobody's."""
    old = [[Held("s", "split", 9, "f0", 2, 5)], [Held("s", "split", 9, "f1", 7)]]
    assert shown(old, 3) == ["f0:23", "f0:4,f1:7", "f1:8"]
    assert shown(old, 2) == ["f0:234", "f1:78"]


def test_a_mode_that_is_none_is_refused() -> None:
    """It would be lost otherwise."""
    with pytest.raises(InternalError, match="'s' is distributed by 'odd'"):
        redistribute([[Held("s", "odd", 1)]], 2)


def demand_so3(old: list[list[Held]], new: int) -> None:
    """What the field's randomised test demands of every case."""
    got = redistribute(old, new)
    assert len(got) == new
    loads = [sum(s.stop - s.first for s in mine if s.held.mode == "split") for mine in got]
    if new != len(old):
        assert max(loads) - min(loads) <= 1
    found = Counter(
        (share.held, element) for mine in got for share in mine for element in range(share.first, share.stop)
    )
    for name in {held.name for held in held_in(old)}:
        reported = [held for held in held_in(old) if held.name == name]
        for place, held in enumerate(reported):
            times = {"split": 1, "union": new, "broadcast": new // len(reported)}[held.mode]
            times += held.mode == "broadcast" and place < new % len(reported)
            assert {found[held, element] for element in range(held.count)} == {times}
    for mine in got:
        names = Counter(share.held.name for share in mine if share.held.mode == "broadcast")
        assert set(names.values()) <= {1}


def held_in(old: Iterable[Iterable[Held]]) -> list[Held]:
    """All states, ordered by subtask."""
    return [held for states in old for held in states]


def drawn(rng: random.Random) -> list[list[Held]]:
    """Up to nine names at a parallelism of one to nine; a list may be missing where it was empty."""
    old: list[list[Held]] = [[] for _ in range(rng.randint(1, 9))]
    for number in range(rng.randint(0, 9)):
        mode = rng.choice(MODES)
        for index, states in enumerate(old):
            if rng.random() < 0.9:
                states.append(Held(f"n{number}", mode, rng.randint(1, 9), f"f{index}"))
    for states in old:
        rng.shuffle(states)
    return old


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_so3_every_element_finds_its_subtasks(seed: int, new: int) -> None:
    """sO3: split exactly once and evenly, union everywhere, broadcast in turns."""
    demand_so3(drawn(random.Random(seed)), new)


@pytest.mark.ci
def test_so3_ten_thousand_cases() -> None:
    """sO3: the field's number of cases."""
    for seed in range(10_000):
        rng = random.Random(seed)
        demand_so3(drawn(rng), rng.randint(1, 9))


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_split_elements_keep_their_order(seed: int, new: int) -> None:
    """Read from where a name begins, the new subtasks hold the old elements in their order."""
    old = [[held for held in states if held.name == "n0"] for states in drawn(random.Random(seed))]
    if new == len(old) or not held_in(old) or held_in(old)[0].mode != "split":
        return
    got = [(s.held.file, n) for mine in redistribute(old, new) for s in mine for n in range(s.first, s.stop)]
    assert got == [(held.file, n) for held in held_in(old) for n in range(held.count)]
