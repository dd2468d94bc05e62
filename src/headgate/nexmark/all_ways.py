"""Finds the matches of a pattern by trying all ways in the order of preference, over all rows of one key at
once.

It is what the answers to the pattern queries are made by, and what the tests hold the streaming machine to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headgate.relational.patterns.shapes import Either, Pattern, Repeat, Series, Shape, Skip, Variable

Match = list[tuple[str, int]]
"""(variable, index of the row), in order; also of the beginning of a match."""
Holds = Callable[[str, int, Match], bool]
"""Whether a row fulfils a variable's condition after the rows matched so far, of which it is none."""


def all_ways_matches(pattern: Pattern, times: Sequence[int], holds: Holds) -> list[Match]:
    """Return the matches of a key's rows, whose event times (ms) ascend."""
    found, start = [], 0
    while start < len(times):
        within = pattern.within_ms
        end = next(
            (
                at
                for at in range(start, len(times))
                if within is not None and times[at] >= times[start] + within
            ),
            len(times),
        )
        match = next(_ways(pattern.shape, start, end, [], holds), None)
        if match is None:
            start += 1
        else:
            found.append(match)
            start = max(start + 1, _begin_after(pattern, start, match))
    return found


def _begin_after(pattern: Pattern, start: int, match: Match) -> int:
    rows = [row for name, row in match if name == pattern.skip_to]
    match pattern.skip:
        case Skip.PAST_LAST_ROW:
            return match[-1][1] + 1
        case Skip.TO_FIRST if rows:
            return rows[0]
        case Skip.TO_LAST if rows:
            return rows[-1]
    return start + 1


def _ways(shape: Shape, at: int, end: int, so_far: Match, holds: Holds) -> Iterator[Match]:
    match shape:
        case Variable(name):
            if at < end and holds(name, at, so_far):
                yield [*so_far, (name, at)]
        case Series(()):
            yield so_far
        case Series((first, *rest)):
            for way in _ways(first, at, end, so_far, holds):
                yield from _ways(Series(tuple(rest)), _next(at, so_far, way), end, way, holds)
        case Either(options):
            for option in options:
                yield from _ways(option, at, end, so_far, holds)
        case Repeat():
            yield from _repeated(shape, 0, at, end, so_far, holds)


def _repeated(shape: Repeat, times: int, at: int, end: int, so_far: Match, holds: Holds) -> Iterator[Match]:
    if not shape.greedy and times >= shape.low:
        yield so_far
    if shape.high is None or times < shape.high:
        for way in _ways(shape.part, at, end, so_far, holds):
            yield from _repeated(shape, times + 1, _next(at, so_far, way), end, way, holds)
    if shape.greedy and times >= shape.low:
        yield so_far


def _next(at: int, before: Match, after: Match) -> int:
    return at + len(after) - len(before)
