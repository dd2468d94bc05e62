"""Steps the machines of many keys through their rows, and computes the conditions that they ask for.

A condition of the row alone is computed for all rows at once. One that refers to other rows of a match is
computed in Python for each row, if it can be (`relational.patterns.single_rows`). If not, it is computed in
rounds, of which each takes every key as far as such a condition, and answers these for all keys together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from headgate.relational.patterns.looked_up_columns import Asked
from headgate.relational.patterns.match_plan import Match
from headgate.relational.patterns.matcher import Found, Matcher, Question, Rules
from headgate.relational.patterns.remembered_rows import Memory
from headgate.relational.patterns.single_rows import NotSure, in_python
from headgate.relational.resolved import columns_in
from headgate.runtime.worker.operators.columns.matching.row_cells import RowCells

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.relational.patterns.looked_up_columns import Take

_NEVER: Final = 2**62


class KeyRows:
    """The next rows of one key, from `at` up to `end`, its machine, and the matches found so far."""

    __slots__ = ("at", "begins", "end", "found", "key", "matcher", "questions")

    def __init__(self, key: int, matcher: Matcher, at: int, end: int) -> None:
        self.key, self.matcher, self.at, self.end = key, matcher, at, end
        self.found: list[Found] = []
        self.questions: list[Question] = []
        self.begins = False


class Stepper:
    """Matches one pattern. `take` returns rows by their numbers, with the columns of the plan's child."""

    def __init__(self, plan: Match, rules: Rules, take: Take) -> None:
        self._plan, self._rules, self._take = plan, rules, take
        self._width = len(plan.child.schema)
        self._conditions = list(plan.conditions)
        self._asked = {
            variable
            for variable, condition in enumerate(plan.conditions)
            if condition is not None and max(columns_in(condition), default=0) >= self._width
        }
        self._cells = RowCells(take)
        made = {
            variable: in_python(condition, self._width, plan.looked_up, rules.memories, self._cells)
            for variable, condition in enumerate(plan.conditions)
            if condition is not None and variable in self._asked
        }
        self._in_python = {variable: computed for variable, computed in made.items() if computed is not None}
        automaton = rules.automaton
        self._beginners = sorted({automaton.waits_for[state] for state in automaton.first})

    def rows_of(self, numbers: Int64s, times: Int64s) -> Batch:
        """Return rows with what is known of each by itself; their numbers follow each other."""
        known: list[list[bool] | None] = []
        for variable, condition in enumerate(self._conditions):
            alone = condition is not None and variable not in self._asked
            known.append(self._of_all(variable, numbers) if alone else None)
        return Batch(numbers, times.tolist(), known, self._next_begins(numbers, known))

    def _of_all(self, variable: int, numbers: Int64s) -> list[bool]:
        memories, empty = self._rules.memories, self._rules.memories.empty
        remembered: Sequence[Memory] = ()
        if variable in self._asked:
            remembered = [memories.with_row(empty, variable, row) for row in numbers.tolist()]
        return self._answers(variable, numbers, remembered)

    def _next_begins(self, numbers: Int64s, known: list[list[bool] | None]) -> list[int]:
        # The index of the first row from each on with which a match may begin.
        if any(self._conditions[each] is None for each in self._beginners):
            return list(range(len(numbers)))
        may = np.zeros(len(numbers), np.bool_)
        for variable in self._beginners:
            found = known[variable]
            may |= np.array(self._of_all(variable, numbers) if found is None else found, np.bool_)
        places = np.where(may, np.arange(len(numbers)), _NEVER)
        following: list[int] = np.minimum.accumulate(places[::-1])[::-1].tolist()
        return following

    def run(self, batch: Batch, keys: Sequence[KeyRows]) -> None:
        """Step each key through its rows; what it finds is in its `found`."""
        if self._in_python:
            older = {
                row
                for key in keys
                for memory in key.matcher.remembered()
                for rows in memory
                for part in rows
                for row in part
            }
            self._cells.begin(batch.numbers, sorted(older))
        active = keys
        while active:
            active = [each for each in active if self._advance(batch, each)]
            self._answer(batch, active)

    def _advance(self, batch: Batch, key: KeyRows) -> bool:
        # Returns whether a question waits for an answer; otherwise there is no row left.
        matcher = key.matcher
        while key.at < key.end:
            time = batch.times[key.at]
            if matcher.kept_from is not None:
                key.found += matcher.expire(time)
            if matcher.kept_from is None and (at := batch.begins[key.at]) != key.at:
                key.at = at
                continue
            key.begins = batch.begins[key.at] == key.at
            key.questions = matcher.questions(batch.first + key.at, begins=key.begins)
            answers = self._known_answers(batch, key)
            if answers is None:
                return True
            self._step(batch, key, answers)
        return False

    def _known_answers(self, batch: Batch, key: KeyRows) -> list[bool] | None:
        answers = []
        for question in key.questions:
            variable = question.variable
            if variable not in self._asked:
                answers.append(batch.holds(variable, key.at))
                continue
            computed = self._in_python.get(variable)
            if computed is None:
                return None
            try:
                answers.append(bool(computed(batch.first + key.at, question.memory)))
            except NotSure:
                return None
        return answers

    def _step(self, batch: Batch, key: KeyRows, answers: list[bool]) -> None:
        row, time = batch.first + key.at, batch.times[key.at]
        key.found += key.matcher.step(row, time, key.questions, answers, begins=key.begins)
        key.at += 1

    def _answer(self, batch: Batch, keys: Sequence[KeyRows]) -> None:
        places: dict[int, list[tuple[int, int]]] = {}
        answers = []
        for number, key in enumerate(keys):
            mine = []
            for place, question in enumerate(key.questions):
                if question.variable in self._asked:
                    places.setdefault(question.variable, []).append((number, place))
                    mine.append(False)
                else:
                    mine.append(batch.holds(question.variable, key.at))
            answers.append(mine)
        for variable, asked in places.items():
            rows = np.array([batch.first + keys[number].at for number, _ in asked], np.int64)
            remembered = [keys[number].questions[place].memory for number, place in asked]
            for (number, place), holds in zip(asked, self._answers(variable, rows, remembered), strict=True):
                answers[number][place] = holds
        for key, mine in zip(keys, answers, strict=True):
            self._step(batch, key, mine)

    def _answers(self, variable: int, rows: Int64s, remembered: Sequence[Memory]) -> list[bool]:
        condition = self._conditions[variable]
        assert condition is not None  # the caller looked
        asked = Asked(self._take, self._width, rows, self._plan.looked_up, self._rules.memories, remembered)
        holds: list[bool] = pc.fill_null(asked.values(condition), False).to_pylist()
        return holds


class Batch:
    """Rows of several keys, key by key, with what is known of each by itself.

    Attributes:
        numbers: those of the rows, which follow each other.
        first: the number of the first row.
        times: their event times (ms).
        begins: the index of the first row from each on with which a match may begin.
    """

    __slots__ = ("_known", "begins", "first", "numbers", "times")

    def __init__(
        self, numbers: Int64s, times: list[int], known: list[list[bool] | None], begins: list[int]
    ) -> None:
        self.numbers, self.first = numbers, int(numbers[0])
        self.times, self._known, self.begins = times, known, begins

    def holds(self, variable: int, index: int) -> bool:
        """Return whether a row fulfils a variable's condition, which is one of the row alone."""
        known = self._known[variable]
        return known is None or known[index]
