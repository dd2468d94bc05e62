"""What joins by time have in common: both tables have event time, and rows of neither are corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.api.site import user_site
from headgate.api.tables.firing_rules import refuse_repeated
from headgate.api.tables.joins.regular_joins import input_of, joined_schema
from headgate.api.tables.joins.window_joins import keys_of, others_of, with_keys
from headgate.api.tables.updating import refuse_updates
from headgate.common.errors import PlanError
from headgate.relational.joins.equal_joins import ODD_KEYS
from headgate.relational.relations import JoinKind, Project, Relation
from headgate.relational.schema import Field, Schema


class Sides:
    """The two tables of a join by time in the call `verb`, and the columns `on` that are equal.

    Raises:
        PlanError: a column of `on` is not in both or cannot be a key; a table has no event time; its rows are
            corrected, or may come more than once.
    """

    def __init__(self, verb: str, left: Relation, right: Relation, on: Sequence[str]) -> None:
        self.where = f"{verb}() ({user_site()})"
        if not on or len({name.lower() for name in on}) < len(on):
            raise PlanError(
                f"{self.where} got the columns {', '.join(on) or '(none)'}; expected each once, one at least"
            )
        for word, side in (("left", left), ("right", right)):
            refuse_updates(verb, side)
            refuse_repeated(verb, side)
            if side.schema.event_time is None:
                raise PlanError(
                    f"{self.where}: the {word} table has no event time, by which its rows are joined; call "
                    "with_watermark() on the table, or with_event_time() on its stream before to_table()"
                )
        self._tables, self._on = (left, right), on
        self._keys = keys_of(self.where, on, left, right)
        self._both: list[list[Field]] = [self._keys, others_of(left, on), others_of(right, on)]

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the equal columns of the inputs, with the hidden one."""
        return (*self._on, ODD_KEYS)

    def inputs(self, kind: JoinKind) -> tuple[Project, Project]:
        """Return the inputs of a join of this kind, which have the columns of both sides."""
        kept = (kind in ("left", "full", "anti"), kind in ("right", "full"))
        left, right = (
            input_of(each if kept[side] else with_keys(each, self._keys), side, self._both, whole=True)
            for side, each in enumerate(self._tables)
        )
        return left, right

    def schema(self, kind: JoinKind) -> Schema:
        """Return the result's columns; its event time is the left table's ("right": the right one's)."""
        time = None if kind == "full" else self._tables[kind == "right"].schema.event_time
        return replace(joined_schema(self.where, kind, self._both, False), event_time=time)
