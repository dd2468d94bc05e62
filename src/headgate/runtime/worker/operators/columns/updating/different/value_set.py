"""The different values of all groups of one subtask, with what was told of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.relational.passes.distinct_values import DistinctValues
from headgate.runtime.worker.operators.columns.sorting import order_of_numbers
from headgate.runtime.worker.operators.columns.updating.by_key.growing import grown
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import distinct, sorted_by
from headgate.runtime.worker.operators.columns.updating.different.integer_rows import NumberedRows
from headgate.runtime.worker.operators.columns.updating.different.value_codes import Decode, ValueCodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_GONE_MIN: Final = 1 << 14
"""Values that are gone, from which their places are freed, if they are half of all."""

_ROWS_TOGETHER: Final = 1 << 20
"""Values that become lists together, to be stored."""


class Turn(NamedTuple):
    """For an aggregate: `rows` of those given whose value begins to count, or ends; `by`: 1 or -1."""

    rows: Int64s
    by: Int64s


class Stored(NamedTuple):
    """Values to be stored: numbers of groups, ascending, columns of values, and of what was told by
    aggregate.
    """

    groups: Int64s
    values: list[pa.Array]
    told: list[pa.Array]


class _Frozen(NamedTuple):
    """A set's values and what was told of them; `bits`: how many bits this is, 0: arrays of numbers."""

    rows: Sequence[Int64s]
    told: Sequence[Int64s]
    decoders: Sequence[Decode]
    bits: int

    def stored(self, numbers: Int64s) -> Stored:
        numbers = numbers[order_of_numbers(self.rows[0][numbers])]
        groups, *codes = (each[numbers] for each in self.rows)
        values = [decode(each) for decode, each in zip(self.decoders, codes, strict=True)]
        told = [each[numbers] for each in self.told]
        if self.bits:
            return Stored(groups, values, [pa.array(told[0] >> n & 1 != 0) for n in range(self.bits)])
        return Stored(groups, values, [pa.array(each) for each in told])


class ValueSet:
    """The values of one of a plan's sets. Told of each is, where rows only come, a bit for each aggregate in
    one array; else an array for each aggregate, with a number of rows.
    """

    def __init__(self, plan: DistinctValues) -> None:
        self._plan, self._bits = plan, plan.weight is None
        self._codes = [ValueCodes(each.type) for each in plan.values]
        self._begin()
        self._log: list[Int64s] | None = None

    def _begin(self) -> None:
        self._rows = NumberedRows(len(self._codes) + 1)
        self._told = [np.zeros(1 << 10, np.int64) for _ in range(1 if self._bits else len(self._plan.told))]
        self._there = 0  # values of which something is told, if it is numbers

    @property
    def count(self) -> int:
        """How many values there are, those that are gone among them whose places are not freed yet."""
        return self._rows.count

    def begin_log(self) -> None:
        """Remember from now on what changes, for `take_log`."""
        self._log = []

    def add(self, groups: Int64s, values: Sequence[pa.Array], told: Sequence[Int64s]) -> list[Turn]:
        """Add values of groups, by number, with what is told of each; return what changes by aggregate."""
        numbers = self._numbers(
            [groups, *(code.of(each) for code, each in zip(self._codes, values, strict=True))]
        )
        return self._seen(numbers, told[0]) if self._bits else self._counted(numbers, told)

    def _numbers(self, columns: Sequence[Int64s]) -> Int64s:
        numbers = self._rows.of(columns)
        if self._rows.count > len(self._told[0]):
            size = max(self._rows.count, 2 * len(self._told[0]))
            self._told = [grown(each, size) for each in self._told]
        return numbers

    def _seen(self, numbers: Int64s, bits: Int64s) -> list[Turn]:
        (told,) = self._told
        fresh = bits & ~told[numbers]
        rows = np.flatnonzero(fresh)
        if not len(rows):
            return [Turn(rows, rows)] * len(self._plan.told)
        # A value may be there in several rows.
        order, same = sorted_by([numbers[rows]])
        starts = np.flatnonzero(~same)
        fresh = np.bitwise_or.reduceat(fresh[rows[order]], starts)
        rows = rows[order[starts]]
        told[numbers[rows]] |= fresh
        self._note(numbers[rows])
        turns = [rows[fresh & (1 << place) != 0] for place in range(len(self._plan.told))]
        return [Turn(each, np.ones(len(each), np.int64)) for each in turns]

    def _counted(self, numbers: Int64s, more: Sequence[Int64s]) -> list[Turn]:
        order, same = sorted_by([numbers])
        first = order[~same]
        touched = numbers[first]
        self._note(touched)
        turns, known = [], np.count_nonzero(self._any(touched))
        for told, weights in zip(self._told, more, strict=True):
            before = told[touched] > 0
            np.add.at(told, numbers, weights)
            by = (told[touched] > 0).astype(np.int64) - before
            turns.append(Turn(first[by != 0], by[by != 0]))
        self._there += int(np.count_nonzero(self._any(touched)) - known)
        return turns

    def _any(self, numbers: Int64s) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.logical_or.reduce([each[numbers] != 0 for each in self._told])
        return found

    def _note(self, numbers: Int64s) -> None:
        if self._log is not None and len(numbers):
            self._log.append(numbers)

    def put(self, stored: Stored) -> None:
        """Take over stored values; a later row of a value holds."""
        codes = [code.of(each) for code, each in zip(self._codes, stored.values, strict=True)]
        numbers = self._numbers([stored.groups, *codes])
        columns = [each.cast(pa.int64()).fill_null(0).to_numpy() for each in stored.told]
        if self._bits:
            columns = [reduce(np.bitwise_or, (each << place for place, each in enumerate(columns)))]
        touched = distinct(numbers)
        known = np.count_nonzero(self._any(touched))
        for told, mine in zip(self._told, columns, strict=True):
            told[numbers] = mine
        self._there += int(np.count_nonzero(self._any(touched)) - known)

    def _frozen(self) -> _Frozen:
        decoders = [each.decoder() for each in self._codes]
        return _Frozen(self._rows.columns, self._told, decoders, len(self._plan.told) if self._bits else 0)

    def view(self) -> Callable[[], Iterator[Stored]]:
        """Return what gives the values as they are now, for a snapshot; later changes do not reach it."""
        now = self._frozen()
        now = now._replace(told=[each[: self.count].copy() for each in now.told])

        def parts() -> Iterator[Stored]:
            there = np.flatnonzero(np.logical_or.reduce([each != 0 for each in now.told]))
            for start in range(0, len(there), _ROWS_TOGETHER):
                yield now.stored(there[start : start + _ROWS_TOGETHER])

        return parts

    def take_log(self) -> list[Stored]:
        """Return the values of which something else is told since the last call, or since `begin_log`."""
        if not self._log:
            return []
        numbers = distinct(np.concatenate(self._log))
        self._log = []
        found = self._frozen().stored(numbers)
        self.free()
        return [found]

    def free(self) -> None:
        """Free the places of values that are gone, if these are many; a log that was not taken forbids it."""
        if self._bits or self._log or self.count - self._there < max(_GONE_MIN, self.count // 2):
            return
        every = np.arange(self.count)
        kept = self._frozen().stored(every[self._any(every)])
        self._codes = [ValueCodes(each.type) for each in self._plan.values]
        self._begin()
        self.put(kept)
