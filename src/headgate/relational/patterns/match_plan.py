"""The node of a plan of tables that finds matches of a pattern."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.relational.patterns.navigation import LookedUp
from headgate.relational.patterns.shapes import Pattern, variables_of
from headgate.relational.relations import Order, Relation
from headgate.relational.resolved import Typed


@dataclass(frozen=True, slots=True)
class Match(Relation):
    """A row for each match of a pattern among the rows of a key, in the order of event time.

    Attributes:
        child: the keys first, then what conditions and measures read.
        keys: how many columns of the child are the key.
        order: by which columns rows at one event time are ordered, before their order of coming.
        pattern: its variables, and in which order they come.
        conditions: of each variable (`variables`); None: every row will do. They are over the columns of the
            child, and over `looked_up` after them.
        looked_up: what conditions refer to of other rows of the match.
        measures: the result's columns after the keys, over the child's columns and then `measured`.
        measured: what measures refer to of the match.
        uid: by which a later program finds the state; None: none was given.
    """

    child: Relation
    keys: int
    order: tuple[Order, ...]
    pattern: Pattern
    conditions: tuple[Typed | None, ...]
    looked_up: tuple[LookedUp, ...]
    measures: tuple[Typed, ...]
    measured: tuple[LookedUp, ...]
    uid: str | None = None

    @property
    def variables(self) -> list[str]:
        """The names of the pattern's variables."""
        return variables_of(self.pattern.shape)

    @property
    def key_names(self) -> list[str]:
        """The names of the columns that are the key."""
        return self.child.schema.names[: self.keys]
