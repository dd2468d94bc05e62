"""Kinds of joins, and intervals of event time, as both tables and streams name them. It loads no Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from headgate.common.errors import PlanError
from headgate.common.time import duration_ms

if TYPE_CHECKING:
    from headgate.relational.relations import JoinKind

Within: TypeAlias = "str | int | tuple[str | int, str | int]"
"""An interval of event time: its bounds, or only the upper one, with 0 as the lower."""

KINDS: Final[dict[str, JoinKind]] = {
    "inner": "inner",
    "left": "left", "leftouter": "left",
    "right": "right", "rightouter": "right",
    "full": "full", "outer": "full", "fullouter": "full",
    "semi": "semi", "leftsemi": "semi",
    "anti": "anti", "leftanti": "anti",
}  # fmt: skip
"""PySpark's names of joins, without underscores -> the kind of join."""


def kind_of(where: str, how: str, kinds: Iterable[JoinKind] = tuple(KINDS.values())) -> JoinKind:
    """Return the kind of join that PySpark's word `how` means; PlanError, after `where`, if it is none of
    `kinds`.
    """
    kind = KINDS.get(str(how).lower().replace("_", ""))
    if kind is None or kind not in kinds:
        raise PlanError(f"{where}: how is {how!r}; expected one of {', '.join(sorted(set(kinds)))}")
    return kind


def bounds_of(where: str, within: Within) -> tuple[int, int]:
    """Return the bounds of an interval in ms; PlanError, after `where`, if it is none.

    Example:
        >>> bounds_of("join()", ("-5s", "1min")), bounds_of("join()", "5s")
        ((-5000, 60000), (0, 5000))
    """
    both = within if isinstance(within, tuple) else (0, within)
    if len(both) != 2:
        raise PlanError(f"{where} got within={within!r}; expected an upper bound, or (lower, upper)")
    try:
        lower, upper = (_signed_ms(each) for each in both)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from None
    if lower > upper:
        raise PlanError(f"{where} got within={within!r}, an interval without times; expected (lower, upper)")
    return lower, upper


def _signed_ms(bound: str | int) -> int:
    if isinstance(bound, str) and bound.lstrip().startswith("-"):
        return -duration_ms(bound.lstrip()[1:], "a bound of within")
    if isinstance(bound, int) and bound < 0:
        return bound
    return duration_ms(bound, "a bound of within")
