"""The registry of functions: for each name its types, what it does with nulls and bad values, and its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.relational.resolved import Values

Types = tuple[pa.DataType, ...]


class Signature(NamedTuple):
    """The types with which a function is called, and the type of its result.

    `nullable`: whether the result may be null; None: if an argument may be.
    """

    arguments: Types
    result: pa.DataType
    nullable: bool | None = None


Judge = Callable[[Types], Signature | None]
"""Chooses the signature for the types of given arguments; None: the function does not take these."""

Kernel = Callable[..., Values]
"""Computes the result, given its type and the arguments' values."""


class RowsFailed(Exception):
    """A kernel met a value that it cannot compute with.

    Attributes:
        condition: Spark's name of the error, such as "DIVIDE_BY_ZERO".
        why: a sentence for people, without the row.
    """

    def __init__(self, condition: str, why: str) -> None:
        super().__init__(condition, why)
        self.condition, self.why = condition, why


@dataclass(frozen=True)
class Rule:
    """A function of columns. `takes` says in words which arguments it expects.

    `fails`: whether the kernel raises `RowsFailed` for some values.
    """

    name: str
    family: str
    judge: Judge
    kernel: Kernel
    takes: str
    fails: bool = False


RULES: Final[dict[str, Rule]] = {}

ALIASES: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "equal_null": "<=>",
    "isNull": "isnull",
    "isNotNull": "isnotnull",
}
"""Other names of functions."""


def rule(
    name: str, family: str, judge: Judge, takes: str, *, fails: bool = False
) -> Callable[[Kernel], Kernel]:
    """Return a decorator that registers a kernel as the function `name`."""

    def register(kernel: Kernel) -> Kernel:
        add(Rule(name, family, judge, kernel, takes, fails))
        return kernel

    return register


def add(made: Rule) -> None:
    """Add a rule to the registry; a name is given once."""
    assert made.name not in RULES, f"function {made.name!r} has two rules"
    RULES[made.name] = made


# -- judges that many functions share


def exactly(arguments: Sequence[pa.DataType], result: pa.DataType) -> Judge:
    """Return a judge of functions that take these types; what Spark converts by itself is converted."""
    wanted = tuple(arguments)

    def judge(given: Types) -> Signature | None:
        fits = len(given) == len(wanted) and all(map(converts_by_itself, given, wanted))
        return Signature(wanted, result) if fits else None

    return judge


def converts_by_itself(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a value is taken for one of another type without a cast in the program."""
    from headgate.relational.column_types import common_type, is_numeric

    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_string(wanted):
        return not pa.types.is_nested(given) and not pa.types.is_binary(given)
    if is_numeric(given) and is_numeric(wanted):
        return bool(common_type(given, wanted) == wanted)
    return pa.types.is_string(given) and not pa.types.is_nested(wanted)
