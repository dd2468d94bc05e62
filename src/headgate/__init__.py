"""Headgate: exactly-once, stateful stream processing on Spark, for people who write Python.

Everything a program needs is a name of this module::

    import headgate as hg

    env = hg.Environment(parallelism=2)
    env.from_collection(["a", "bc"]).map(len).collect()

Importing it loads none of Spark, Arrow or NumPy; they are loaded by who uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headgate.api.aggregate import AggregateFunction
from headgate.api.environment import Environment
from headgate.api.executor import Edge, Executor, JobResult, JobSpec, PhysicalPlan, Vertex
from headgate.api.functions import (
    KeyedContext,
    KeyedProcessFunction,
    OnTimerContext,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimerService,
    blocking,
)
from headgate.api.keyed import KeyedStream
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    Boundedness,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
)
from headgate.api.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
    aggregating_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from headgate.api.stream import Collected, DataFrameLater, DataStream, StreamSink
from headgate.api.time import WatermarkStrategy
from headgate.common.errors import (
    BadRecordError,
    ConfigError,
    FencedError,
    HeadgateError,
    InternalError,
    JobFailedError,
    NotShippableError,
    OperatingError,
    PlanError,
    ProtocolError,
    StorageError,
    UsageError,
    UserFunctionError,
)
from headgate.common.former_names import alias, formerly
from headgate.common.options import CheckpointingMode
from headgate.common.time import DAYS, HOURS, MILLISECONDS, MINUTES, SECONDS

if TYPE_CHECKING:
    from headgate.records.row import Row

__version__ = "0.1.0"

EXACTLY_ONCE: Final = CheckpointingMode.EXACTLY_ONCE
AT_LEAST_ONCE: Final = CheckpointingMode.AT_LEAST_ONCE

BAD_RECORDS: Final[OutputTag[BadRecord]] = OutputTag[BadRecord]("bad-records")
"""The side output of a source that reads with ``on_error="side-output"``."""

__all__ = [
    "AT_LEAST_ONCE",
    "AggregateFunction",
    "AggregatingState",
    "BAD_RECORDS",
    "BadRecord",
    "BadRecordError",
    "Boundedness",
    "CheckpointingMode",
    "Collected",
    "DataFrameLater",
    "ConfigError",
    "DAYS",
    "DataStream",
    "END_OF_INPUT",
    "Edge",
    "EXACTLY_ONCE",
    "Environment",
    "Executor",
    "FencedError",
    "HOURS",
    "HeadgateError",
    "InternalError",
    "JobFailedError",
    "JobResult",
    "JobSpec",
    "KeyedContext",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListState",
    "MILLISECONDS",
    "MINUTES",
    "MapState",
    "NOTHING_AVAILABLE",
    "NotShippableError",
    "OnTimerContext",
    "OperatingError",
    "OutputTag",
    "PhysicalPlan",
    "PlanError",
    "PollStatus",
    "ProcessFunction",
    "ProtocolError",
    "ReducingState",
    "Row",
    "RuntimeContext",
    "SECONDS",
    "Sink",
    "SinkCommitter",
    "SinkWriter",
    "SinkWriterContext",
    "Source",
    "SourceReader",
    "SourceReaderContext",
    "Split",
    "SplitEnumerator",
    "StorageError",
    "StreamSink",
    "TimerService",
    "UsageError",
    "UserFunctionError",
    "ValueState",
    "Vertex",
    "WatermarkStrategy",
    "__version__",
    "aggregating_state",
    "alias",
    "blocking",
    "formerly",
    "list_state",
    "map_state",
    "reducing_state",
    "value_state",
]


def __getattr__(name: str) -> Any:
    if name == "Row":
        from headgate.records.row import Row

        return Row
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
