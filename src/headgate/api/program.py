"""The nodes a program has written so far, by number, until the program is closed.

Streams hold a number, not a node: a later ``uid()`` replaces the node, and whoever was built on it
sees the new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.graph.logical import Node

_UID_LENGTH_MAX = 200


class Program:
    """Collects nodes. Not for several threads."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._closed: str | None = None

    def add(self, kind: type[Node], name: str, inputs: Iterable[int] = (), **fields: Any) -> int:
        """Append a node and return its number.

        Raises:
            PlanError: the program is closed, or the node's uid or parallelism is not one.
        """
        self.demand_open(f"add {name!r}")
        _check_fields(name, fields)
        number = len(self._nodes)
        sources = tuple(self._nodes[key] for key in inputs)
        self._nodes[number] = kind(id=number, name=name, inputs=sources, site=user_site(), **fields)
        return number

    def change(self, number: int, **fields: Any) -> None:
        """Replace fields of a node.

        Raises:
            PlanError: as :meth:`add`.
        """
        node = self._nodes[number]
        self.demand_open(f"change {node.name!r}")
        _check_fields(node.name, fields)
        self._nodes[number] = replace(node, **fields)

    def node(self, number: int) -> Node:
        """The node as it is now; its inputs may be older."""
        return self._nodes[number]

    def nodes(self) -> tuple[Node, ...]:
        """The whole program, every input replaced by the node as it is now."""
        fresh: dict[int, Node] = {}
        for number, node in self._nodes.items():
            fresh[number] = replace(node, inputs=tuple(fresh[source.id] for source in node.inputs))
        return tuple(fresh.values())

    def close(self, reason: str) -> None:
        """Refuse every later change, giving `reason`."""
        self._closed = reason

    def demand_open(self, action: str) -> None:
        """Refuse `action` when the program is closed.

        Raises:
            PlanError: the program is closed.
        """
        if self._closed is not None:
            raise PlanError(
                f"cannot {action} ({user_site()}): {self._closed}; write the whole program before that, "
                "or make another Environment"
            )


def _check_fields(name: str, fields: dict[str, Any]) -> None:
    if (uid := fields.get("uid")) is not None:
        check_uid(name, uid)
    if (parallelism := fields.get("parallelism")) is not None:
        check_parallelism(name, parallelism)


def check_uid(name: str, uid: object) -> None:
    """Refuse what cannot name an operator in a checkpoint.

    Raises:
        PlanError: not text, empty, too long, or with a slash or control character inside.
    """
    good = isinstance(uid, str) and 0 < len(uid) <= _UID_LENGTH_MAX and uid.isprintable()
    if not good or "/" in str(uid) or "\\" in str(uid):
        raise PlanError(
            f"uid of {name!r} ({user_site()}) is {uid!r}; expected 1 to {_UID_LENGTH_MAX} printable "
            "characters without a slash"
        )


def check_parallelism(name: str, parallelism: object) -> None:
    """Refuse what is no number of subtasks.

    Raises:
        PlanError: not a whole number of at least 1.
    """
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
        raise PlanError(
            f"parallelism of {name!r} ({user_site()}) is {parallelism!r}; "
            "expected a whole number of at least 1"
        )
