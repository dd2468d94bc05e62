"""Conditions as plain Python functions, for the few rows of a key that is far longer than the others.

Only what means the same in Python as in Arrow is made so: comparisons, conditions, sums and differences of
whole numbers, times and texts, and aggregates of these. Everything else is computed by Arrow's kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from headgate.relational.aggregates import Aggregate
from headgate.relational.patterns.navigation import LookedUp
from headgate.relational.patterns.remembered_rows import NO_ROW, Memories, Memory
from headgate.relational.resolved import Apply, Choice, Column, Constant, Conversion, Typed

Value: TypeAlias = "bool | int | float | str | None"
"""A value of a row; times are numbers."""
Computed: TypeAlias = Callable[[int, Memory], Value]
"""Returns a value for a row, by its number, and what it remembers."""


class NotSure(Exception):  # no error: Arrow's kernels are asked instead
    """Python does not know the value, or that it would be an error."""


class Cells(Protocol):
    """Values of rows."""

    def value(self, column: int, row: int) -> Value:
        """Return the value of a column in a row, by its number."""


def in_python(
    expression: Typed, width: int, looked_up: tuple[LookedUp, ...], memories: Memories, cells: Cells
) -> Computed | None:
    """Return an expression as a function; None: it has a part that is left to Arrow."""
    return _Maker(width, looked_up, memories, cells).made(expression)


def is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type are handled here."""
    tests = (
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_timestamp,
        pa.types.is_date32,
    )
    return any(is_one(kind) for is_one in tests)


_COMPARED: Final[dict[str, Callable[..., bool]]] = {
    "=": operator.eq, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_BOUNDS: Final = {pa.int32(): 2**31, pa.int64(): 2**63}


class _Maker:
    def __init__(self, width: int, looked_up: tuple[LookedUp, ...], memories: Memories, cells: Cells) -> None:
        self._width, self._looked_up, self._memories, self._cells = width, looked_up, memories, cells

    def made(self, part: Typed) -> Computed | None:
        match part:
            case Column() if part.index < self._width:
                index, value = part.index, self._cells.value
                return (lambda row, _: value(index, row)) if is_plain(part.type) else None
            case Column():
                return self._of_other_row(self._looked_up[part.index - self._width])
            case Constant() if pa.types.is_float64(part.type) or is_plain(part.type):
                constant = _plain_scalar(part.value)
                return None if constant != constant else lambda _row, _memory: constant
            case Conversion():
                return self._converted(part)
            case Choice():
                return self._choice(part)
            case Apply(tolerant=False):
                inner = [self.made(each) for each in part.arguments]
                known = [each for each in inner if each is not None]
                return _applied(part, known) if len(known) == len(inner) else None
        return None

    def _converted(self, part: Conversion) -> Computed | None:
        inner, whole = self.made(part.child), pa.types.is_integer
        if inner is None or not whole(part.child.type) or not part.safe:
            return None
        if whole(part.type):
            return inner
        if part.type == pa.float64():
            return lambda row, memory: None if (value := inner(row, memory)) is None else float(value)
        return None

    def _choice(self, part: Choice) -> Computed | None:
        made = [self.made(each) for each in part.inner]
        known = [each for each in made if each is not None]
        if len(known) < len(made):
            return None
        branches, otherwise = list(zip(known[:-1:2], known[1::2], strict=True)), known[-1]

        def chosen(row: int, memory: Memory) -> Value:
            for condition, value in branches:
                if condition(row, memory):
                    return value(row, memory)
            return otherwise(row, memory)

        return chosen

    def _of_other_row(self, each: LookedUp) -> Computed | None:
        if each.aggregate is not None:
            return self._aggregated(each, each.aggregate)
        assert each.value is not None
        value = self.made(each.value)
        find = self._memories.first if each.kind == "first" else self._memories.last
        variable, offset = each.variable, each.offset
        if value is None:
            return None
        return lambda _, memory: (
            None if (found := find(memory, variable, offset)) == NO_ROW else value(found, memory)
        )

    def _aggregated(self, each: LookedUp, aggregate: Aggregate) -> Computed | None:
        arguments = [self.made(argument) for argument in aggregate.arguments]
        finish = _AGGREGATES.get(aggregate.function)
        rows, variable = self._memories.rows, each.variable
        if not arguments and aggregate.function == "count":
            return lambda _, memory: len(rows(memory, variable))
        if finish is None or len(arguments) != 1 or (argument := arguments[0]) is None:
            return None
        return lambda _, memory: finish(
            [value for row in rows(memory, variable) if (value := argument(row, memory)) is not None]
        )


def _plain_scalar(scalar: pa.Scalar) -> Value:
    if pa.types.is_temporal(scalar.type):
        value: Value = scalar.value
        return value
    return scalar.as_py()  # type: ignore[no-any-return]


def _applied(part: Apply, inner: list[Computed]) -> Computed | None:
    if part.function in _COMPARED and len(inner) == 2:
        return _compared(_COMPARED[part.function], *inner)
    match part.function, inner:
        case "and" | "or", [one, two]:
            return _joined(one, two, decides=part.function == "or")
        case "not", [one]:
            return lambda row, memory: None if (value := one(row, memory)) is None else not value
        case "isnull", [one]:
            return lambda row, memory: one(row, memory) is None
        case "isnotnull", [one]:
            return lambda row, memory: one(row, memory) is not None
        case "+" | "-", [one, two] if part.type in _BOUNDS:
            compute = operator.add if part.function == "+" else operator.sub
            return _bounded(compute, one, two, _BOUNDS[part.type])
    return None


def _compared(compare: Callable[..., bool], one: Computed, two: Computed) -> Computed:
    def compared(row: int, memory: Memory) -> Value:
        left, right = one(row, memory), two(row, memory)
        return None if left is None or right is None else compare(left, right)

    return compared


def _joined(one: Computed, two: Computed, *, decides: bool) -> Computed:
    def joined(row: int, memory: Memory) -> Value:
        left = one(row, memory)
        if left is decides:
            return decides
        right = two(row, memory)
        if right is decides:
            return decides
        return None if left is None or right is None else not decides

    return joined


def _bounded(compute: Callable[..., int], one: Computed, two: Computed, bound: int) -> Computed:
    def computed(row: int, memory: Memory) -> Value:
        left, right = one(row, memory), two(row, memory)
        if left is None or right is None:
            return None
        found = compute(left, right)
        if not -bound <= found < bound:
            raise NotSure
        return found

    return computed


def _sum(values: list[int]) -> Value:
    found = sum(values)
    if not -(2**63) <= found < 2**63:
        raise NotSure
    return found if values else None


_AGGREGATES: Final[dict[str, Callable[[list], Value]]] = {  # type: ignore[type-arg]
    "count": len,
    "sum": _sum,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "avg": lambda values: sum(map(float, values)) / len(values) if values else None,
}
"""Of the values that are not null."""
