"""The names of windows that programs use; `headgate` has all of them."""

from __future__ import annotations

from headgate.api.windows.assigners import (
    WindowAssigner,
    count_window,
    cumulative,
    global_window,
    session,
    sliding,
    tumbling,
)
from headgate.api.windows.evictors import Evictor, WindowRecord, last_records, last_time
from headgate.api.windows.keeping import WindowContext
from headgate.api.windows.trigger import Trigger, TriggerContext, TriggerResult
from headgate.api.windows.triggers import after_watermark, at_end, continuous, every_count, purging
from headgate.api.windows.window import Window
from headgate.api.windows.window_aggregates import (
    Aggregate,
    avg,
    collect_list,
    count,
    first,
    last,
    max,  # noqa: A004
    min,  # noqa: A004
    sum,  # noqa: A004
)
from headgate.api.windows.windowed_stream import WindowedStream

__all__ = [
    "Aggregate",
    "Evictor",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowContext",
    "WindowRecord",
    "WindowedStream",
    "after_watermark",
    "at_end",
    "avg",
    "collect_list",
    "continuous",
    "count",
    "count_window",
    "cumulative",
    "every_count",
    "first",
    "global_window",
    "last",
    "last_records",
    "last_time",
    "max",
    "min",
    "purging",
    "session",
    "sliding",
    "sum",
    "tumbling",
]
