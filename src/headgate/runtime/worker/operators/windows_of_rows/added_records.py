"""Records that are ordered by key and window are added to the state of windows, all of one at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from headgate.api.functions import KeyedContext
from headgate.api.windows.together import Adder
from headgate.api.windows.window_function import WindowFunction
from headgate.runtime.job.user_errors import user_error
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.windows_of_rows.ordered_records import OrderedRecords


def add_to_state(
    operator: KeyedProcessOperator,
    function: WindowFunction,
    ordered: OrderedRecords,
    keys: Sequence[Hashable],
    adder: Adder | None = None,
) -> None:
    """Add records to the state of their windows, and have the windows wait for their end.

    `keys` are those of all records of the batch; `adder` is that of `function` for `ordered`. Raises
    UserFunctionError if the program's function raises for a record.
    """
    operator._backend.prefetch([keys[first] for _, _, _, first in ordered.runs])
    try:
        _add_runs(operator, function, ordered, keys, adder or function.adder(ordered))
    except BaseException as error:
        raise user_error(operator.context, error, ordered.record_read()) from None


def _add_runs(
    operator: KeyedProcessOperator,
    function: WindowFunction,
    ordered: OrderedRecords,
    keys: Sequence[Hashable],
    add: Adder,
) -> None:
    ctx, bound = operator._ctx, operator._bound
    window_ending, wait = function.assigner.window_ending, function.wait_for_end
    context, times = cast("KeyedContext[object]", ctx), ordered.times
    for start, stop, end, first in ordered.runs:
        ordered.span = start, stop
        key = keys[first]
        for handle in bound:
            handle.bind(key)
        window = window_ending(end)
        assert window is not None
        if add(window.key, start, stop):
            ctx.key, ctx.timestamp = key, int(times[start])
            wait(window.key, context)
