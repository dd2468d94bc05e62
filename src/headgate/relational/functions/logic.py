"""Rules of truth values: `and`, `or`, `not`, where null is unknown; the first operand may decide alone."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.resolved import Values
from headgate.relational.rules import Rule, add, exactly

FAMILY: Final = "logic"
_BOOL: Final = pa.bool_()


def _and(_result: pa.DataType, left: Values, right: Values) -> Values:
    return pc.and_kleene(left, right)


def _or(_result: pa.DataType, left: Values, right: Values) -> Values:
    return pc.or_kleene(left, right)


def _not(_result: pa.DataType, value: Values) -> Values:
    return pc.invert(value)


add(Rule("and", FAMILY, exactly((_BOOL, _BOOL), _BOOL), _and, "two conditions"))
add(Rule("or", FAMILY, exactly((_BOOL, _BOOL), _BOOL), _or, "two conditions"))
add(Rule("not", FAMILY, exactly((_BOOL,), _BOOL), _not, "a condition"))
