"""Values by which rows are grouped: which values cannot be keys, and equal keys made equal in all bits."""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.resolved import Values


class NoKey(NamedTuple):
    """A value that cannot be a key, null or NaN: its name in messages, and the function that replaces it."""

    name: str
    filled_by: str


NULL: Final = NoKey("null", "coalesce()")
NAN: Final = NoKey("NaN", "nanvl()")


def no_keys(values: Values) -> tuple[NoKey, pa.BooleanArray] | None:
    """Return what of `values` cannot be a key, null or else NaN, and which rows have it; None: all can be.

    Null belongs to no key group, and NaN is not found again, as it does not equal itself.

    Example:
        >>> values = pa.array([1.5, float("nan")])
        >>> no_keys(values)[0].name
        'NaN'
        >>> no_keys(pa.array(["a", "b"])) is None
        True
    """
    nulls = pc.is_null(values)
    if _any(nulls):
        return NULL, nulls
    if pa.types.is_floating(values.type) and _any(found := pc.is_nan(values)):
        return NAN, found
    return None


def _any(found: Values) -> bool:
    return bool(pc.any(found).as_py()) if isinstance(found, pa.Array) else bool(found.as_py())


def alike(values: Values) -> Values:
    """Return keys in which equal values have the same bits: -0.0 becomes 0.0, as Arrow takes them for two.

    Example:
        >>> alike(pa.array([-0.0])).to_pylist()
        [0.0]
    """
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
