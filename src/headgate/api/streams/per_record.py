"""The nodes of calls that run a function of one record, and of those that read its side outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.api.checking import inference
from headgate.api.checking.arguments import check_callable
from headgate.api.functions import OutputTag, is_blocking
from headgate.api.on_error import Decides, checked_on_error, may_quarantine
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.graph.logical import (
    NEW,
    FilterNode,
    FlatMapNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ProcessNode,
    SideOutputNode,
    SourceNode,
)

T = TypeVar("T")


def function_node(
    kind: type[MapNode | FlatMapNode | FilterNode],
    verb: str,
    function: Callable[[T], Any],
    output: Callable[[Callable[[T], Any]], Hint | None],
    uid: str | None,
    on_error: Decides | None,
) -> Node:
    """Return the node of a call `verb`; `output` gives the type of what `function` emits. PlanError: the
    function is async, or cannot be called with one record, or `on_error` is wrong.
    """
    check_callable(verb, function)
    guard, waits = checked_on_error(verb, on_error), is_blocking(function)
    return kind(
        NEW,
        verb,
        uid=uid,
        record_type=output(function),
        blocking=waits,
        on_error=guard,
        function=function,
    )


def side_output_node(emitter: Node, tag: OutputTag[T]) -> SideOutputNode:
    """Return the node of what `emitter` emits under the name of `tag`; PlanError: it has no side outputs."""
    has_some = isinstance(emitter, ProcessNode | KeyedProcessNode | SourceNode)
    if not has_some and not may_quarantine(emitter.on_error):
        raise PlanError(
            f"side output {tag.name!r} ({user_site()}) is taken from {emitter.name!r}, which has none; take "
            "it from the stream that process() or the source returned"
        )
    kind = inference.tag_output(tag)
    return SideOutputNode(NEW, f"side output {tag.name}", record_type=kind, tag=tag.name)
