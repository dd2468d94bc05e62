"""Plan nodes of joins by time: which rows are partners depends on their keys and their event times."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN, format_ms
from headgate.relational.joins.equal_joins import ODD_KEYS, by_keys, in_parts
from headgate.relational.relations import JoinKind, Relation
from headgate.relational.resolved import Typed
from headgate.relational.schema import Schema

MATCHED: Final = "__matched"
"""Name of the column of an interval join's stored rows that says whether the row has had a partner."""

TIMED: Final = "rows"
"""Name of the keyed state of a join by time: (event time in ms, number) -> a row of either side."""

Direction: TypeAlias = Literal["backward", "forward", "nearest"]


@dataclass(frozen=True, slots=True)
class TimedJoin(Relation):
    """Base class of joins by time. Each side's time is the event time of its rows.

    Attributes:
        left: has the columns of both tables, null for those of the right one; `SIDE` is 0.
        right: the other input, of the same columns; `SIDE` is 1.
        keys: names of the columns that are equal, `ODD_KEYS` last.
        how: which rows come out: "inner", "left", "right", "full", "semi" or "anti", as in SQL.
        uid: by which a later program finds the state; None: none was given.
    """

    left: Relation
    right: Relation
    keys: tuple[str, ...]
    how: JoinKind
    uid: str | None

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The names of the equal columns that the program gave."""
        return tuple(name for name in self.keys if name != ODD_KEYS)

    @property
    def delay_ms(self) -> int:
        """By how many ms the watermark of the result lags behind that of the input."""
        return 0

    @property
    def keeps_last_rows(self) -> bool:
        """Whether a row of each key is kept for as long as the job runs."""
        return False

    @property
    @abstractmethod
    def stored_name(self) -> str:
        """Name of the stored rows' type, by which joins that keep other rows are told apart."""

    def sent_on(self, watermark: int) -> int:
        """Return the watermark of the result when that of the input is `watermark` (ms)."""
        if watermark in (WATERMARK_MIN, WATERMARK_MAX):
            return watermark
        return max(watermark - self.delay_ms, WATERMARK_MIN)

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield the lines in which `explain()` tells what is joined, and what is kept for how long."""


@dataclass(frozen=True, slots=True)
class IntervalJoin(TimedJoin):
    """Pairs of rows with equal keys whose times are close: right's time minus left's is in an interval.

    Attributes:
        lower_ms: the least difference of a pair, in ms; may be negative.
        upper_ms: the greatest one; both bounds are within the interval.
        pairs: the columns of a pair, to which `where` refers.
        where: what else has to be true of a pair; None: nothing.
        parts: how many parts each key is split into; then `PART` is one of `keys`.
    """

    lower_ms: int
    upper_ms: int
    pairs: Schema
    where: Typed | None = None
    parts: int = 1

    @property
    def kept_ms(self) -> tuple[int, int]:
        """For how many ms after its own time a row may get partners that are in time: left, right."""
        return self.upper_ms, -self.lower_ms

    @property
    def time_of(self) -> int:
        """The side whose event time that of a result is: 0 left, 1 right."""
        return int(self.how == "right")

    @property
    def delay_ms(self) -> int:
        kept = self.kept_ms
        return max(0, *(kept if self.how == "full" else kept[self.time_of : self.time_of + 1]))

    @property
    def stored_name(self) -> str:
        bounds = (f"{'minus_' if each < 0 else ''}{abs(each)}ms" for each in (self.lower_ms, self.upper_ms))
        return f"Interval_from_{'_to_'.join(bounds)}{in_parts(self.parts, '_')}"

    def lines(self) -> Iterator[str]:
        bounds = [
            f"{'-' if each < 0 else '+'}{format_ms(abs(each))}" for each in (self.lower_ms, self.upper_ms)
        ]
        also = "" if self.where is None else f" where {self.where}"
        keys = by_keys(self.shown_keys, self.parts)
        yield f"interval join, {self.how}, by {keys}: right's time within left's {' .. '.join(bounds)}{also}"
        left, right = (format_ms(max(0, each)) for each in self.kept_ms)
        yield f"keeps rows until the watermark has passed them: left by {left}, right by {right}"
        if self.delay_ms:
            yield f"delays the watermark by {format_ms(self.delay_ms)}"


@dataclass(frozen=True, slots=True)
class AsOfJoin(TimedJoin):
    """For each left row the one right row of its key that is the last one before it, or the next, or nearest.

    Attributes:
        direction: where the partner is: "backward" earlier, "forward" later, "nearest" the closer of both.
        tolerance_ms: how far at most, in ms; None: any distance, which only "backward" has.
        exact: whether a row of the same time is a partner.
    """

    direction: Direction
    tolerance_ms: int | None
    exact: bool

    @property
    def waits_ms(self) -> int:
        """By how many ms the watermark must have passed a left row for its partner to be known."""
        return 0 if self.direction == "backward" else self.tolerance_ms or 0

    @property
    def delay_ms(self) -> int:
        return self.waits_ms

    @property
    def keeps_last_rows(self) -> bool:
        return self.tolerance_ms is None

    @property
    def kept_ms(self) -> int | None:
        """For how many ms of event time a right row is kept; None: until a later one replaces it."""
        return None if self.tolerance_ms is None else self.tolerance_ms + self.waits_ms

    @property
    def stored_name(self) -> str:
        far = "any_distance" if self.tolerance_ms is None else f"{self.tolerance_ms}ms"
        return f"As_of_{self.direction}_up_to_{far}"

    def lines(self) -> Iterator[str]:
        far = "" if self.tolerance_ms is None else f" by at most {format_ms(self.tolerance_ms)}"
        yield f"as-of join, {self.how}, by {', '.join(self.shown_keys)}: right's row {self.direction}{far}"
        waits = f" by {format_ms(self.waits_ms)}" if self.waits_ms else ""
        last = "" if self.direction != "backward" else "the last right row of each key, and later ones"
        if self.kept_ms is not None:
            last = f"{last}{', ' if last else 'right rows '}until the watermark has passed them by "
            last += format_ms(self.kept_ms)
        yield f"keeps left rows until the watermark has passed them{waits}; {last}"
        if self.delay_ms:
            yield f"delays the watermark by {format_ms(self.delay_ms)}"
