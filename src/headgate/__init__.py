"""Headgate: exactly-once, stateful stream processing on Spark, for people who write Python.

Everything a program needs is a name of this module::

    import headgate as hg

    env = hg.Environment(parallelism=2)
    env.from_collection(["a", "bc"]).map(len).collect()

Importing it loads none of Spark, Arrow or NumPy; each is loaded by the first call that needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from headgate.api.broadcast import (
    BroadcastContext,
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
)
from headgate.api.declared.aggregate import AggregateFunction
from headgate.api.declared.keyed_states import (
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
from headgate.api.declared.operator_state import (
    BroadcastState,
    OperatorListState,
    broadcast_state,
    operator_list_state,
)
from headgate.api.declared.state_ttl import StateTtl, TtlCleanup, TtlTime, TtlUpdate, TtlVisibility
from headgate.api.environment import Environment
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
from headgate.api.jobs.executor_contract import (
    Edge,
    Executor,
    JobControl,
    JobResult,
    JobSpec,
    JobStatus,
    PhysicalPlan,
    RepeatingFailure,
    Vertex,
    VertexStatus,
)
from headgate.api.jobs.job_handle import JobHandle
from headgate.api.jobs.launch import register_release_hook, run_program
from headgate.api.on_error import ERRORS, FailedCall, OnError, Quarantined
from headgate.api.serializers import (
    CompositeTypeSerializerSnapshot,
    DataInputView,
    DataOutputView,
    OuterSchemaCompatibility,
    SimpleTypeSerializerSnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.api.showing import Preview
from headgate.api.sink import (
    Fork,
    Lineage,
    Sink,
    SinkCommitter,
    SinkCommitterContext,
    SinkWriter,
    SinkWriterContext,
)
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    BadRecord,
    Boundedness,
    InputLeft,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceReport,
    Split,
    SplitEnumerator,
)
from headgate.api.streams.async_calls import AsyncFunction, Retry, retry
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.stream_classes import (
    BroadcastConnectedStream,
    BroadcastStream,
    DataStream,
    KeyedBroadcastConnectedStream,
    KeyedStream,
)
from headgate.api.streams.stream_outputs import Collected, DataFrameLater, StreamSink
from headgate.common.errors import (
    BadRecordError,
    ConfigError,
    FencedError,
    HeadgateError,
    InternalError,
    JobCancelledError,
    JobFailedError,
    NoEntryError,
    NotShippableError,
    OperatingError,
    PlanError,
    ProtocolError,
    StorageError,
    UsageError,
    UserFunctionError,
)
from headgate.common.former_names import alias, formerly
from headgate.common.refusals.calls import check_calls as _check_calls
from headgate.common.refusals.calls import with_checked_calls as _with_checked_calls
from headgate.common.settings.options import CheckpointingMode
from headgate.common.stored_as import avro, json, pickled
from headgate.common.time import DAYS, HOURS, MILLISECONDS, MINUTES, SECONDS
from headgate.relational.column_tests import ColumnTest

if TYPE_CHECKING:
    from headgate import spark
    from headgate.api.built_in_serializers import DescribedSnapshot, serializer_for
    from headgate.api.jobs.remote_job import RemoteJob, connect
    from headgate.api.tables.column_table import Table
    from headgate.api.windows.public import (
        Aggregate,
        Evictor,
        Trigger,
        TriggerContext,
        TriggerResult,
        Window,
        WindowAssigner,
        WindowContext,
        WindowedStream,
        WindowRecord,
        after_watermark,
        at_end,
        avg,
        collect_list,
        continuous,
        count,
        count_window,
        cumulative,
        every_count,
        first,
        global_window,
        last,
        last_records,
        last_time,
        purging,
        session,
        sliding,
        tumbling,
    )
    from headgate.api.windows.public import max as max  # noqa: A004
    from headgate.api.windows.public import min as min  # noqa: A004
    from headgate.api.windows.public import sum as sum  # noqa: A004
    from headgate.records.row import Row
    from headgate.relational.schema import Schema

__version__ = "0.1.0"

EXACTLY_ONCE: Final = CheckpointingMode.EXACTLY_ONCE
AT_LEAST_ONCE: Final = CheckpointingMode.AT_LEAST_ONCE

fail, skip, quarantine = OnError.FAIL, OnError.SKIP, OnError.QUARANTINE

BAD_RECORDS: Final[OutputTag[BadRecord]] = OutputTag[BadRecord]("bad-records")
"""Tag of the side output with the bad records of a source read with ``on_error="side-output"``."""

__all__ = [
    "ERRORS", "FailedCall", "OnError", "Quarantined", "fail", "quarantine", "skip",
    "AT_LEAST_ONCE", "AggregateFunction", "AggregatingState", "AsyncFunction", "BAD_RECORDS", "BadRecord",
    "BadRecordError", "Boundedness", "BroadcastConnectedStream", "BroadcastContext",
    "BroadcastProcessFunction", "BroadcastState", "BroadcastStream", "CheckpointingMode", "Collected",
    "ColumnTest", "DataFrameLater", "ConfigError", "CompositeTypeSerializerSnapshot", "DAYS",
    "DataInputView", "DataOutputView", "DataStream", "Preview", "DescribedSnapshot", "END_OF_INPUT",
    "Edge", "EXACTLY_ONCE", "Environment", "Executor", "FencedError", "Fork", "HOURS", "HeadgateError",
    "InputLeft", "InternalError", "JobCancelledError", "JobFailedError", "JobControl", "JobHandle",
    "JobResult", "JobSpec", "JobStatus", "KeyedBroadcastConnectedStream", "KeyedBroadcastContext",
    "KeyedBroadcastProcessFunction", "KeyedContext", "KeyedProcessFunction", "KeyedStream", "Lineage",
    "ListState", "MILLISECONDS", "MINUTES", "MapState", "NOTHING_AVAILABLE", "NoEntryError",
    "NotShippableError", "OnTimerContext", "OperatingError", "OperatorListState",
    "OuterSchemaCompatibility", "OutputTag", "PhysicalPlan", "PlanError", "PollStatus", "ProcessFunction",
    "ProtocolError", "ReducingState", "RemoteJob", "RepeatingFailure", "Retry", "Row", "RuntimeContext",
    "SECONDS", "Schema", "SimpleTypeSerializerSnapshot", "Sink", "SinkCommitter", "SinkCommitterContext",
    "SinkWriter", "SinkWriterContext", "Source", "SourceReader", "SourceReaderContext", "SourceReport",
    "Split", "SplitEnumerator", "StateTtl", "StorageError", "StreamSink", "Table", "TimerService",
    "TtlCleanup", "TtlTime", "TtlUpdate", "TtlVisibility", "TypeSerializer",
    "TypeSerializerSchemaCompatibility", "TypeSerializerSnapshot", "UsageError", "UserFunctionError",
    "ValueState", "Vertex", "VertexStatus", "WatermarkStrategy", "__version__", "aggregating_state",
    "alias", "avro", "blocking", "broadcast_state", "connect", "formerly", "json", "list_state",
    "map_state", "operator_list_state", "pickled", "reducing_state", "register_release_hook", "retry",
    "run_program", "serializer_for", "spark", "value_state",
    # Of windows, loaded at first use. `min`, `max` and `sum` are not listed: they would hide builtins.
    "Aggregate", "Evictor", "Trigger", "TriggerContext", "TriggerResult", "Window", "WindowAssigner",
    "WindowContext", "WindowRecord", "WindowedStream", "after_watermark", "at_end", "avg", "collect_list",
    "continuous", "count", "count_window", "cumulative", "every_count", "first", "global_window", "last",
    "last_records", "last_time", "purging", "session", "sliding", "tumbling",
]  # fmt: skip


_LATER: Final = {
    "DescribedSnapshot": "headgate.api.built_in_serializers",
    "RemoteJob": "headgate.api.jobs.remote_job",
    "connect": "headgate.api.jobs.remote_job",
    "Row": "headgate.records.row",
    "Schema": "headgate.relational.schema",
    "Table": "headgate.api.tables.column_table",
    "serializer_for": "headgate.api.built_in_serializers",
}
"""Names that are imported at first use, because they load third-party packages: name -> its module."""

_WINDOWS: Final = "headgate.api.windows.public"

_check_calls(__name__, __all__)


def __getattr__(name: str) -> Any:
    if name == "spark":
        return importlib.import_module("headgate.spark")
    if name in _LATER:
        return _with_checked_calls(getattr(importlib.import_module(_LATER[name]), name))
    if not name.startswith("_") and name in (of_windows := importlib.import_module(_WINDOWS)).__all__:
        found = _with_checked_calls(getattr(of_windows, name))
        setattr(of_windows, name, found)
        return found
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
