"""Side outputs of tables: the rows that came too late for the windows of an aggregation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from headgate.api.functions import OutputTag
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.common.errors import PlanError
from headgate.graph.logical import NEW, SideOutputNode
from headgate.relational.relations import Project, Relation, Scan


class SideOutputs:
    """Base class of tables: gives access to the late rows of an aggregation whose results a table has."""

    _environment: ProgramContext
    _relation: Relation

    @abstractmethod
    def _of(self, relation: Relation) -> Self:
        """Return a table of the same Environment for the plan `relation`."""

    def side_output(self, tag: OutputTag[Any]) -> Self:
        """Return the rows that came too late for the windows of this table's aggregation.

        They have the columns of the table that was grouped, and their event time. Call it on the table that
        ``agg()`` returned, or on columns selected of it.

        Args:
            tag: the one that ``late_to()`` was given.

        Raises:
            PlanError: this is not a table that ``agg()`` returned, or ``late_to()`` got no such tag.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> env = hg.Environment(parallelism=1)
            >>> rows = env.from_collection([{"at": 1_000, "user": "ada"}]).with_event_time("at")
            >>> visits = rows.to_table(pa.schema({"at": pa.int64(), "user": pa.string()}))
            >>> late = hg.OutputTag("late")
            >>> counts = visits.group_by("user", F.window("at", "10s")).late_to(late).count(uid="counts")
            >>> counts.side_output(late).columns
            ['at', 'user']
        """
        relation = self._relation
        while isinstance(relation, Project):  # columns that are chosen of the results
            relation = relation.child
        plan = relation.of if isinstance(relation, Scan) else None
        if plan is None or plan.late is None or plan.firing.late_tag != getattr(tag, "name", None):
            raise PlanError(
                f"side_output() ({user_site()}) got {tag!r}, and the table has no such side output; say "
                "late_to(tag) between group_by() and agg(), and call side_output(tag) on what agg() returns"
            )
        assert isinstance(relation, Scan)
        node = SideOutputNode(NEW, f"side output {tag.name}", tag=tag.name)
        return self._of(Scan(plan.late, self._environment.program.add(node, (relation.stream,))))
