"""The node of a function that is called asynchronously, many records at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.graph.logical import Node


@dataclass(frozen=True, eq=False)
class AsyncNode(Node):
    """A ``map_async()`` or ``flat_map_async()`` step. It begins a chain, and its subtasks keep the records
    whose results have not left as operator state; `function` is an `api.streams.async_calls.AsyncCalls`.
    """

    function: Any = None
