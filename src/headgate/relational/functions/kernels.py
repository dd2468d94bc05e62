"""Wrappers of kernels: calls per value where Arrow has no kernel, over numpy arrays, or on full arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.resolved import Values
from headgate.relational.rules import Kernel, RowsFailed

Floats = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]
Wholes = npt.NDArray[np.int64]

_MANY_ALIKE = 0.6
"""Distinct values per row up to which a costly kernel is called for these only."""


def with_arrays(kernel: Kernel) -> Kernel:
    """Return a kernel that calls `kernel` with arrays of one length: scalars, for all rows, are repeated.
    If all arguments are scalars, `kernel` gets arrays of one value, and the result is a scalar.
    """

    def wide(result: pa.DataType, *values: Values) -> Values:
        rows = next((len(value) for value in values if isinstance(value, pa.Array)), None)
        arrays = [repeated(value, 1 if rows is None else rows) for value in values]
        found = kernel(result, *arrays)
        return found[0] if rows is None else found

    return wide


def repeated(values: Values, rows: int) -> pa.Array:
    """Return values as an array: a scalar, which stands for all rows, becomes an array of `rows` values."""
    if isinstance(values, pa.Scalar):
        # Arrow repeats no array or map zero times.
        return pa.repeat(values, rows) if rows else pa.array([], values.type)
    return values


def first_rows(values: Values) -> pa.Array:
    """Return values as an array: a scalar, which stands for all rows, becomes an array of one value."""
    return repeated(values, 1)


def any_true(truth: Values) -> bool:
    """Return whether any of some truth values is true; null is not."""
    return bool(pc.any(first_rows(truth)).as_py())


def refuse(bad: Values, condition: str, why: str) -> None:
    """Raise `RowsFailed` with `condition` and `why` if any of the truth values `bad` is true."""
    if any_true(bad):
        raise RowsFailed(condition, why)


def per_value(function: Callable[..., object]) -> Kernel:
    """Return a kernel that calls a function of Python once for each distinct value of its first argument.

    The other arguments must be the same for all rows. Null stays null; the function may return None.
    """

    def kernel(result: pa.DataType, values: Values, *others: pa.Scalar) -> Values:
        plain = [other.as_py() for other in others]
        if isinstance(values, pa.Scalar) or None in plain:
            return _by_row(function, result, (values, *others))
        coded = values.dictionary_encode()
        found = [function(value, *plain) for value in coded.dictionary.to_pylist()]
        return pa.array(found, result).take(coded.indices)

    return kernel


def of_distinct(kernel: Callable[[Values], Values], values: Values) -> Values:
    """Return what a costly kernel gives for values; it sees each only once if many of them are alike."""
    if isinstance(values, pa.Scalar):
        return kernel(values)
    coded = values.dictionary_encode()
    if len(coded.dictionary) > _MANY_ALIKE * len(values):
        return kernel(values)
    return kernel(coded.dictionary).take(coded.indices)


def per_row(function: Callable[..., object]) -> Kernel:
    """Return a kernel that calls a function of Python for each row without nulls; it may return None.

    Where only the first argument differs between rows, each distinct value is computed once.
    """
    once = per_value(function)

    def kernel(result: pa.DataType, *values: Values) -> Values:
        if isinstance(values[0], pa.Array) and all(isinstance(other, pa.Scalar) for other in values[1:]):
            return once(result, *values)
        return _by_row(function, result, values)

    return kernel


def _by_row(function: Callable[..., object], result: pa.DataType, values: tuple[Values, ...]) -> Values:
    rows = next((len(value) for value in values if isinstance(value, pa.Array)), None)
    if rows is None:
        plain = [value.as_py() for value in values]
        return pa.scalar(None if None in plain else function(*plain), result)
    columns = [v.to_pylist() if isinstance(v, pa.Array) else [v.as_py()] * rows for v in values]
    found = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    return pa.array(found, result)


def by_numpy(function: Callable[..., npt.NDArray[np.generic]]) -> Kernel:
    """Return a kernel that computes with numpy arrays of the arguments; a row with a null is null.

    Nulls are zeros in the arrays. Overflow and bad values do not warn: the function says what they give.
    """

    def kernel(result: pa.DataType, *values: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            found = function(*map(numbers, values))
        return pa.array(found, result, mask=missing(*values))

    return with_arrays(kernel)


def numbers(values: pa.Array) -> npt.NDArray[np.generic]:
    """Return numbers, or times as the integers that they are inside, as a numpy array with 0 for null."""
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        values = values.view(pa.int64())
    elif pa.types.is_date(kind):
        values = values.view(pa.int32())
    zero = pa.scalar(False if pa.types.is_boolean(kind) else 0, values.type)
    found: npt.NDArray[np.generic] = pc.fill_null(values, zero).to_numpy(zero_copy_only=False)
    return found


def wholes(values: pa.Array) -> Wholes:
    """Return whole numbers, or times as the integers that they are inside, as `int64` with 0 for null."""
    return numbers(values).astype(np.int64)


def doubles(values: pa.Array) -> Floats:
    return numbers(values).astype(np.float64)


def missing(*values: pa.Array) -> Truth:
    """Return for each row whether any of `values` is null there, as a numpy array."""
    found = np.zeros(len(values[0]), np.bool_)
    for each in values:
        if each.null_count:
            found |= pc.is_null(each).to_numpy(zero_copy_only=False)
    return found


def java_longs(values: Floats) -> Wholes:
    """Return doubles as Java casts them to longs: NaN is 0; what is out of range is the nearest long."""
    inside = np.abs(values) < 2.0**63
    extreme = np.where(values > 0, np.iinfo(np.int64).max, np.where(values < 0, np.iinfo(np.int64).min, 0))
    return np.where(inside, np.where(inside, values, 0).astype(np.int64), extreme)
