"""The registry of functions: for each name its types, its kernel, and what it does with bad values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.resolved import Constant, Typed, Values

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

Refine = Callable[[Signature, Sequence[Typed]], Signature]
"""Looks at the arguments themselves, where types do not say all: at a pattern, at a number of digits.

Returns the signature, or a better one; raises PlanError for what the function cannot be called with.
"""

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

    Attributes:
        fails: whether the kernel raises `RowsFailed` for some values.
        refine: looks at the arguments after `judge`; None: there is no need.
        choice: the function as a choice by its first argument, where another one may fail: they are then
            evaluated for their own rows only. None: it needs all of them.
        costly: whether it pays to evaluate it only for rows that ask for it, although it does not fail.
    """

    name: str
    family: str
    judge: Judge
    kernel: Kernel
    takes: str
    fails: bool = False
    refine: Refine | None = None
    choice: Callable[[Sequence[Typed]], Typed] | None = None
    costly: bool = False


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
    "ceiling": "ceil",
    "sign": "signum",
    "pow": "power",
    "bitwiseNOT": "bitwise_not",
    "getbit": "bit_get",
    "shiftLeft": "shiftleft",
    "shiftRight": "shiftright",
    "shiftRightUnsigned": "shiftrightunsigned",
    "sha": "sha1",
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "char": "chr",
    "substr": "substring",
    "position": "locate",
    "printf": "format_string",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "dateadd": "date_add",
    "date_diff": "datediff",
    "datepart": "date_part",
    "extract": "date_part",
    "dayofmonth": "day",
    "cardinality": "size",
    "create_map": "map",
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


def exactly(arguments: Sequence[pa.DataType], result: pa.DataType, *, nullable: bool | None = None) -> Judge:
    """Return a judge of functions that take these types; what Spark converts by itself is converted."""
    wanted = tuple(arguments)

    def judge(given: Types) -> Signature | None:
        fits = len(given) == len(wanted) and all(map(converts_by_itself, given, wanted))
        return Signature(wanted, result, nullable) if fits else None

    return judge


def either(*judges: Judge) -> Judge:
    """Return a judge that asks several, and gives the first signature that one of them finds."""

    def judge(given: Types) -> Signature | None:
        return next((found for one in judges if (found := one(given)) is not None), None)

    return judge


def converts_by_itself(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a value is taken for one of another type without a cast in the program.

    As Spark's ANSI mode: between numbers (what does not fit is an error of the row), between times, from all
    but nested types to text, and from text to all but these.
    """
    from headgate.relational.spark_types import is_numeric

    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_string(wanted):
        return not pa.types.is_nested(given) and not pa.types.is_binary(given)
    if is_numeric(given) and is_numeric(wanted):
        return True
    if _is_time(given) and _is_time(wanted):
        return True
    return pa.types.is_string(given) and not pa.types.is_nested(wanted)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


# -- arguments that must be constants


def constant_of(arguments: Sequence[Typed], place: int, what: str) -> pa.Scalar:
    """Return the constant that stands at `place` of a call's arguments.

    Raises:
        PlanError: it is none; the message calls it `what`.
    """
    found = arguments[place]
    if not isinstance(found, Constant):
        raise PlanError(f"{what} must be a constant, such as a literal; got {found}")
    return found.value
