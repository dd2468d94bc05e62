"""The machine finds what trying all ways finds, whatever the pattern, the conditions and the rows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import PlanError
from headgate.nexmark.all_ways import Match, all_ways_matches
from headgate.relational.patterns.matcher import Found, Matcher, Rules
from headgate.relational.patterns.remembered_rows import Memory, Wanted
from headgate.relational.patterns.shapes import (
    Either,
    Pattern,
    Repeat,
    Series,
    Shape,
    Skip,
    Variable,
    check_shape,
    variables_of,
)

NAMES = "ABC"


@dataclass(frozen=True)
class Condition:
    """A row holds if its letter is among `letters`, and, if asked, compares with rows matched before it."""

    letters: frozenset[int]
    refers: str  # "", "first A", "last own", "sum A"


def shapes() -> st.SearchStrategy[Shape]:
    """Patterns of three variables, without those that are refused."""

    def larger(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
        counts = st.sampled_from([(0, 1), (0, None), (1, None), (2, 2), (1, 3), (0, 2), (2, None)])
        return st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Series(tuple(parts))),
            st.lists(inner, min_size=2, max_size=2).map(lambda parts: Either(tuple(parts))),
            st.builds(lambda part, n, greedy: Repeat(part, *n, greedy), inner, counts, st.booleans()),
        )

    return st.recursive(st.sampled_from(NAMES).map(Variable), larger, max_leaves=5).filter(_allowed)


def _allowed(shape: Shape) -> bool:
    try:
        check_shape(shape)
    except PlanError:
        return False
    return True


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pattern, dict[str, Condition], list[tuple[int, int]]]:
    """A pattern, its conditions, and rows of (event time, letter)."""
    shape = draw(shapes())
    names = variables_of(shape)
    skip = draw(st.sampled_from(list(Skip)))
    to = draw(st.sampled_from(names)) if skip in (Skip.TO_FIRST, Skip.TO_LAST) else None
    pattern = Pattern(shape, draw(st.none() | st.integers(1, 8)), skip, to)
    condition = st.builds(
        Condition,
        st.frozensets(st.integers(0, 2), min_size=1),
        st.sampled_from(["", "", "first A", "last own", "sum A"]),
    )
    conditions = {name: draw(condition) for name in names}
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12))
    time, rows = 0, []
    for more, letter in steps:
        time += more
        rows.append((time, letter))
    return pattern, conditions, rows


def holds(condition: Condition, name: str, letter: int, before: list[tuple[str, int]]) -> bool:
    """Whether a condition is true of a row with `letter`, after rows (variable, letter)."""
    if letter not in condition.letters:
        return False
    of_a = [each for variable, each in before if variable == "A"]
    own = [each for variable, each in before if variable == name]
    match condition.refers:
        case "first A":
            return not of_a or of_a[0] != letter
        case "last own":
            return not own or own[-1] != letter
        case "sum A":
            return sum(of_a) % 2 == 0
    return True


class Stepped:
    """The machine, given its answers."""

    def __init__(self, pattern: Pattern, conditions: dict[str, Condition], letters: list[int]) -> None:
        names = variables_of(pattern.shape)
        wanted: dict[int, Wanted] = {}
        for name, condition in conditions.items():
            match condition.refers:
                case "first A" if "A" in names:
                    _also(wanted, names.index("A"), Wanted(first=2))
                case "last own":
                    _also(wanted, names.index(name), Wanted(last=2))
                case "sum A" if "A" in names:
                    _also(wanted, names.index("A"), Wanted(all=True))
        self.rules, self._conditions, self._letters = Rules(pattern, wanted), conditions, letters
        self._wanted = wanted
        self.matcher = Matcher(self.rules)

    def answer(self, variable: int, memory: Memory, row: int) -> bool:
        """Answer a question by what the memory has."""
        memories, names = self.rules.memories, self.rules.variables
        name, letter = names[variable], self._letters[row]
        condition, before = self._conditions[name], []
        if condition.refers == "last own":
            known = memories.last(memory, variable, 1)
            before = [(name, self._letters[known])] if known >= 0 else []
        elif condition.refers == "first A" and "A" in names:
            known = memories.first(memory, names.index("A"), 0)
            before = [("A", self._letters[known])] if known not in (-1, row) else []
        elif condition.refers == "sum A" and "A" in names:
            known_rows = [each for each in memories.rows(memory, names.index("A")) if each != row]
            before = [("A", self._letters[each]) for each in known_rows]
        return holds(condition, name, letter, before)

    def step(self, row: int, time: int) -> list[Found]:
        """Go on by a row."""
        found = self.matcher.expire(time)
        questions = self.matcher.questions(row)
        answers = [self.answer(each.variable, each.memory, row) for each in questions]
        return found + self.matcher.step(row, time, questions, answers)


def _also(wanted: dict[int, Wanted], variable: int, more: Wanted) -> None:
    wanted[variable] = wanted.get(variable, Wanted()).and_also(more)


def as_names(stepped: Stepped, found: list[Found]) -> list[Match]:
    """Matches with names in place of indices."""
    return [[(stepped.rules.variables[variable], row) for variable, row in each.rows()] for each in found]


@settings(max_examples=500, deadline=None)
@given(cases())
def test_matches_are_those_of_all_ways(
    case: tuple[Pattern, dict[str, Condition], list[tuple[int, int]]],
) -> None:
    """In order, and none is decided before its last row, nor after its time."""
    pattern, conditions, rows = case
    letters = [letter for _, letter in rows]
    stepped = Stepped(pattern, conditions, letters)
    found: list[Found] = []
    for row, (time, _) in enumerate(rows):
        found += stepped.step(row, time)
    found += stepped.matcher.end(1_000)

    def of(name: str, at: int, before: Match) -> bool:
        return holds(conditions[name], name, letters[at], [(each, letters[row]) for each, row in before])

    assert as_names(stepped, found) == all_ways_matches(pattern, [time for time, _ in rows], of)
    decided = [each.decided for each in found]
    assert decided == sorted(decided)
    assert all(each.decided >= rows[each.path.row][0] for each in found)
    assert stepped.matcher.kept_from is None


@settings(max_examples=800, deadline=None)
@given(cases(), st.integers(0, 12))
def test_rows_that_are_kept_are_all_that_is_needed(
    case: tuple[Pattern, dict[str, Condition], list[tuple[int, int]]], stop: int
) -> None:
    """A new machine that is given them again finds the same matches, at the same times, as one that goes
    on.
    """
    pattern, conditions, rows = case
    stop = min(stop, len(rows))
    one, other = (Stepped(pattern, conditions, [letter for _, letter in rows]) for _ in range(2))
    for row in range(stop):
        one.step(row, rows[row][0])
    kept = one.matcher.kept_from
    for row in range(stop if kept is None else kept, stop):
        assert other.step(row, rows[row][0]) == []
    found: tuple[list[Found], list[Found]] = ([], [])
    for stepped, into in zip((one, other), found, strict=True):
        for row in range(stop, len(rows)):
            into += stepped.step(row, rows[row][0])
        into += stepped.matcher.end(1_000)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "shape",
    [
        Repeat(Variable("A"), 0, None),
        Series((Repeat(Repeat(Variable("A"), 0, 1), 1, None), Variable("B"))),
        Series((Variable("A"), Repeat(Variable("B"), 2, 1))),
        Repeat(Variable("A"), 1_001, 1_001),
    ],
)
def test_patterns_without_meaning_are_refused(shape: Shape) -> None:
    """They match nothing at all, or the same nothing again and again, or are too long."""
    with pytest.raises(PlanError):
        check_shape(shape)


def test_within_bounds_what_is_kept() -> None:
    """Of a pattern that never ends rows are kept for its time only."""
    pattern = Pattern(Series((Repeat(Variable("A"), 1, None), Variable("B"))), within_ms=10)
    letters = [0] * 1_000
    stepped = Stepped(
        pattern, {"A": Condition(frozenset([0]), ""), "B": Condition(frozenset([1]), "")}, letters
    )
    for row in range(1_000):
        assert stepped.step(row, row) == []
        assert row - (stepped.matcher.kept_from or 0) < 10
    assert stepped.matcher.expire(1_009) == []
    assert stepped.matcher.kept_from is None
