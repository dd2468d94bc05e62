"""The node of a function that is called asynchronously, many records at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headgate.graph.logical import Node
from headgate.graph.table_nodes import LoadedLookupNode


@dataclass(frozen=True, eq=False)
class AsyncNode(Node):
    """A ``map_async()`` or ``flat_map_async()`` step. It begins a chain, and its subtasks keep the records
    whose results have not left as operator state; `function` is an `api.streams.async_calls.AsyncCalls`.
    """

    function: Any = None


WAITING: Final = (AsyncNode, LoadedLookupNode)
"""Nodes whose operators may wait for calls of user code; each begins a chain, as only its head may wait."""
