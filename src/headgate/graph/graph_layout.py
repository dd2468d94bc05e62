"""Places the vertices of a job's graph for a picture: columns in the direction of flow, few edges that cross.

Each vertex is in the column after the last one that sends to it. Within the columns the vertices are ordered
by the mean place of their neighbours, in a few sweeps back and forth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SWEEPS: Final = 8


def places(vertices: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Return the column and row of each vertex, from 0. `vertices` are in the direction of flow; an edge is
    the ids of the sending and the receiving vertex.

    Example:
        >>> places([0, 1, 2, 3], [(0, 2), (1, 2), (2, 3)])
        {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (2, 0)}
    """
    column = dict.fromkeys(vertices, 0)
    for source, target in sorted(edges, key=lambda edge: vertices.index(edge[0])):
        column[target] = max(column[target], column[source] + 1)
    columns: list[list[int]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for vertex in vertices:
        columns[column[vertex]].append(vertex)
    neighbours: dict[int, list[int]] = {vertex: [] for vertex in vertices}
    for source, target in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    for sweep in range(SWEEPS):
        row = {vertex: number for each in columns for number, vertex in enumerate(each)}
        for each in columns if sweep % 2 == 0 else reversed(columns):
            each.sort(key=lambda vertex: _mean([row[other] for other in neighbours[vertex]], row[vertex]))
            row |= {vertex: number for number, vertex in enumerate(each)}
    return (
        {vertex: (column[vertex], row) for each in columns for row, vertex in enumerate(each)}
        if columns
        else {}
    )


def _mean(rows: Sequence[int], default: int) -> float:
    return sum(rows) / len(rows) if rows else default
