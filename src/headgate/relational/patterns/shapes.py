"""What a pattern looks like: variables in sequence, as alternatives, repeated; pure data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from headgate.common.errors import PlanError


@dataclass(frozen=True, slots=True)
class Variable:
    """One row for which the condition of variable `name` is true."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Series:
    """Parts that follow each other without a row between them."""

    parts: tuple[Shape, ...]

    def __str__(self) -> str:
        return f"({' '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Either:
    """One of several parts; earlier ones are preferred."""

    options: tuple[Shape, ...]

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part `low` to `high` times (None: no limit); as often as possible if `greedy`, else as rarely."""

    part: Shape
    low: int
    high: int | None
    greedy: bool = True

    def __str__(self) -> str:
        low, high = self.low, self.high
        short: dict[tuple[int, int | None], str] = {(0, 1): "?", (0, None): "*", (1, None): "+"}
        long = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
        times = short.get((low, high), long)
        return f"{self.part}{times}{'' if self.greedy else '?'}"


Shape: TypeAlias = Variable | Series | Either | Repeat
"""A pattern, or a part of one."""


class Skip(StrEnum):
    """Where the search goes on after a match."""

    PAST_LAST_ROW = "past last row"
    TO_NEXT_ROW = "to next row"
    TO_FIRST = "to first"
    TO_LAST = "to last"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, in which time, and where the search goes on.

    Attributes:
        within_ms: the last row's event time minus the first one's is less than so many ms; None: any time.
        skip: after a match.
        skip_to: the variable, where `skip` needs one.
    """

    shape: Shape
    within_ms: int | None = None
    skip: Skip = Skip.PAST_LAST_ROW
    skip_to: str | None = None

    def __str__(self) -> str:
        shape = str(self.shape)
        shape = shape[1:-1] if isinstance(self.shape, Series) else shape
        within = "" if self.within_ms is None else f" within {self.within_ms} ms"
        to = "" if self.skip_to is None else f" {self.skip_to}"
        return f"({shape}){within}, after a match skip {self.skip}{to}"


ROWS_MAX: Final = 1_000
"""So many single rows a pattern may spell out; A{200} spells out 200."""


def variables_of(shape: Shape) -> list[str]:
    """Return the names of a pattern's variables, each once, in the order in which they are written."""
    return list(dict.fromkeys(_variables(shape)))


def _variables(shape: Shape) -> Iterator[str]:
    match shape:
        case Variable():
            yield shape.name
        case Repeat():
            yield from _variables(shape.part)
        case Series(parts) | Either(parts):
            for part in parts:
                yield from _variables(part)


def may_be_empty(shape: Shape) -> bool:
    """Return whether a part can match without a row."""
    match shape:
        case Variable():
            return False
        case Repeat():
            return shape.low == 0 or may_be_empty(shape.part)
        case Series():
            return all(map(may_be_empty, shape.parts))
        case Either():
            return any(map(may_be_empty, shape.options))


def check_shape(shape: Shape) -> None:
    """Raise PlanError if a pattern can match without a row, repeats a part that can, or is too long."""
    if may_be_empty(shape):
        raise PlanError(
            f"the pattern {shape} can match without any row; let one of its parts be there always"
        )
    _check_repeats(shape)
    if (length := _length(shape)) > ROWS_MAX:
        raise PlanError(f"the pattern spells out {length:,} rows; {ROWS_MAX:,} are allowed")


def _check_repeats(shape: Shape) -> None:
    match shape:
        case Repeat():
            if shape.high == 0 or (shape.high is not None and shape.high < shape.low):
                raise PlanError(f"{shape} repeats at most {shape.high} times, and at least {shape.low}")
            if may_be_empty(shape.part):
                raise PlanError(f"{shape} repeats what can match without any row; write A* rather than (A?)*")
            _check_repeats(shape.part)
        case Series(parts) | Either(parts):
            for part in parts:
                _check_repeats(part)


def _length(shape: Shape) -> int:
    match shape:
        case Variable():
            return 1
        case Repeat():
            return _length(shape.part) * (max(shape.low + 1, 1) if shape.high is None else shape.high)
        case Series(parts) | Either(parts):
            return sum(map(_length, parts))
