"""Checks results of user functions for a common mistake, and collects their side outputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Generic

import numpy as np

from headgate.api.functions import OutputTag
from headgate.common.refusals.texts import shortened
from headgate.records.row import Row
from headgate.records.row_batch import RowBatch
from headgate.runtime.worker.operators.operator_contract import Operator, R

_ONE_RECORD = (tuple, str, bytes, dict, Row)
_TABLES = ("DataFrame", "LazyFrame", "RecordBatch", "Table")


def checked_outputs(result: Iterable[R], giver: str = "process()") -> Iterable[R]:
    """Return `result`, which user code (`giver`) returned, after a check that it is a series of outputs.
    TypeError: it is not iterable, a coroutine, or looks like one record that was returned instead of yielded.
    """
    checked_kind(result, giver)
    return result


def checked_kind(result: object, giver: str = "process()") -> type | None:
    """Return the class of `result` if every instance of it is a series of outputs; None: only this one is.
    `giver` names the user code that returned it. Raises TypeError as :func:`checked_outputs` does.
    """
    kind: type = result.__class__
    if kind is tuple and not result:
        return None
    if isinstance(result, _ONE_RECORD):
        raise TypeError(
            f"{giver} returned one {kind.__name__}, which would be taken apart into its elements; "
            "yield it, or return a list of outputs"
        )
    if inspect.iscoroutine(result) or inspect.isasyncgen(result):
        close_quietly(result)
        raise TypeError(
            f"{giver} is an `async def`, which nothing here awaits; write it with `def`, and mark what waits "
            "with hg.blocking"
        )
    if kind.__name__ in _TABLES and hasattr(result, "columns"):
        raise TypeError(
            f"{giver} returned one {kind.__name__}, of which the columns would be taken for outputs; return "
            "a list of its rows, such as frame.to_dict('records') or table.to_pylist()"
        )
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        raise TypeError(f"{giver} returned one {kind.__name__}; yield it, or return a list of outputs")
    return kind


def close_quietly(result: object) -> None:
    if inspect.iscoroutine(result):
        result.close()


class SideBuffer(Generic[R]):
    """Collects the side outputs of the current batch, by tag, with event times if there are any."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[str, tuple[list[R], list[int | None], list[int | None]]] = {}

    def add(self, tag: OutputTag, value: R, timestamp: int | None, watermark: int | None) -> None:
        """Add a record to side output `tag`; times in ms or None. TypeError: `tag` is no `OutputTag`."""
        if not isinstance(tag, OutputTag):
            raise TypeError(
                f"side_output() got {shortened(repr(tag), 80)} of type {type(tag).__name__} as its tag; "
                'expected an OutputTag, such as hg.OutputTag("late")'
            )
        records, times, marks = self._records.setdefault(tag.name, ([], [], []))
        records.append(value)
        times.append(timestamp)
        marks.append(watermark)

    def emit(self, operator: Operator) -> None:
        """Emit the collected records to side outputs of `operator`, a batch for each, and forget them."""
        if not self._records:
            return
        collected, self._records = self._records, {}
        for tag, (records, times, marks) in collected.items():
            if None in times:
                operator.emit_side(tag, RowBatch(records))
            else:
                timestamps, watermarks = np.array(times, dtype=np.int64), np.array(marks, dtype=np.int64)
                operator.emit_side(tag, RowBatch(records, timestamps, watermarks))
