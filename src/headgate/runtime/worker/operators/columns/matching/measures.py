"""The result's rows: the keys and measures of matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.relational.patterns.looked_up_columns import Asked
from headgate.relational.patterns.match_plan import Match
from headgate.relational.patterns.matcher import Found, Rules
from headgate.relational.patterns.navigation import wanted_of
from headgate.relational.patterns.remembered_rows import Memories, Memory

if TYPE_CHECKING:
    from headgate.relational.patterns.looked_up_columns import Take


class Measures:
    """Computes the results of a plan's matches; `take` returns rows by their numbers."""

    def __init__(self, plan: Match, rules: Rules, take: Take) -> None:
        self._plan, self._take = plan, take
        self._memories = Memories(wanted_of(plan.measured), len(rules.variables))

    def of(self, matches: Sequence[Found]) -> pa.Table:
        """Return a row for each match, in order; the rows of the matches must still be there."""
        plan = self._plan
        last = np.array([each.path.row for each in matches], np.int64)
        remembered = [self._remembered(each) for each in matches]
        width = len(plan.child.schema)
        asked = Asked(self._take, width, last, plan.measured, self._memories, remembered)
        keys = [asked.column(place) for place in range(plan.keys)]
        values = [asked.values(each) for each in plan.measures]
        return pa.Table.from_arrays([*keys, *values], schema=plan.schema.to_arrow())

    def _remembered(self, match: Found) -> Memory:
        memory = self._memories.empty
        for variable, row in match.rows():
            memory = self._memories.with_row(memory, variable, row)
        return memory
