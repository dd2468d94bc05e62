"""Refuses by name what cannot be replayed, and says what to do instead."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from headgate.api.functions import RichFunction
from headgate.api.source import Boundedness, Split
from headgate.common.errors import StrayPathError, UsageError
from headgate.graph.async_nodes import AsyncNode
from headgate.graph.logical import Node, SourceNode
from headgate.offline.replay.cutting import Cut
from headgate.restore.assignment import SPLITS, called
from headgate.state.snapshots import CheckpointMetadata

_MEASURES: Final = {"counter", "gauge", "histogram"}
"""Methods of a function's metrics."""

_SILENT: Final = {"RESUME", "CACHE", "PRECALL", "PUSH_NULL", "NOP"}
_ATTRIBUTES: Final = {"LOAD_ATTR", "LOAD_METHOD"}
_FROM_ELSEWHERE: Final = {
    *("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"),
    *("LOAD_SUPER_ATTR", "IMPORT_NAME", "MAKE_FUNCTION", "STORE_GLOBAL"),
}
"""Instructions of Python by which a function gets at what is not its own."""

_RECORDS = "give its records with --records FILE, one JSON value a line"


def check_sources(cut: Cut, begins: CheckpointMetadata, *, bounded: bool) -> None:
    """Raise UsageError for a source that cannot read its input again from the positions in a snapshot.

    `bounded`: whether something else than the end of the input ends the replay.
    """
    for node in cut.sources.values():
        if node.uid == cut.given:
            continue
        name = f"source {node.name!r} (uid {node.uid!r})"
        if not node.source.rereadable:
            raise UsageError(
                f"{name} cannot go back to where {called(begins)} was taken, as Spark drops what is in a "
                f"checkpoint; {_RECORDS}"
            )
        try:
            node.source.check_restore(begins.enumerators.get(node.uid or ""), _splits(node, begins))
        except (UsageError, StrayPathError) as error:
            raise UsageError(f"{name} cannot go on from {called(begins)}: {error}; or {_RECORDS}") from error
        if not bounded and node.source.boundedness is Boundedness.UNBOUNDED:
            raise UsageError(
                f"{name} has no end; say where the replay stops, with --to, --count or --until failure"
            )


def _splits(node: SourceNode, begins: CheckpointMetadata) -> list[Split]:
    states = begins.operators.get(node.uid or "", [])
    return [
        Split(name, position) for state in states for name, position, *_ in state.list_state.get(SPLITS, [])
    ]


def check_functions(cut: Cut, *, side_effects: bool) -> None:
    """Raise UsageError for functions that reach outside of the job, unless `side_effects`; asynchronous ones
    are always refused.
    """
    for node in (node for vertex in cut.plan.vertices for node in vertex.chain):
        name = f"operator {node.name!r} (uid {node.uid!r})"
        if isinstance(node, AsyncNode):
            raise UsageError(
                f"{name} calls an asynchronous function, whose answers are not recorded; {_RECORDS}, as they "
                "come out of it, to a program that begins there"
            )
        for what in () if side_effects else _reaches_out(node):
            raise UsageError(
                f"{name} {what}, which may reach outside of the job; give --allow-side-effects if it may run"
            )


def _reaches_out(node: Node) -> Iterator[str]:
    if node.blocking:
        yield "has a function that is marked as blocking"
    kind = type(getattr(node, "function", None))
    if issubclass(kind, RichFunction) and not (_is_ours(kind.open) or _only_measures(kind.open)):
        yield f"runs {kind.__name__}.open()"


def _only_measures(function: object) -> bool:
    # It sets attributes to constants, and to what a method of `context.metrics` returns; anything else may
    # reach outside of the job.
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2:
        return False
    steps = [each for each in dis.get_instructions(code) if each.opname not in _SILENT]
    if any(each.opname in _FROM_ELSEWHERE for each in steps):
        return False
    for before, each in pairwise(steps):
        if each.opname in _ATTRIBUTES:
            wanted = "metrics" if each.argval in _MEASURES else code.co_varnames[1]
            if each.argval not in _MEASURES | {"metrics"} or before.argval != wanted:
                return False
    return True


def _is_ours(function: object) -> bool:
    return getattr(function, "__module__", "").partition(".")[0] == "headgate"
