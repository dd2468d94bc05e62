"""Small programs written directly as nodes, for the tests of the passes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headgate.api.source import Boundedness
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.graph.logical import (
    KeyedProcessNode,
    MapNode,
    Node,
    PartitionNode,
    ProcessNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    UnionNode,
)
from headgate.graph.partitioners import ByKeyGroup


class Sketch:
    """Numbers nodes as they are written."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, kind: type[Node], *inputs: Node, name: str = "", **fields: Any) -> Any:
        number = len(self.nodes)
        node = kind(id=number, name=name or f"n{number}", inputs=inputs, site=f"job.py:{number}", **fields)
        self.nodes.append(node)
        return node

    def source(self, columns: bool = False, **fields: Any) -> Any:
        described = SimpleNamespace(
            describe=lambda: "numbers", boundedness=Boundedness.BOUNDED, produces_columns=columns
        )
        return self.add(SourceNode, source=described, **fields)

    def sink(self, stream: Node, columns: bool | None = None, **fields: Any) -> Any:
        described = SimpleNamespace(
            describe=lambda: "shelf", guarantee="exactly-once", accepts_columns=columns
        )
        return self.add(SinkNode, stream, sink=described, **fields)

    def map(self, stream: Node, **fields: Any) -> Any:
        return self.add(MapNode, stream, **fields)

    def process(self, stream: Node, **fields: Any) -> Any:
        return self.add(ProcessNode, stream, **fields)

    def times(self, stream: Node, **fields: Any) -> Any:
        return self.add(TimestampsNode, stream, strategy=WatermarkStrategy("at"), **fields)

    def union(self, *streams: Node) -> Any:
        return self.add(UnionNode, *streams)

    def travel(self, stream: Node, partitioner: Any) -> Any:
        return self.add(PartitionNode, stream, partitioner=partitioner)

    def side(self, stream: Node, tag: str, **fields: Any) -> Any:
        return self.add(SideOutputNode, stream, tag=tag, **fields)

    def keyed(self, stream: Node, key: Any = "who", **fields: Any) -> Any:
        return self.add(KeyedProcessNode, self.travel(stream, ByKeyGroup(key)), key=key, **fields)
