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
    """A function of columns in the registry. `takes` says in words which arguments it expects.

    Attributes:
        family: group of functions; in "arithmetic" integer constants beside decimals become decimals.
        judge: chooses types of arguments and result; `kernel` computes the result's values.
        fails: whether the kernel raises `RowsFailed` for some values.
        refine: looks at the arguments after `judge`; None: there is no need.
        choice: makes a `Choice` by the first argument, where another one may fail, so that each is evaluated
            only for rows that get it. None: all rows need all of them.
        costly: whether it is so slow that it is evaluated only for rows that need it, though it never fails.
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
"""Other name of a function -> its name in `RULES`."""


def rule(
    name: str, family: str, judge: Judge, takes: str, *, fails: bool = False
) -> Callable[[Kernel], Kernel]:
    """Return a decorator that registers a kernel by `name` (AssertionError: taken); others as of `Rule`."""

    def register(kernel: Kernel) -> Kernel:
        add(Rule(name, family, judge, kernel, takes, fails))
        return kernel

    return register


def add(made: Rule) -> None:
    """Add a rule to `RULES`; AssertionError if a rule of this name is there."""
    assert made.name not in RULES, f"function {made.name!r} has two rules"
    RULES[made.name] = made


# -- judges that many functions share


def exactly(arguments: Sequence[pa.DataType], result: pa.DataType, *, nullable: bool | None = None) -> Judge:
    """Return a judge for functions that take `arguments`, or what Spark converts to them by itself."""
    wanted = tuple(arguments)

    def judge(given: Types) -> Signature | None:
        fits = len(given) == len(wanted) and all(map(converts_by_itself, given, wanted))
        return Signature(wanted, result, nullable) if fits else None

    return judge


def either(*judges: Judge) -> Judge:
    """Return a judge that asks `judges` in turn, and returns the first signature; None if none has one."""

    def judge(given: Types) -> Signature | None:
        return next((found for one in judges if (found := one(given)) is not None), None)

    return judge


def converts_by_itself(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Spark converts a value of type `given` to `wanted` without a cast in the program.
    As in ANSI mode: between numbers (a misfit is an error of its row), between times, from null, from all but
    nested types and binary to text, and from text to all but nested types.
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
    """Return the value of the argument at index `place` of a call, which must be a constant.

    Raises:
        PlanError: it is no constant; the message calls it `what`.
    """
    found = arguments[place]
    if not isinstance(found, Constant):
        raise PlanError(f"{what} must be a constant, such as a literal; got {found}")
    return found.value
