"""What a stream of records in flight needs of the plan: the codec of its records, and their key groups."""

from __future__ import annotations

from typing import Any

from headgate.graph.logical import KeyedProcessNode, Node
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.stored_parts import GroupsOf


class StreamCatalog:
    """Looks streams up in the running program by the uids of their ends.

    The exchange that a stream came from may be gone, when sender and receiver are chained now.
    """

    def __init__(self, program: Program) -> None:
        plan = program.plan
        self._max_parallelism = plan.max_parallelism
        self._nodes: dict[str, Node] = {}
        self._types: dict[tuple[str, str | None], Any] = {}
        self._codecs: dict[tuple[str, str | None], ElementCodec] = {}
        for vertex in plan.vertices:
            for node in vertex.chain:
                self._nodes[node.uid or f"node-{node.id}"] = node
        for edge in plan.edges:
            sender = plan.vertices[edge.source].chain[edge.operator]
            name = sender.uid or f"node-{sender.id}"
            self._types[name, edge.tag] = program.record_types.get(edge.id)

    def codec_of(self, sender: str, tag: str | None) -> ElementCodec:
        """The codec of the records that operator `sender` emits under `tag`."""
        at = (sender, tag)
        if at not in self._codecs:
            node = self._nodes.get(sender)
            chained = node.record_type if node is not None and tag is None else None
            self._codecs[at] = ElementCodec(self._types.get(at, chained))
        return self._codecs[at]

    def groups_of(self, receiver: str) -> GroupsOf | None:
        """What gives the key groups of a batch for operator `receiver`; None when it is not keyed."""
        node = self._nodes.get(receiver)
        if not isinstance(node, KeyedProcessNode):
            return None
        key, groups = node.key, self._max_parallelism
        return lambda batch: batch.key_groups(key, groups)
