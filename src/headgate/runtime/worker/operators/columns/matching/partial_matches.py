"""The partial matches of all keys of a subtask, by the numbers of the keys.

Most keys have one row with which a match may begin, and no other for long. Of such a key two arrays say all:
which row that is, and until when another may follow. A machine in Python is made when a second row comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.relational.patterns.automaton import END
from headgate.relational.patterns.matcher import Matcher, Rules
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

NONE: Final = 2**63 - 1
"""In place of a row's number, or of a time: there is none."""
_FEW_KEYS: Final = 4_096
"""As long as there are so few keys, none is forgotten."""


class PartialMatches:
    """Partial matches under `rules`, of keys in the columns of `schema`.

    Attributes:
        kept_from: of each key, the number of the first row that it needs; `NONE`: of none.
    """

    def __init__(self, schema: pa.Schema, rules: Rules) -> None:
        self._schema, self._rules = schema, rules
        after = rules.automaton.after
        # What the first row may be matched to is known by itself, and it is no whole match.
        self.may_wait_alone = len(rules.first) == 1 and END not in after[rules.first[0].state]
        self._forget_all()

    def _forget_all(self) -> None:
        self._keys = KeyNumbers(self._schema)
        self._matchers: dict[int, Matcher] = {}
        self.kept_from = np.zeros(0, np.int64)
        self._deadlines = np.zeros(0, np.int64)
        self._has_machine = np.zeros(0, np.bool_)

    def numbers(self, rows: pa.Table) -> Int64s:
        """Return the number of each row's key."""
        keys = self._keys.of(rows)
        if self._keys.count > len(self.kept_from):
            new = max(self._keys.count, 2 * len(self.kept_from)) - len(self.kept_from)
            self.kept_from = np.append(self.kept_from, np.full(new, NONE, np.int64))
            self._deadlines = np.append(self._deadlines, np.full(new, NONE, np.int64))
            self._has_machine = np.append(self._has_machine, np.zeros(new, np.bool_))
        return keys

    def begin(self, keys: Int64s, rows: Int64s, times: Int64s) -> None:
        """Note of keys without a partial match, all different, that one begins with a row at an event time
        (ms). Only if the first row `may_wait_alone`.
        """
        self.kept_from[keys] = rows
        within = self._rules.within_ms
        self._deadlines[keys] = NONE if within is None else times + within

    def take(self, key: int) -> Matcher:
        """Return the machine of a key; after its next steps it has to be :meth:`put` back."""
        found = self._matchers.pop(key, None)
        if found is not None:
            return found
        matcher, row = Matcher(self._rules), int(self.kept_from[key])
        if row != NONE:
            time = int(self._deadlines[key]) - (self._rules.within_ms or 0)
            questions = matcher.questions(row)
            matcher.step(row, time, questions, [True] * len(questions))
        return matcher

    def put(self, key: int, matcher: Matcher) -> None:
        """Keep the machine of a key, if it has a partial match."""
        kept, deadline = matcher.kept_from, matcher.deadline
        if kept is not None:
            self._matchers[key] = matcher
        self._has_machine[key] = kept is not None
        self.kept_from[key] = NONE if kept is None else kept
        self._deadlines[key] = NONE if deadline is None else deadline

    def over(self, time: int | None) -> list[int]:
        """Return the keys whose partial matches an event time (ms) decides; None: the end of the data, which
        decides all. Rows that waited alone are forgotten then: nothing followed them.
        """
        over = self.kept_from != NONE if time is None else self._deadlines <= time
        alone = over & ~self._has_machine
        self.kept_from[alone] = self._deadlines[alone] = NONE
        found: list[int] = np.flatnonzero(over & self._has_machine).tolist()
        return found

    def needed(self, keys: Int64s, numbers: Int64s) -> NDArray[np.bool_]:
        """Say of each row, by its key and its number, whether it is needed."""
        return np.asarray(numbers >= self.kept_from[keys])

    def forget_idle_keys(self) -> Int64s | None:
        """Number the keys anew that have a partial match, if these are few among all; return the new number
        at the place of each old one, -1 for keys that are forgotten. None: all keep their numbers.
        """
        if self._keys.count <= _FEW_KEYS:
            return None
        busy = np.flatnonzero(self.kept_from != NONE)
        if self._keys.count <= 2 * len(busy):
            return None
        keys, matchers = self._keys.keys(busy), self._matchers
        kept_from, deadlines = self.kept_from[busy], self._deadlines[busy]
        renamed = np.full(len(self.kept_from), -1, np.int64)
        self._forget_all()
        new = self.numbers(keys)
        renamed[busy], self.kept_from[new], self._deadlines[new] = new, kept_from, deadlines
        self._matchers = {int(renamed[key]): matcher for key, matcher in matchers.items()}
        self._has_machine[list(self._matchers)] = True
        return renamed
