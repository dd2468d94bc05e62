"""The AggregateFunction contract, and checks of the functions given to reducing and aggregating states."""

from __future__ import annotations

import inspect
import typing
from abc import ABC, abstractmethod
from typing import Any, Generic, get_type_hints

import typing_extensions
from typing_extensions import TypeVar

from headgate.api.declared.declarations import generic_arguments
from headgate.common.errors import PlanError
from headgate.common.hints import Hint

IN = TypeVar("IN", default=Any, contravariant=True)
ACC = TypeVar("ACC", default=Any)
OUT = TypeVar("OUT", default=Any, covariant=True)


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """Folds values of one type into an accumulator, and computes a result from the accumulator.

    Only the accumulator is stored. One instance serves all keys, so it keeps nothing in itself.

    The accumulator's type is that of the annotation ``create_accumulator(self) -> ...``, else the second type
    argument of the base class. Where neither is given, ``Any``: numbers, text, dates, containers of these.

    Example:
        >>> import headgate as hg
        >>> class Average(hg.AggregateFunction[float, tuple[int, float], float]):
        ...     def create_accumulator(self) -> tuple[int, float]:
        ...         return 0, 0.0
        ...     def add(self, value, accumulator):
        ...         count, total = accumulator
        ...         return count + 1, total + value
        ...     def get_result(self, accumulator):
        ...         count, total = accumulator
        ...         return total / count
        >>> average = Average()
        >>> average.get_result(average.add(5.0, average.add(2.0, average.create_accumulator())))
        3.5
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return an accumulator without values; if it can be changed in place, a new one at each call."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator with `value` added: a new one, or the given one changed in place.

        Never None: a function that changes in place must return the accumulator, too.
        """

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result so far; must leave the accumulator as it is, as it may be called many times."""


def check_reduce(reduce: object, site: str) -> None:
    """Raise PlanError unless `reduce` can be called with two values, and is no AggregateFunction; a builtin
    that does not tell its arguments passes. `site` is file and line of the declaration, for the message.
    """
    what = _name(reduce)
    if not callable(reduce) or isinstance(reduce, AggregateFunction):
        raise PlanError(f"reducing_state() at {site} got {what}; expected a function of two values")
    try:
        inspect.signature(reduce).bind(None, None)
    except ValueError:  # a builtin that does not tell its arguments
        return
    except TypeError:
        raise PlanError(
            f"reducing_state() at {site} got {what}, which does not take two values; expected a function "
            "of what was reduced so far and the value to add"
        ) from None


def check_aggregate(function: object, site: str) -> None:
    """Raise PlanError, naming the line `site`, unless `function` is an instance of `AggregateFunction`."""
    if isinstance(function, AggregateFunction):
        return
    what = _name(function)
    if isinstance(function, type) and issubclass(function, AggregateFunction):
        raise PlanError(f"aggregating_state() at {site} got the class {what}; pass an instance: {what}()")
    raise PlanError(f"aggregating_state() at {site} got {what}; expected an AggregateFunction")


def accumulator_type(function: AggregateFunction[Any, Any, Any], site: str) -> Hint:
    """Return the accumulator's type that the function's class declares, ``Any`` where it does not.
    PlanError, naming the state's line `site`, if the annotation cannot be read or is None.
    """
    cls = type(function)
    try:
        hint = get_type_hints(cls.create_accumulator, include_extras=True).get("return", ACC)
    except (NameError, TypeError) as error:
        raise PlanError(
            f"the state declared at {site} cannot tell its accumulator's type: the annotation of "
            f"{cls.__qualname__}.create_accumulator() cannot be read ({error}); import the type at the top "
            "of the module, or declare aggregating_state(..., accumulator=...)"
        ) from None
    if hint is type(None):
        raise PlanError(
            f"the state declared at {site} has no accumulator: {cls.__qualname__}.create_accumulator() is "
            "annotated to return None; annotate it with the accumulator's type"
        )
    if not _is_open(hint):
        return hint
    arguments = generic_arguments(cls, AggregateFunction)
    return Any if arguments is None or _is_open(arguments[1]) else arguments[1]


def _is_open(hint: Hint) -> bool:
    if isinstance(hint, (typing.TypeVar, typing_extensions.TypeVar)):
        return True
    return bool(getattr(hint, "__parameters__", ())) and not isinstance(hint, type)


def _name(thing: object) -> str:
    return getattr(thing, "__qualname__", None) or repr(thing)
