"""The dataflow as the program wrote it: frozen transformation nodes. Data only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headgate.common.hints import Hint
from headgate.common.keys.key_types import DeclaredKeys
from headgate.graph.partitioners import Forward, Partitioner
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.relational.column_tests import ColumnTest

NEW: Final = -1  # id of a node that is not in a program yet

RecordFunction: TypeAlias = Callable[[Any], Any]  # A function of one record; only the program knows the types


class Side(StrEnum):
    """The inputs of an operator that has two, main and broadcast; an operator with one has the main one."""

    MAIN = "main"
    BROADCAST = "broadcast"  # every subtask gets every record of it


@dataclass(frozen=True, eq=False)
class Node:
    """A transformation of the program, base class of all nodes; two nodes are equal only if they are the
    same. With `blocking`, its function waits for something outside, and runs beside the worker's loop.
    """

    id: int  # position in the program, from 0, given by the program; nodes are numbered as they are written
    name: str  # for people
    inputs: tuple[Node, ...] = ()  # the nodes that feed this one
    uid: str | None = None  # the user's stable name, or None
    parallelism: int | None = None  # number of subtasks, or None for the job's default
    record_type: Hint | None = None  # type of the records this node emits, or None when nobody said
    site: str = ""  # "file.py:12" of the user's line that made this node
    blocking: bool = False
    on_error: Any = None  # of `api.on_error`: what becomes of records on which its function fails; None: fail

    @property
    def known_as(self) -> str:
        """The uid, or else a name by the node's position."""
        return self.uid or f"node-{self.id}"


@dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """A source, where records enter. `source` is an `api.source.Source`, which got `filters` from a table.
    It begins marks if it is `marked`.
    """

    source: Any = None
    filters: tuple[ColumnTest, ...] = ()
    marked: bool = False


@dataclass(frozen=True, eq=False)
class MapNode(Node):
    """A ``map()`` step: one record out per record in."""

    function: RecordFunction = field(default=lambda record: record)


@dataclass(frozen=True, eq=False)
class FlatMapNode(Node):
    """A ``flat_map()`` step: any number of records out per record in."""

    function: RecordFunction = field(default=lambda record: (record,))


@dataclass(frozen=True, eq=False)
class FilterNode(Node):
    """A ``filter()`` step: keeps the records for which the function is true."""

    function: RecordFunction = field(default=lambda _record: True)


@dataclass(frozen=True, eq=False)
class SelectNode(Node):
    """A ``select()`` step: keeps some fields of each record; columnar batches stay columnar."""

    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class TimestampsNode(Node):
    """Gives records event time and watermarks by an `api.streams.event_time.WatermarkStrategy`."""

    strategy: Any = None


@dataclass(frozen=True, eq=False)
class ProcessNode(Node):
    """A ``process()`` step: runs an `api.functions.ProcessFunction` on each record."""

    function: Any = None


@dataclass(frozen=True, eq=False)
class KeyedProcessNode(Node):
    """A step with a `KeyedProcessFunction`; its input is partitioned by `key`, of declared type `keys`."""

    function: Any = None
    key: KeySelector = ""
    keys: DeclaredKeys | None = None


@dataclass(frozen=True, eq=False)
class WindowNode(KeyedProcessNode):
    """A keyed step that puts records into windows, by an `api.windows.window_function.WindowFunction`."""


@dataclass(frozen=True, eq=False)
class BroadcastProcessNode(ProcessNode):
    """A step with an `api.broadcast.BroadcastProcessFunction`; its second input is the broadcast side."""


@dataclass(frozen=True, eq=False)
class KeyedBroadcastProcessNode(KeyedProcessNode):
    """An `api.broadcast.KeyedBroadcastProcessFunction` step; its first input is partitioned by `key`."""


@dataclass(frozen=True, eq=False)
class UnionNode(Node):
    """A union: all records of all inputs, as one stream."""


@dataclass(frozen=True, eq=False)
class PartitionNode(Node):
    """Says how records travel to the next operator (by key, evenly, to all); runs nothing."""

    partitioner: Partitioner = field(default_factory=Forward)


@dataclass(frozen=True, eq=False)
class SideOutputNode(Node):
    """A side output: the records that its one input emitted under `tag`."""

    tag: str = ""


@dataclass(frozen=True, eq=False)
class SinkNode(Node):
    """A sink, where records leave. `sink` is an `api.sink.Sink`, which gets whole marks if it is `marked`."""

    sink: Any = None
    marked: bool = False
