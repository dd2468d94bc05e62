"""Looks up, in the plan, how in-flight records of a stream are encoded, and the key groups of its records."""

from __future__ import annotations

from headgate.common.ids import EdgeId
from headgate.graph.logical import KeyedProcessNode, Node
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.in_flight.stored_parts import GroupsOf


class StreamCatalog:
    """Finds codecs and key groups of stored in-flight streams, by the uids of the operators at their ends.
    The exchange that a stream came from may no longer exist, if its sender and receiver are chained now.
    """

    def __init__(self, program: Program) -> None:
        plan = program.plan
        self._max_parallelism = plan.max_parallelism
        self._nodes: dict[str, Node] = {}
        self._record_types = program.record_types
        self._edges: dict[tuple[str, str | None], EdgeId] = {}
        self._codecs: dict[tuple[str, str | None], ElementCodec] = {}
        for vertex in plan.vertices:
            for node in vertex.chain:
                self._nodes[node.known_as] = node
        for edge in plan.edges:
            self._edges[plan.vertices[edge.source].chain[edge.operator].known_as, edge.tag] = edge.id

    def codec_of(self, sender: str, tag: str | None) -> ElementCodec:
        """Return the codec of records that operator `sender` (a uid) emits; `tag`: a side output's, or None.
        For an operator or output that is not in the plan it is the codec of undeclared records.
        """
        at = (sender, tag)
        if at not in self._codecs:
            node = self._nodes.get(sender)
            record_type = node.record_type if node is not None and tag is None else None
            if (edge := self._edges.get(at)) is not None:
                record_type = self._record_types.get(edge)
            self._codecs[at] = ElementCodec(record_type)
        return self._codecs[at]

    def groups_of(self, receiver: str) -> GroupsOf | None:
        """Return a function from a batch to its key groups at `receiver` (a uid); None: it is not keyed."""
        node = self._nodes.get(receiver)
        if not isinstance(node, KeyedProcessNode):
            return None
        key, groups = node.key, self._max_parallelism
        return lambda batch: batch.key_groups(key, groups)
