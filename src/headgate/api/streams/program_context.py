"""What a stream needs of the program that it belongs to. The Environment is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.api.program import Program
from headgate.common.settings.config import Config
from headgate.graph.logical import Node


class CollectingSink(Protocol):
    """A sink whose records its committer keeps in the driver."""

    @property
    def results(self) -> list[Any]:
        """The committed records."""
        ...


class ProgramContext(Protocol):
    """The program that a stream adds its steps to, and that runs what feeds the stream."""

    program: Program  # the steps written so far
    collecting: dict[str, CollectingSink]  # uid -> sink whose records :meth:`execute` brings to the driver
    collected: dict[str, list[Any]]  # uid -> records that the last job brought

    def free_uid(self, stem: str) -> str:
        """Return `stem`, or `stem` with the first number that no operator has as its uid."""
        ...

    def _query(
        self, name: str, nodes: tuple[Node, ...], settings: Callable[[Config], Config]
    ) -> JobSpec | None:
        """Check a job that runs in addition to the program's own; None where only the plan was asked for."""
        ...

    def _run(self, job: JobSpec) -> JobResult:
        """Run a job of :meth:`_query` to its end."""
        ...
