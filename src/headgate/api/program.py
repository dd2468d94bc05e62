"""The nodes a program has written so far, by number, and which of them have run. Streams hold a number, not a
node: a later ``uid()`` replaces the node, and streams that were built on it see the new one. Numbers are
never given twice, so that what a program adds later changes no name that was made of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from headgate.api.site import interactive, user_site
from headgate.common.errors import PlanError
from headgate.graph.logical import Node, SinkNode

_UID_LENGTH_MAX = 200


class Changes(TypedDict, total=False):
    """The fields of a node that can still be changed after it was added to the program."""

    name: str
    uid: str | None
    parallelism: int | None


class Program:
    """The nodes that the program of one Environment has, and which of them jobs have run. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._sinks_run: dict[int, str] = {}
        self._run: set[int] = set()
        self.ended: set[int] = set()  # nodes of jobs that have ended well
        self._looked_at: set[int] = set()

    def add(self, node: Node, inputs: Iterable[int] = ()) -> int:
        """Append a copy of `node` to the program, fed by the nodes with numbers `inputs`; return its number,
        from 0. The copy's site is the user's line, unless it has one. PlanError: invalid uid or parallelism.
        """
        _check_changes(node.name, {"uid": node.uid, "parallelism": node.parallelism})
        number = len(self._nodes)
        sources = tuple(self._nodes[key] for key in inputs)
        self._nodes[number] = replace(node, id=number, inputs=sources, site=node.site or user_site())
        return number

    def change(self, number: int, **changes: Unpack[Changes]) -> None:
        """Replace the given fields of node `number`; streams that were built on it see the new ones.
        PlanError: the node is a sink that a job has run or runs, or a value is invalid; then nothing changes.
        """
        node = self._nodes[number]
        if (job := self._sinks_run.get(number)) is not None:
            raise PlanError(
                f"cannot change {node.name!r} ({user_site()}): job {job!r} has written it already, and it is "
                "not run again; change it before execute(), or give the stream another sink"
            )
        _check_changes(node.name, changes)
        self._nodes[number] = replace(node, **changes)

    def node(self, number: int) -> Node:
        """Return the current version of node `number`; its `inputs` may be older versions of their nodes."""
        return self._nodes[number]

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes in the order of their numbers, each with the current versions of its inputs."""
        fresh: dict[int, Node] = {}
        for number, node in self._nodes.items():
            fresh[number] = replace(node, inputs=tuple(fresh[source.id] for source in node.inputs))
        return tuple(fresh.values())

    # -- parts of it

    def copied(self, *numbers: int) -> Program:
        """Return a new program of all nodes, or of `numbers` and what feeds them; it has run none of them."""
        made = Program()
        made._nodes = {node.id: node for node in (self.above(*numbers) if numbers else self.nodes())}
        return made

    def above(self, *numbers: int) -> tuple[Node, ...]:
        return closure(self.nodes(), numbers)

    def remaining(self) -> tuple[Node, ...]:
        """Return the nodes that no job has run, with what feeds them; all nodes if jobs have run all."""
        fresh = self.nodes()
        left = [node.id for node in fresh if node.id not in self._run]
        return closure(fresh, left) if left else fresh

    def pending(self) -> tuple[Node, ...]:
        """Return the nodes that the next ``execute()`` runs: sinks that no job has run, and what feeds them.
        A stream that nothing reads is included, for a check to refuse it, unless ``preview()`` and the like
        read it, or the program is written step by step in a shell or notebook.
        """
        fresh = self.nodes()
        fed = {source.id for node in fresh for source in node.inputs}
        wanted = [node.id for node in fresh if isinstance(node, SinkNode) and node.id not in self._sinks_run]
        if not interactive():
            known = fed | self._looked_at | self._run
            wanted += [node.id for node in fresh if node.id not in known and not isinstance(node, SinkNode)]
        return closure(fresh, wanted)

    # -- what has run

    @property
    def last_job(self) -> str | None:
        """Name of the last job that ran, or runs, a sink; None before the first."""
        return next(reversed(self._sinks_run.values()), None)

    def has_run(self, number: int) -> bool:
        return number in self._sinks_run

    def looked_at(self, nodes: Iterable[Node]) -> None:
        """Record that ``preview()`` or the like has read `nodes`, which therefore need no sink."""
        self._looked_at.update(node.id for node in nodes)

    def note_run(self, job: str, nodes: Iterable[Node]) -> None:
        """Record that the job called `job` runs `nodes`; called before it starts. Later jobs do not run its
        sinks again, unless :meth:`note_refused` follows.
        """
        for node in nodes:
            self._run.add(node.id)
            if isinstance(node, SinkNode):
                self._sinks_run[node.id] = job

    def note_refused(self, nodes: Iterable[Node]) -> None:
        """Undo :meth:`note_run` for sinks of a job that was refused before it began: later jobs run these."""
        for node in nodes:
            if self._sinks_run.pop(node.id, None) is not None:
                self._run.discard(node.id)


def closure(nodes: Sequence[Node], wanted: Collection[int]) -> tuple[Node, ...]:
    """Return the nodes with ids `wanted` and all that feed them; `nodes` must have inputs before readers."""
    found = set(wanted)  # inputs stand before their readers
    for node in reversed(nodes):
        if node.id in found:
            found.update(source.id for source in node.inputs)
    return tuple(node for node in nodes if node.id in found)


def _check_changes(name: str, changes: Changes) -> None:
    if (uid := changes.get("uid")) is not None:
        check_uid(name, uid)
    if (parallelism := changes.get("parallelism")) is not None:
        check_parallelism(name, parallelism)


def check_uid(name: str, uid: object) -> None:
    good = isinstance(uid, str) and 0 < len(uid) <= _UID_LENGTH_MAX and uid.isprintable()
    if not good or "/" in str(uid) or "\\" in str(uid):
        raise PlanError(
            f"uid of {name!r} ({user_site()}) is {uid!r}; expected 1 to {_UID_LENGTH_MAX} printable "
            "characters without a slash"
        )


def check_parallelism(name: str, parallelism: object) -> None:
    """Raise PlanError unless `parallelism`, the number of subtasks of operator `name`, is an int above 0."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise PlanError(
            f"parallelism of {name!r} ({user_site()}) is {parallelism!r}; "
            "expected a whole number of at least 1"
        )
