"""Checks and settings of streaming DataFrames as sources: supported queries, triggers, failure reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headgate.common.errors import UsageError
from headgate.common.time import duration_ms

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

Trigger = dict[str, Any]  # keyword arguments of ``DataStreamWriter.trigger``

AVAILABLE_NOW: Final = "available-now"
PROCESSING_TIME: Final = "processing-time"

_STATEFUL: Final = {
    "Aggregate": "an aggregation (groupBy, agg, count)",
    "Deduplicate": "dropDuplicates() or distinct()",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark()",
    "Distinct": "distinct()",
    "EventTimeWatermark": "withWatermark()",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState()",
    "FlatMapGroupsWithState": "flatMapGroupsWithState()",
    "GlobalLimit": "limit()",
    "LocalLimit": "limit()",
    "SessionWindowing": "session_window()",
    "Sort": "a sort",
    "TransformWithState": "transformWithState()",
    "TransformWithStateInPandas": "transformWithStateInPandas()",
    "TransformWithStateInPySpark": "transformWithState()",
    "UpdateEventTimeWatermarkColumn": "withWatermark()",
}
"""Name of a stateful node of Spark's logical plan -> the DataFrame method that made it, for messages."""

_FILE_FORMATS: Final = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_REPEATABLE: Final = frozenset({"kafka", "rate", "rate-micro-batch"})
_REASON_MAX: Final = 1000

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(.*?)(?:\n\n|\n\tat |\Z)", re.DOTALL)
_JAVA: Final = re.compile(r"\A[^\n]*\n: ([\w.$]+(?:Exception|Error)\b.*)", re.DOTALL)
_SENTENCE_END: Final = re.compile(r"\n\s*(?:at |\n|===|'|[+:]- |Caused by:)")
"""End of a Java error's message: traces, plans and causes follow."""


def trigger_of(text: str | None) -> Trigger:
    """Convert a trigger of `from_spark()` to arguments for Spark's ``trigger()``; UsageError if unknown.

    Example:
        >>> trigger_of("processing-time 1500ms"), trigger_of("available-now"), trigger_of(None)
        ({'processingTime': '1500 milliseconds'}, {'availableNow': True}, {})
    """
    if text is None:
        return {}
    if text == AVAILABLE_NOW:
        return {"availableNow": True}
    word, _, rest = str(text).partition(" ")
    if word == PROCESSING_TIME:
        try:
            return {"processingTime": f"{duration_ms(rest, 'trigger of from_spark()')} milliseconds"}
        except ValueError as error:
            raise UsageError(str(error)) from error
    raise UsageError(
        f"the trigger of from_spark() is {text!r}; expected 'available-now', or 'processing-time' with a "
        "duration such as 'processing-time 1s', or none for as fast as possible"
    )


def check_stateless(frame: DataFrame) -> None:
    """Raise UsageError if a streaming DataFrame's plan has an operator known to keep state in Spark.
    No checkpoint of the job would hold that state. Operators that are not listed here are let through.
    """
    for node in _streaming_nodes(frame._jdf.queryExecution().analyzed()):
        name = str(node.nodeName())
        called = _STATEFUL.get(name)
        if name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            called = "a join of two streams"
        if called is not None:
            raise UsageError(
                f"from_spark() got a streaming DataFrame with {called}, Spark's operator {name}, which keeps "
                "state that no checkpoint of the job holds; use stateless SQL only, do it in the dataflow"
            )


def forgets_nothing(frame: DataFrame) -> bool:
    """Return whether all sources of a streaming DataFrame can be read again, even what Spark has committed.

    Files can, unless Spark removes them after a batch; so can Kafka, and the rate sources. For all others
    False is returned.
    """
    leaves = [
        node
        for node in _streaming_nodes(frame._jdf.queryExecution().analyzed())
        if not node.children().size()
    ]
    return bool(leaves) and all(map(_can_be_read_again, leaves))


def _can_be_read_again(leaf: JavaObject) -> bool:
    if leaf.getClass().getSimpleName() == "StreamingRelationV2":
        return str(leaf.sourceName()).lower() in _REPEATABLE
    if leaf.getClass().getSimpleName() != "StreamingRelation":
        return False
    source = leaf.dataSource()
    options = _plain(source.options())
    return str(source.className()).lower() in _FILE_FORMATS and options.get("cleansource", "off") == "off"


def _plain(options: JavaObject) -> dict[str, str]:
    found, entries = {}, options.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1()).lower()] = str(entry._2()).lower()
    return found


def _streaming_nodes(node: JavaObject) -> Iterator[JavaObject]:
    if node.isStreaming():
        yield node
        children = node.children()
        for index in range(children.size()):
            yield from _streaming_nodes(children.apply(index))


def reason_of(error: Exception) -> str:
    r"""Return why a query failed in one sentence: a Python error's last line, or a Java error's message.

    Example:
        >>> reason_of(ValueError("[X]\nTraceback (most recent call last):\n  File 1\nKeyError: 'k'\n"))
        "KeyError: 'k'"
        >>> reason_of(ValueError("calling o1.count.\n: a.LostException: It is gone.\nIt was 7.\n\tat a.B"))
        'a.LostException: It is gone. It was 7'
        >>> reason_of(ValueError("[NO_COLUMN] No column x;\n'Project ['x]\n+- Range"))
        '[NO_COLUMN] No column x'
    """
    desc: str = getattr(error, "desc", None) or str(error) or type(error).__name__
    text = str(desc).strip()
    found = _TRACEBACK.search(text)
    lines = [] if found is None else [line for line in found[1].splitlines() if line and line[0] not in " \t"]
    if lines:
        return lines[-1].strip()
    java = _JAVA.match(text)
    message = _SENTENCE_END.split(text if java is None else java[1], maxsplit=1)[0]
    sentence = " ".join(message.split()).rstrip(".;")
    return sentence if len(sentence) <= _REASON_MAX else sentence[: _REASON_MAX - 3] + "..."
