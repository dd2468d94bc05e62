"""Runs consecutive map, filter and flat_map functions as one loop of generated code.

One generated function handles a complete batch; per record only the user's functions are called. The line of
generated code in a traceback tells which operator raised the error.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import FrameType

import numpy as np

from headgate.graph.logical import FilterNode, FlatMapNode, MapNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch, take_times
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import user_error
from headgate.runtime.worker.operators.operator_contract import Operator, R

FusedNode = MapNode | FilterNode | FlatMapNode

MAP, FILTER, FLAT_MAP = "map", "filter", "flat_map"
_KIND = {MapNode: MAP, FilterNode: FILTER, FlatMapNode: FLAT_MAP}


class FusedOperator(Operator):
    """Runs consecutive map, filter and flat_map functions on each record, in one loop; one context per node.
    An error of user code is raised as UserFunctionError that names the function's operator and the record.
    """

    def __init__(self, contexts: Sequence[OperatorContext], nodes: Sequence[FusedNode]) -> None:
        super().__init__(contexts[-1])
        self._contexts = contexts
        self._kinds = tuple(_KIND[type(node)] for node in nodes)
        self._functions = [node.function for node in nodes]
        self._only_filters = all(kind == FILTER for kind in self._kinds)
        self._keeps_positions = all(kind == MAP for kind in self._kinds)

    @property
    def contexts(self) -> Sequence[OperatorContext]:
        return self._contexts

    def process(self, batch: Batch) -> None:
        timed = batch.timestamps is not None or batch.watermarks is not None
        columnar_filter = self._only_filters and isinstance(batch, ArrowBatch)
        indexed = columnar_filter or (timed and not self._keeps_positions)
        records, origins = self._run(batch.rows(), indexed)
        if columnar_filter:
            # The records themselves never left their columns.
            if origins:
                self.next.process(batch.take(np.array(origins, dtype=np.int64)))
            return
        if not records:
            return
        times, marks = batch.timestamps, batch.watermarks
        if timed and indexed:
            at = np.array(origins, dtype=np.int64)
            times, marks = take_times(times, at), take_times(marks, at)
        self.next.process(RowBatch(records, times, marks))

    def _run(self, rows: Sequence[R], indexed: bool) -> tuple[list[R], list[int]]:
        loop = compile_loop(self._kinds, indexed)
        out: list[R] = []
        origins: list[int] = []
        try:
            loop(rows, out.append, origins.append, self._functions)
        except BaseException as error:
            culprit, record = self._culprit(error, indexed)
            if self._kinds[culprit] == FLAT_MAP and type(error) is TypeError:
                _say_what_was_expected(error)
            raise user_error(self._contexts[culprit], error, record) from None
        return out, origins

    def context_of_call(self, inner: Sequence[FrameType]) -> OperatorContext:
        for frame in reversed(inner):
            for indexed in (False, True):
                if frame.f_code.co_filename == _file_name(self._kinds, indexed):
                    index, _ = line_owner(self._kinds, indexed).get(frame.f_lineno, (0, ""))
                    return self._contexts[index]
        return self._contexts[0]

    def _culprit(self, error: BaseException, indexed: bool) -> tuple[int, R | None]:
        name, trace = _file_name(self._kinds, indexed), error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        if trace is None:
            return 0, None
        index, record = line_owner(self._kinds, indexed).get(trace.tb_lineno, (0, "r0"))
        return index, trace.tb_frame.f_locals.get(record)


def _say_what_was_expected(error: TypeError) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and trace.tb_frame.f_code.co_filename.startswith("<headgate loop")
    given, is_not, rest = str(error).partition(" object is not iterable")
    if inside and is_not and not rest:
        kind = "None" if given == "'NoneType'" else f"one {given.strip(chr(39))}"
        error.args = (f"flat_map()'s function returned {kind}; yield the outputs, or return a list of them",)


def _file_name(kinds: tuple[str, ...], indexed: bool) -> str:
    return f"<headgate loop {'-'.join(kinds)}{' indexed' if indexed else ''}>"


def _source(kinds: tuple[str, ...], indexed: bool) -> tuple[str, dict[int, tuple[int, str]]]:
    names = ", ".join(f"f{i}" for i in range(len(kinds)))
    lines = ["def loop(rows, add, mark, functions):", f"    {names}, = functions"]
    lines += ["    i = -1", "    for r0 in rows:", "        i += 1"] if indexed else ["    for r0 in rows:"]
    owner: dict[int, tuple[int, str]] = {}
    indent, record = "        ", "r0"
    for index, kind in enumerate(kinds):
        given = record
        if kind == MAP:
            lines.append(f"{indent}r{index + 1} = f{index}({record})")
            record = f"r{index + 1}"
        elif kind == FILTER:
            lines.append(f"{indent}if not f{index}({record}): continue")
        else:
            lines.append(f"{indent}for r{index + 1} in f{index}({record}):")
            indent, record = indent + "    ", f"r{index + 1}"
        owner[len(lines)] = index, given
    lines.append(f"{indent}add({record})")
    if indexed:
        lines.append(f"{indent}mark(i)")
    return "\n".join(lines) + "\n", owner


@lru_cache(maxsize=256)
def compile_loop(kinds: tuple[str, ...], indexed: bool) -> Callable[..., None]:
    """Return the `loop(rows, add, mark, functions)` of `kinds` ("map", "filter", "flat_map"), from a cache.
    The loop calls `add` with each output and, if `indexed`, `mark` with the index of the row that it is from.
    """
    text, _ = _source(kinds, indexed)
    name = _file_name(kinds, indexed)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Callable[..., None]] = {}
    exec(compile(text, name, "exec"), scope)
    return scope["loop"]


@lru_cache(maxsize=256)
def line_owner(kinds: tuple[str, ...], indexed: bool) -> dict[int, tuple[int, str]]:
    """Return, by line number in the loop, the index of the function called there, and its argument's name."""
    return _source(kinds, indexed)[1]
