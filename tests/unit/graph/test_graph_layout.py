"""Places of vertices in a picture of the graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.graph.graph_layout import places

GRAPHS = st.integers(0, 12).flatmap(
    lambda size: st.tuples(
        st.just(list(range(size))),
        st.lists(
            st.tuples(st.integers(0, max(0, size - 2)), st.integers(1, 12)).map(
                lambda edge: (edge[0], min(size - 1, edge[0] + edge[1]))
            ),
            max_size=20 if size > 1 else 0,
        ),
    )
)


@given(GRAPHS)
def test_edges_lead_forward_and_no_place_is_taken_twice(
    graph: tuple[list[int], list[tuple[int, int]]],
) -> None:
    """Whatever the graph; rows have no gaps."""
    vertices, edges = graph
    found = places(vertices, edges)
    assert found.keys() == set(vertices)
    assert all(found[source][0] < found[target][0] for source, target in edges)
    assert len(set(found.values())) == len(vertices)
    for column in {place[0] for place in found.values()}:
        rows = sorted(row for other, row in found.values() if other == column)
        assert rows == list(range(len(rows)))


def test_parallel_lines_do_not_cross() -> None:
    """Two chains that were written crosswise are drawn beside each other."""
    found = places([0, 1, 2, 3], [(0, 3), (1, 2)])
    assert found[0][1] == found[3][1]
    assert found[1][1] == found[2][1]
