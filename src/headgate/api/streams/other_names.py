"""Error messages for methods that other systems have (Flink's `keyBy`): they give Headgate's name for it.
Python itself names the nearest name of a misspelt one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.api.site import user_site

_STREAM_CALLS: Final = {
    "collect": "executeAndCollect execute_and_collect",
    "flat_map": "flatMap",
    "join": "intervalJoin interval_join",
    "key_by": "groupBy keyBy",
    "map": "withColumn",
    "preview": "display show",
    "process": "foreach",
    "set_parallelism": "setParallelism",
    "sink_to": "add_sink sinkTo",
    "take": "first head limit",
    "to_dataframe": "toDF toPandas to_pandas",
    "to_spark": "foreachBatch writeStream",
    "union": "unionAll",
    "with_event_time": "withWatermark",
    "with_watermarks": "assign_timestamps_and_watermarks assignTimestampsAndWatermarks",
}
_PROGRAM_CALLS: Final = {
    "checkpoints": "enable_checkpointing enableCheckpointing",
    "config": "set",
    "from_collection": "from_elements fromCollection fromElements parallelize",
    "from_source": "add_source addSource fromSource",
    "from_spark": "createDataFrame execute_sql readStream sql",
    "read_csv": "read_text_file readTextFile",
    "read_json": "read",
}
"""Name here -> what other systems call it."""

_OF_GROUPS: Final = frozenset(
    {"agg", "aggregate", "avg", "count", "fold", "max", "mean", "min", "reduce", "sum", "window"}
)


def no_such_call(program: object, name: str) -> AttributeError:
    """Return the AttributeError for the missing method `name` of an Environment, with Headgate's name."""
    message = f"{type(program).__name__} has no {name!r}{_known_as(name, _PROGRAM_CALLS)}"
    return AttributeError(message, name=name, obj=program)


def no_such_member(stream: object, name: str, *, of_stream: bool = False) -> AttributeError:
    """Return the AttributeError for member `name` that `stream` lacks. It says what to write instead, where
    `name` is Spark's, Flink's or an aggregate's, or where it stands before ``key_by()`` (`of_stream`: streams
    have it).
    """
    message = f"{type(stream).__name__} has no {name!r}"
    if of_stream and not name.startswith("_"):
        message = (
            f"a stream after key_by() has no {name}() ({user_site()}): call it before key_by(), or after "
            "process()"
        )
    elif name in _OF_GROUPS:
        message += (
            f" ({user_site()}): counts, sums and the like are those of windows, as in stream.key_by(...)"
            '.window(hg.tumbling("1h")).aggregate(n=hg.count()), or state per key, by process()'
        )
    else:
        message += _known_as(name, _STREAM_CALLS)
    return AttributeError(message, name=name, obj=stream)


def _known_as(name: str, calls: Mapping[str, str]) -> str:
    here = next((call for call, others in calls.items() if name in others.split()), None)
    return "" if here is None else f" ({user_site()}): what others call {name} is {here}() here"
