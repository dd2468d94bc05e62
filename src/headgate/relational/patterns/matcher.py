"""Finds the matches of one key: steps through its rows, and asks which conditions hold. See
docs/machines/patterns.md.

Each row may begin a match, of which several ways are followed at once, the preferred one first. A match is
decided when no way is left that would be preferred to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headgate.relational.patterns.automaton import END, Automaton, automaton_of
from headgate.relational.patterns.remembered_rows import Memories, Memory, Wanted
from headgate.relational.patterns.shapes import Pattern, Skip, variables_of


class Path(NamedTuple):
    """The last row of a partial match, the variable that it was matched to, and the rows before it."""

    variable: int
    row: int
    before: Path | None


class Way(NamedTuple):
    """One way to go on with a partial match: the next row has to fulfil `state`."""

    state: int
    path: Path | None
    memory: Memory


class Question(NamedTuple):
    """Does the row fulfil `variable`'s condition? `memory` has the row as one of this variable already."""

    variable: int
    memory: Memory


class Found(NamedTuple):
    """A match, and the event time (ms) at which it was decided."""

    path: Path
    decided: int

    def rows(self) -> list[tuple[int, int]]:
        """Return (variable, row) for each of its rows, in order."""
        return list(reversed([(each.variable, each.row) for each in _back(self.path)]))


class Rules:
    """A pattern ready to be matched; `wanted`: index of a variable -> what conditions refer to of its rows.
    The index after the last variable stands for rows of any variable.
    """

    def __init__(self, pattern: Pattern, wanted: dict[int, Wanted]) -> None:
        self.variables = tuple(variables_of(pattern.shape))
        self.automaton: Automaton = automaton_of(pattern.shape, self.variables)
        self.memories = Memories(wanted, len(self.variables))
        self.within_ms, self.skip = pattern.within_ms, pattern.skip
        self.skip_to = None if pattern.skip_to is None else self.variables.index(pattern.skip_to)
        self.first = tuple(Way(state, None, self.memories.empty) for state in self.automaton.first)


class _Run:
    """The match that begins with row `start`, as far as it is known."""

    __slots__ = ("best", "start", "time", "ways")

    def __init__(self, start: int, time: int, ways: Iterable[Way]) -> None:
        self.start, self.time, self.ways = start, time, list(ways)
        self.best: Path | None = None


class Matcher:
    """The partial matches of one key. Rows come in the order of event time, by numbers that grow."""

    __slots__ = ("_rules", "_runs")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._runs: list[_Run] = []

    @property
    def kept_from(self) -> int | None:
        """The number of the first row that is still needed; None: no row is."""
        return self._runs[0].start if self._runs else None

    @property
    def deadline(self) -> int | None:
        """The event time (ms) that decides the first match, if no row does before; None: none does."""
        within = self._rules.within_ms
        return self._runs[0].time + within if self._runs and within is not None else None

    def remembered(self) -> Iterator[Memory]:
        """Yield what each way of the partial matches remembers."""
        for run in self._runs:
            yield from (way.memory for way in run.ways)

    def expire(self, time: int) -> list[Found]:
        """Note that no row before event time `time` (ms) will come; return what is decided by that."""
        within, found = self._rules.within_ms, []
        while within is not None and self._runs and self._runs[0].time + within <= time:
            first = self._runs[0]
            first.ways.clear()
            found += self._settle(first.time + within - 1)
        return found

    def end(self, time: int) -> list[Found]:
        """Note that no row will come; return what is decided by that, as of event time `time` (ms)."""
        for run in self._runs:
            run.ways.clear()
        return self._settle(time)

    def questions(self, row: int, *, begins: bool = True) -> list[Question]:
        """Return what has to be known of the next row, `row`; `begins`: whether a match may begin with it.
        Before that, :meth:`expire` has to be called with its event time.
        """
        waits_for, with_row = self._rules.automaton.waits_for, self._rules.memories.with_row
        return [
            Question(variable := waits_for[way.state], with_row(way.memory, variable, row))
            for way in self._ways(begins)
        ]

    def _ways(self, begins: bool) -> Iterator[Way]:
        for run in self._runs:
            yield from run.ways
        if begins:
            yield from self._rules.first

    def step(
        self, row: int, time: int, questions: list[Question], answers: list[bool], *, begins: bool = True
    ) -> list[Found]:
        """Go on by a row at event time `time` (ms), given the `answers` to :meth:`questions`, which were
        asked with the same `begins`; return the matches that are decided now.
        """
        if begins:
            self._runs.append(_Run(row, time, self._rules.first))
        asked = zip(questions, answers, strict=True)
        for place, run in enumerate(self._runs):
            self._step_run(run, row, asked)
            if place == 0 and self._covers_all(run, row):
                del self._runs[1:]
                break
        self._runs = [run for run in self._runs if run.ways or run.best is not None]
        return self._settle(time)

    def _covers_all(self, run: _Run, row: int) -> bool:
        # Whatever way is preferred in the end, this first match ends here or later.
        return self._rules.skip is Skip.PAST_LAST_ROW and run.best is not None and run.best.row == row

    def _step_run(self, run: _Run, row: int, asked: Iterator[tuple[Question, bool]]) -> None:
        after = self._rules.automaton.after
        ways, seen, ended = [], set(), False
        for way in run.ways:
            question, holds = next(asked)
            if not holds or ended:
                continue
            path = Path(question.variable, row, way.path)
            for state in after[way.state]:
                if state == END:
                    run.best, ended = path, True
                    break
                # Of two ways that cannot be told apart from now on the preferred one is enough.
                if (mark := (state, question.memory)) not in seen:
                    seen.add(mark)
                    ways.append(Way(state, path, question.memory))
        run.ways = ways

    def _settle(self, time: int) -> list[Found]:
        found, runs = [], self._runs
        while runs and not runs[0].ways:
            run = runs[0]
            if run.best is None:
                del runs[0]
                continue
            found.append(Found(run.best, time))
            begin = self._begin_after(run.start, run.best)
            runs[:] = [each for each in runs if each.start >= begin]
        return found

    def _begin_after(self, start: int, match: Path) -> int:
        # A match begins later than the one before it, also where its variable has no row or the first one.
        match self._rules.skip:
            case Skip.PAST_LAST_ROW:
                return match.row + 1
            case Skip.TO_NEXT_ROW:
                return start + 1
        rows = [each.row for each in _back(match) if each.variable == self._rules.skip_to]
        if not rows:
            return start + 1
        return max(start + 1, rows[-1] if self._rules.skip is Skip.TO_FIRST else rows[0])


def _back(path: Path | None) -> Iterator[Path]:
    while path is not None:
        yield path
        path = path.before
