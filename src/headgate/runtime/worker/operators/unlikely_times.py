"""Refuses records whose event time cannot be meant: one in the year 9999 would make all later ones late."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import shorten

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

YEAR_9999: Final = 253_370_764_800_000  # its begin, in ms since 1970; a usual stand-in for "never"


def refuse_unlikely(
    context: OperatorContext, batch: Batch, times: Int64s, name: str | Callable[..., int]
) -> None:
    """Raise UsageError if one of `times` (ms; read by `name` from `batch`) is in the year 9999 or later."""
    if times.max() < YEAR_9999:
        return
    place = int(np.argmax(times >= YEAR_9999))
    raise UsageError(
        f"{context.label}: {_named(name)} of {_shown(batch, place)} is event time {int(times[place])} ms, in "
        "the year 9999 or later, after which every other record would be late; filter such records before "
        "with_event_time(), or give ms if the unit is another"
    )


def missing_time(context: OperatorContext, batch: ArrowBatch, column: pa.Array, name: str) -> UsageError:
    """Return the error for `column`, event time with nulls, which shows the first record without a time."""
    place = column.is_null().to_numpy(zero_copy_only=False).argmax()
    return UsageError(
        f"{context.label}: column {name!r} has {column.null_count} records without a timestamp, the first "
        f"{_shown(batch, int(place))}; filter them out before with_event_time()"
    )


def _named(name: str | Callable[..., int]) -> str:
    return f"column {name!r}" if isinstance(name, str) else "the timestamp"


def _shown(batch: Batch, place: int) -> str:
    if isinstance(batch, ArrowBatch):
        return shorten(batch.columns.slice(place, 1).to_pylist()[0])
    return shorten(batch.rows()[place])
