"""The part of an Environment that streams use, and helpers that add function steps and check keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from headgate.api.checking import inference
from headgate.api.checking.arguments import check_columns, refuse_arity, refuse_blocking, refuse_unawaited
from headgate.api.functions import is_blocking
from headgate.api.held_states import with_held_states
from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.api.program import Program
from headgate.api.site import user_site
from headgate.api.streams.declared_fields import (
    refuse_impossible_fields,
    refuse_impossible_key,
    refuse_unknown_fields,
)
from headgate.common.plain_data import Json
from headgate.common.settings.config import Config
from headgate.graph.logical import KeyedProcessNode, Node, ProcessNode
from headgate.records.selectors import KeySelector


class CollectingSink(Protocol):
    """A sink whose committed records are kept in the driver, as for ``collect_later()``."""

    @property
    def results(self) -> list[Any]:
        """The records that were committed so far; empty outside the driver."""


class ProgramContext(Protocol):
    """The part of an Environment that streams use: they add steps to its program and run jobs with it."""

    program: Program  # the steps written so far
    collecting: dict[str, CollectingSink]  # uid -> sink whose records :meth:`execute` brings to the driver
    collected: dict[str, list[Any]]  # uid -> records that jobs have brought

    def free_uid(self, stem: str) -> str:
        """Return a uid that no operator has: `stem`, or `stem` with the lowest free number from 2."""

    def describe(self, name: str = "job") -> dict[str, Json]:
        """Return what ``explain()`` shows of the program, as plain data; `name` is the job's name."""

    def _query(
        self, name: str, nodes: tuple[Node, ...], settings: Callable[[Config], Config]
    ) -> JobSpec | None:
        """Return a checked job of `nodes`, which need not be in the program; `settings` turns the program's
        configuration into the job's. Where only the plan is captured, write the plan and return None.
        """

    def _run(self, job: JobSpec) -> JobResult:
        """Run a job made by :meth:`_query` to its end and return its result."""


def add_function(
    environment: ProgramContext, node: ProcessNode | KeyedProcessNode, uid: str | None, *inputs: int
) -> int:
    """Add a step that runs a process function on the streams `inputs`, given by number; return its number."""
    function = node.function
    if isinstance(node, KeyedProcessNode):
        records = environment.program.node(inputs[0])
        node = replace(node, keys=inference.declared_keys(function, node.key, records))
        node = with_held_states(node, records.record_type)
    kind, waits = inference.process_output(function), is_blocking(function)
    node = replace(node, name=type(function).__name__, uid=uid, blocking=waits, record_type=kind)
    return environment.program.add(node, inputs)


def checked_key(
    environment: ProgramContext, number: int, key: KeySelector, more: tuple[str, ...], verb: str = "key_by"
) -> KeySelector:
    """Return the key selector of ``key_by(key, *more)``, or of another call `verb`, on stream `number`;
    PlanError if it gives no keys.
    """
    if callable(key) and not more:
        refuse_arity(f"{verb}() ({user_site()})", key, "one record")
        refuse_unawaited(verb, key)
        refuse_blocking(verb, key)
        refuse_impossible_key(verb, key)
        return key
    names = (key, *more)
    check_columns(verb, names)
    refuse_unknown_fields(verb, names, environment.program, number)
    refuse_impossible_fields(verb, map(str, names), environment.program.node(number).record_type)
    return tuple(map(str, names)) if more else str(key)
