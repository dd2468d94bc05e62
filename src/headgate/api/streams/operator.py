"""What every step of a program has: a name, a uid and a parallelism."""

from __future__ import annotations

from typing import Self

from headgate.api.showing import html_facts
from headgate.api.site import user_site
from headgate.api.streams.program_context import ProgramContext
from headgate.common.errors import PlanError
from headgate.graph import logical
from headgate.graph.rewrites import VIRTUAL
from headgate.graph.type_text import type_text


class Operator:
    """Something in the program that has a name, a uid and a parallelism."""

    def __init__(self, environment: ProgramContext, number: int) -> None:
        self._environment, self._number = environment, number

    def __repr__(self) -> str:
        facts = self._facts()
        details = "".join(f", {name} {value}" for name, value in facts.items())
        return f"<{type(self).__name__} {self._node.name!r}{details}>"

    def _repr_html_(self) -> str:
        return html_facts(f"{type(self).__name__} {self._node.name}", self._facts())

    def _facts(self) -> dict[str, str | int]:
        node = self._node
        facts = {
            "of": None if node.record_type is None else type_text(node.record_type),
            "uid": None if node.uid is None else repr(node.uid),
            "parallelism": node.parallelism,
            "written at": node.site or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def _node(self) -> logical.Node:
        return self._environment.program.node(self._number)

    def name(self, name: str) -> Self:
        """Name the operator for people."""
        self._environment.program.change(self._number, name=name)
        return self

    def uid(self, uid: str) -> Self:
        """Name the operator for its state: what a later version of the program finds it by.

        Args:
            uid: unique in the program; printable, at most 200 characters, no slash.

        Raises:
            PlanError: not a uid, or the stream comes from no operator (``union``, ``rebalance``, ...).
        """
        self._demand_operator("a uid")
        self._environment.program.change(self._number, uid=uid)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of this operator alone.

        Raises:
            PlanError: not a whole number of at least 1, or the stream comes from no operator.
        """
        self._demand_operator("a parallelism")
        self._environment.program.change(self._number, parallelism=parallelism)
        return self

    def _demand_operator(self, what: str) -> None:
        if isinstance(self._node, VIRTUAL):
            raise PlanError(
                f"{self._node.name}() ({user_site()}) was given {what}, but it only says how records "
                f"travel; give {what} to the operator before or behind it"
            )


class StreamSink(Operator):
    """The end of a stream."""
