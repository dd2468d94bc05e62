"""Names that other systems have for what a program or stream does: refused with the name that it has here.

The nearest name of a misspelt one is Python's own to tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.api.site import user_site

_HERE: Final[Mapping[str, str]] = {
    "add_sink": "sink_to",
    "assign_timestamps_and_watermarks": "with_watermarks",
    "assignTimestampsAndWatermarks": "with_watermarks",
    "display": "preview",
    "executeAndCollect": "collect",
    "execute_and_collect": "collect",
    "first": "take",
    "flatMap": "flat_map",
    "foreach": "process",
    "foreachBatch": "to_spark",
    "groupBy": "key_by",
    "head": "take",
    "keyBy": "key_by",
    "limit": "take",
    "setParallelism": "set_parallelism",
    "show": "preview",
    "sinkTo": "sink_to",
    "toDF": "to_dataframe",
    "toPandas": "to_dataframe",
    "to_pandas": "to_dataframe",
    "unionAll": "union",
    "withColumn": "map",
    "withWatermark": "with_event_time",
    "writeStream": "to_spark",
}
_HERE_OF_PROGRAMS: Final[Mapping[str, str]] = {
    "add_source": "from_source",
    "addSource": "from_source",
    "createDataFrame": "from_spark",
    "enable_checkpointing": "checkpoints",
    "enableCheckpointing": "checkpoints",
    "execute_sql": "from_spark",
    "from_elements": "from_collection",
    "fromCollection": "from_collection",
    "fromElements": "from_collection",
    "fromSource": "from_source",
    "parallelize": "from_collection",
    "read": "read_json",
    "read_text_file": "read_csv",
    "readStream": "from_spark",
    "readTextFile": "read_csv",
    "set": "config",
    "sql": "from_spark",
}
_OF_GROUPS: Final = frozenset(
    {"agg", "aggregate", "avg", "count", "fold", "max", "mean", "min", "reduce", "sum", "window"}
)


def no_such_call(program: object, name: str) -> AttributeError:
    """Return the refusal of a method that an Environment does not have."""
    said, here = f"{type(program).__name__} has no {name!r}", _HERE_OF_PROGRAMS.get(name)
    if here is not None:
        said += f" ({user_site()}): what others call {name} is {here}() here"
    return AttributeError(said, name=name, obj=program)


def no_such_member(stream: object, name: str, *, of_stream: bool = False) -> AttributeError:
    """Return the refusal of a method that a stream does not have."""
    kind = type(stream).__name__
    said = f"{kind} has no {name!r}"
    site = "" if name.startswith("_") else user_site()
    if of_stream and site:
        said = (
            f"a stream after key_by() has no {name}() ({site}): call it before key_by(), or after process()"
        )
    elif name in _OF_GROUPS:
        said += (
            f" ({site}): counts, sums and the like are kept as state per key, by a KeyedProcessFunction: "
            "stream.key_by(...).process(...)"
        )
    elif (here := _HERE.get(name)) is not None:
        said += f" ({site}): what others call {name} is {here}() here"
    return AttributeError(said, name=name, obj=stream)
