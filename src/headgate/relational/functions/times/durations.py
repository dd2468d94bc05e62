"""Rules of `+` and `-` for times and durations: times moved by durations, and durations between times."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import missing, with_arrays
from headgate.relational.functions.times.zone import SESSION_ZONE, instants_of, local, micros_of
from headgate.relational.resolved import Values
from headgate.relational.rules import Judge, Kernel, RowsFailed, Signature, Types
from headgate.relational.spark_types import DURATION, LOCAL_TIMESTAMP, TIMESTAMP, is_integer

_DAY_US: Final = 86_400_000_000
_DATE: Final = pa.date32()


def moved_judge(sign: int) -> Judge:
    """Return the judge of `+` (`sign` 1) or `-` (-1) for times and durations; it takes no numbers alone."""

    def judge(given: Types) -> Signature | None:
        if len(given) != 2:
            return None
        left, right = given
        if sign > 0 and (left == DURATION or is_integer(left)) and _is_time(right):
            found = _sum(right, left)
            return found and Signature(found.arguments[::-1], found.result)
        if left == DURATION and right == DURATION:
            return Signature(given, DURATION)
        return (
            _difference(left, right) if sign < 0 and _is_time(left) and _is_time(right) else _sum(left, right)
        )

    return judge


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _sum(time: pa.DataType, more: pa.DataType) -> Signature | None:
    if time == _DATE and is_integer(more) and more != pa.int64():
        return Signature((_DATE, pa.int32()), _DATE)
    if not _is_time(time) or more != DURATION:
        return None
    kind = LOCAL_TIMESTAMP if time == LOCAL_TIMESTAMP else TIMESTAMP
    return Signature((kind, DURATION), kind)


def _difference(left: pa.DataType, right: pa.DataType) -> Signature:
    if left == right:
        return Signature((left, right), DURATION)
    kind = TIMESTAMP if TIMESTAMP in (left, right) else LOCAL_TIMESTAMP
    return Signature((kind, kind), DURATION)


def moved(sign: int, result: pa.DataType, left: Values, right: Values) -> Values:
    """Add (`sign` 1) or subtract (-1) two values of which one at least is a time or a duration.

    Raises:
        RowsFailed: the result is beyond all times.
    """
    if _is_time(right.type) and sign > 0:
        left, right = right, left
    try:
        if right.type == DURATION and result == TIMESTAMP:
            return with_arrays(_instant_moved(sign))(result, left, right)
        if result == DURATION and _is_time(left.type):
            return _between(left, right)
        one, other = (pc.cast(pc.cast(each, _width(each.type)), pa.int64()) for each in (left, right))
        found = (pc.add_checked if sign > 0 else pc.subtract_checked)(one, other)
        return pc.cast(pc.cast(found, _width(result)), result)
    except pa.ArrowInvalid:
        raise RowsFailed("DATETIME_OVERFLOW", "a time and a duration are beyond all times") from None


def _width(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind == _DATE or is_integer(kind) else pa.int64()


def _between(left: Values, right: Values) -> Values:
    # Between two instants, Spark counts by what clocks of the zone show.
    times = [pc.cast(local(each), pa.int64()) for each in (left, right)]
    return pc.cast(pc.subtract_checked(*times), DURATION)


def _instant_moved(sign: int) -> Kernel:
    # Whole days are those of the session's zone, the rest is exact.
    def kernel(result: pa.DataType, times: pa.Array, duration: pa.Array) -> pa.Array:
        by = micros_of(duration) * sign
        days = np.where(by < 0, -(-by // _DAY_US), by // _DAY_US) * _DAY_US
        moved_days = pc.add_checked(pc.cast(local(times), pa.int64()), pa.array(days))
        start = pc.cast(instants_of(pc.cast(moved_days, LOCAL_TIMESTAMP), SESSION_ZONE), pa.int64())
        found = pc.cast(pc.add_checked(start, pa.array(by - days)), result)
        return pc.if_else(pa.array(missing(duration)), pa.scalar(None, result), found)

    return kernel
