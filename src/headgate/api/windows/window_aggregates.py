"""Aggregates of windows of rows, as `aggregate()` takes them: their accumulators and results.

They follow the aggregates of columns (`relational.aggregates`): null does not count, whole numbers are of 64
bits, NaN is above all numbers.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, MutableSequence
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeAlias

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint

Kept: TypeAlias = "MutableSequence[Any]"
"""The accumulators of all aggregates of one call, for one window; each aggregate has its places there."""

INT64_MAX: Final = 2**63 - 1

_EXACT: Final = decimal.Context(prec=76)


class Aggregate(ABC):
    """An aggregate of the records of a window; `count()`, `sum("price")` and their like make one.

    Attributes:
        what: the field of which it is computed, or a function of the record; None: of records as such.
        name: of the function, such as "sum".
        keeps: name and type of each accumulator, by which savepoints hold it.
        start: the accumulators before the first record.
    """

    name: ClassVar[str]
    keeps: ClassVar[tuple[tuple[str, Hint], ...]]
    start: ClassVar[tuple[Any, ...]] = (None,)

    def __init__(self, what: str | Callable[[Any], Any] | None) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"{self.name}({'' if self.what is None else repr(self.what)})"

    @abstractmethod
    def add(self, kept: Kept, at: int, value: Any) -> None:
        """Add a record's value to its window's accumulators, those in `kept` from place `at` on, in place.
        `value` is never None; True where `what` is None. TypeError: it is of a type that has no such result.
        """

    @abstractmethod
    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        """Add a later window's accumulators, in `other` from `at` on, to those in `kept` from `at` on."""

    def result(self, kept: Kept, at: int) -> Any:
        """Return the result of the accumulators in `kept` from `at` on; OverflowError beyond 64 bits."""
        return kept[at]


class _Count(Aggregate):
    name = "count"
    keeps = (("count", int),)
    start = (0,)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        kept[at] += 1

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        kept[at] += other[at]


class _Sum(Aggregate):
    name = "sum"
    keeps = (("sum", Any),)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        kept[at] = plus(kept[at], number(self, value))

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        if other[at] is not None:
            kept[at] = plus(kept[at], other[at])

    def result(self, kept: Kept, at: int) -> Any:
        total = kept[at]
        if isinstance(total, int) and not -INT64_MAX - 1 <= total <= INT64_MAX:
            raise OverflowError(f"{self} is {total}, beyond the 64 bits of a sum of whole numbers")
        return total


class _Extreme(Aggregate):
    keeps = (("best", Any),)
    greatest: ClassVar[bool]

    def add(self, kept: Kept, at: int, value: Any) -> None:
        best = kept[at]
        if best is None or self._better(value, best):
            kept[at] = value

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        if other[at] is not None:
            self.add(kept, at, other[at])

    def _better(self, value: Any, best: Any) -> bool:
        # NaN is above all numbers.
        if is_nan(value) or is_nan(best):
            return is_nan(value) if self.greatest else is_nan(best)
        try:
            return bool(value > best if self.greatest else value < best)
        except TypeError:
            raise TypeError(
                f"{self} got values of the types {type(best).__name__} and {type(value).__name__}, which "
                "have no order; make one type of them with map() before"
            ) from None


class _Min(_Extreme):
    name = "min"
    greatest = False


class _Max(_Extreme):
    name = "max"
    greatest = True


class _Avg(Aggregate):
    name = "avg"
    keeps = (
        ("sum", Any),
        ("count", int),
    )
    start = (None, 0)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        found = number(self, value)
        kept[at] = plus(kept[at], found if isinstance(found, Decimal) else float(found))
        kept[at + 1] += 1

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        if other[at] is not None:
            kept[at] = plus(kept[at], other[at])
            kept[at + 1] += other[at + 1]

    def result(self, kept: Kept, at: int) -> Any:
        total, count = kept[at], kept[at + 1]
        if not count:
            return None
        if not isinstance(total, Decimal):
            return total / count
        # Four digits more than the values have, as for columns.
        exponent = total.as_tuple().exponent
        places = Decimal(1).scaleb(exponent - 4 if isinstance(exponent, int) else 0)
        mean = _EXACT.divide(total, Decimal(count))
        return mean.quantize(places, decimal.ROUND_HALF_UP, context=_EXACT)


class _First(Aggregate):
    name = "first"
    keeps = (("first", Any),)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        if kept[at] is None:
            kept[at] = value

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        self.add(kept, at, other[at])


class _Last(Aggregate):
    name = "last"
    keeps = (("last", Any),)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        kept[at] = value

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        if other[at] is not None:
            kept[at] = other[at]


class _CollectList(Aggregate):
    name = "collect_list"
    keeps = (("list", list[Any] | None),)

    def add(self, kept: Kept, at: int, value: Any) -> None:
        self._extend(kept, at, [value])

    def merge(self, kept: Kept, at: int, other: Kept) -> None:
        self._extend(kept, at, other[at] or ())

    def _extend(self, kept: Kept, at: int, values: Iterable[Any]) -> None:
        # A list belongs to the state, which hands it out to be changed.
        if kept[at] is None:
            kept[at] = list(values)
        else:
            kept[at].extend(values)

    def result(self, kept: Kept, at: int) -> Any:
        return list(kept[at] or ())


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def plus(left: Any, right: Any) -> Any:
    """Return `left` + `right`, exact for decimals; `right` if `left` is None. TypeError: Decimal + float."""
    if left is None:
        return right
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _EXACT.add(left, right)
    return left + right


def number(aggregate: Aggregate, value: Any) -> Any:
    """Return `value`; TypeError, naming the aggregate, if it is no int, float or Decimal."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(
            f"{aggregate} got {value!r} of type {type(value).__name__}; expected a number or None"
        )
    return value


def count(what: str | Callable[[Any], Any] | None = None) -> Aggregate:
    """Return the aggregate that counts records, or those with a value.

    Args:
        what: a field, or a function of the record: count where it is not None. None: count all records.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.count(), hg.count("price")
        (count(), count('price'))
    """
    return _Count(None if what is None or what == "*" else _checked("count", what))


def sum(what: str | Callable[[Any], Any]) -> Aggregate:  # noqa: A001  # PySpark's name
    """Return the aggregate that adds numbers up; its result is None if there is none.

    Args:
        what: a field, or a function of the record; a value but None or a number fails the job.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.sum("price")
        sum('price')
    """
    return _Sum(_checked("sum", what))


def min(what: str | Callable[[Any], Any]) -> Aggregate:  # noqa: A001
    """Return the aggregate that finds the least value; its result is None if there is none.

    Args:
        what: a field, or a function of the record; values that cannot be compared fail the job.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.min("price")
        min('price')
    """
    return _Min(_checked("min", what))


def max(what: str | Callable[[Any], Any]) -> Aggregate:  # noqa: A001
    """Return the aggregate that finds the greatest value; its result is None if there is none.

    Args:
        what: a field, or a function of the record; values that cannot be compared fail the job.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.max("price")
        max('price')
    """
    return _Max(_checked("max", what))


def avg(what: str | Callable[[Any], Any]) -> Aggregate:
    """Return the aggregate that computes the mean of numbers; its result is None if there is none.

    Args:
        what: a field, or a function of the record; a value but None or a number fails the job.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.avg("price")
        avg('price')
    """
    return _Avg(_checked("avg", what))


def first(what: str | Callable[[Any], Any]) -> Aggregate:
    """Return the aggregate that keeps the first value that arrives and is not None.

    Sessions that become one keep the value of the earlier session.

    Args:
        what: a field, or a function of the record.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.first("price")
        first('price')
    """
    return _First(_checked("first", what))


def last(what: str | Callable[[Any], Any]) -> Aggregate:
    """Return the aggregate that keeps the last value that arrives and is not None.

    Sessions that become one keep the value of the later session.

    Args:
        what: a field, or a function of the record.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.last("price")
        last('price')
    """
    return _Last(_checked("last", what))


def collect_list(what: str | Callable[[Any], Any]) -> Aggregate:
    """Return the aggregate that lists the values that are not None, in order of arrival.

    The list is one value of state, so it is for short lists; `process()` keeps records one by one.

    Args:
        what: a field, or a function of the record.

    Raises:
        PlanError: `what` is neither text nor a function.

    Example:
        >>> import headgate as hg
        >>> hg.collect_list("price")
        collect_list('price')
    """
    return _CollectList(_checked("collect_list", what))


def _checked(verb: str, what: Any) -> str | Callable[[Any], Any]:
    if what and isinstance(what, str):
        return what
    if callable(what):
        function: Callable[[Any], Any] = what
        return function
    raise PlanError(
        f"{verb}() ({user_site()}) got {what!r} of type {type(what).__name__}; expected the name of a field "
        "or a function of the record"
    )
