"""Makes tables of streams: finds which columns they have, and which column carries event time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.column_table import Table
from headgate.api.tables.grouped_table import GroupedTable
from headgate.api.tables.table_outputs import S
from headgate.common.errors import PlanError, UsageError
from headgate.common.refusals.calls import check_calls_of
from headgate.graph.logical import FilterNode, Node, PartitionNode, SourceNode, TimestampsNode
from headgate.graph.table_nodes import columns_given
from headgate.relational.relations import Scan
from headgate.relational.schema import Schema, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

_SAME_COLUMNS = (FilterNode, PartitionNode, TimestampsNode)

# A program that calls `to_table()` need never ask for `hg.Table`, by which its calls would get their checks.
for _each in (Table, GroupedTable):
    check_calls_of(_each)


def table_of(
    environment: ProgramContext,
    number: int,
    schema: pa.Schema | None,
    stream: Callable[[ProgramContext, int], S],
) -> Table[S]:
    """Return stream `number` as a table with the columns of `schema`; None: those of its source or table.
    Event time is the column that the stream's timestamps are read from; `stream` makes streams of a table.

    Raises:
        PlanError: the columns are not known, or one is of a type that Spark does not have.
    """
    node = environment.program.node(number)
    source, event_time = _followed(environment, node)
    try:
        known = _known(source, event_time) if schema is None else schema_of(schema, event_time)
        if known is None:
            raise PlanError(
                "the columns of the stream are not known; give them, as in "
                'to_table(pa.schema({"price": pa.int64()}))'
            )
        return Table(environment, Scan(known, number), stream)
    except (PlanError, UsageError) as error:
        raise PlanError(f"to_table() ({user_site()}): {error}") from None


def _followed(environment: ProgramContext, node: Node) -> tuple[Node, str | None]:
    event_time: str | None = None
    while isinstance(node, _SAME_COLUMNS):
        if isinstance(node, TimestampsNode) and event_time is None:
            given = node.strategy.timestamp
            event_time = given if isinstance(given, str) else None
        node = environment.program.node(node.inputs[0].id)
    return node, event_time


def _known(node: Node, event_time: str | None) -> Schema | None:
    if isinstance(node, SourceNode):
        columns = node.source.arrow_schema()
        return None if columns is None else schema_of(columns, event_time)
    schema = columns_given(node)
    return schema if schema is None or event_time is None else replace(schema, event_time=event_time)
