"""What explain says: chains, exchanges, shapes, state, guarantees, slots."""

from __future__ import annotations

import json
from typing import Any

import pytest
from graph_samples import Sketch

from headgate.common.settings.options import CheckpointingMode
from headgate.graph.explain import describe, key_text, partitioner_text, render
from headgate.graph.guarantees import Checkpointing
from headgate.graph.logical import MapNode, SelectNode
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Rebalance
from headgate.graph.plan import physical_plan
from headgate.graph.type_text import StateFact, type_text


def explained(
    s: Sketch,
    states: dict[int, list[StateFact]] | None = None,
    checkpointing: Checkpointing = Checkpointing(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """The facts of a sketch."""
    return describe("job", s.nodes, physical_plan(s.nodes, 2), states or {}, 1, checkpointing)


def test_columns_survive_the_key_exchange_up_to_the_per_record_function() -> None:
    """A columnar source stays columnar through event time, select and key_by; the function converts."""
    s = Sketch()
    picked = s.add(SelectNode, s.times(s.source(columns=True)), columns=("who",))
    s.sink(s.keyed(picked))
    facts = explained(s)
    emits = [(o["emits"], o["conversion"]) for v in facts["vertices"] for o in v["chain"]]
    assert emits == [
        ("columns", None),
        ("columns", None),
        ("columns", None),
        ("rows", "columns -> rows"),
        (None, None),
    ]
    assert [edge["shape"] for edge in facts["edges"]] == ["columns"]


def test_event_time_by_function_turns_columns_into_rows() -> None:
    """A function of the record needs records."""
    s = Sketch()
    times = s.times(s.source(columns=True))
    object.__setattr__(times.strategy, "timestamp", len)
    s.sink(times)
    chain = explained(s)["vertices"][0]["chain"]
    assert [operator["conversion"] for operator in chain] == [None, "columns -> rows", None]


def test_a_union_of_both_shapes_is_either() -> None:
    """What cannot be known before running is called so."""
    s = Sketch()
    s.sink(s.union(s.source(columns=True), s.source()), columns=False)
    facts = explained(s)
    assert facts["vertices"][2]["chain"][0]["conversion"] == "rows or columns -> rows"


def test_a_sink_that_says_nothing_of_columns_converts_nothing() -> None:
    """A conversion is announced only where it is known."""
    s = Sketch()
    s.sink(s.source(columns=True))
    assert explained(s)["vertices"][0]["chain"][1]["conversion"] is None


def test_text_names_all_that_matters() -> None:
    """Slots, chains, exchanges, state, guarantees and the user's lines are in the text."""
    s = Sketch()
    keyed = s.keyed(
        s.source(columns=True, uid="in"), uid="streaks", name="Streak", record_type=tuple[str, int]
    )
    sink = s.sink(keyed, name="out")
    checkpointing = Checkpointing(CheckpointingMode.EXACTLY_ONCE, committing=frozenset({sink.id}))
    text = render(explained(s, {keyed.id: [StateFact("count", "value", ("int",))]}, checkpointing))
    for expected in (
        "needs 2 slots and 1 reserved; 128 key groups",
        "KeyedProcess 'Streak'  uid 'streaks'  from 1  key 'who'  emits tuple[str, int]  at job.py:2",
        "vertex 1: Streak -> out  x2",
        "=> by key 'who' to vertex 1, columns",
        "converts columns -> rows",
        "state count: value[int]",
        "      guarantee exactly-once",
    ):
        assert expected in text
    assert "uid 'sink-3'" in text
    assert "Sink 'out'  uid" not in text, "a made-up uid is not shown as the user's"


def test_both_graphs_state_the_guarantee_in_force() -> None:
    """As written and as it runs, a sink promises the same: what the mode allows, not what it claims."""
    s = Sketch()
    sink = s.sink(s.keyed(s.source()))
    facts = explained(s, checkpointing=Checkpointing(CheckpointingMode.EXACTLY_ONCE))
    said = "state exactly-once, output at-least-once"
    assert facts["logical"][sink.id]["guarantee"] == said
    assert facts["vertices"][1]["chain"][-1]["guarantee"] == said
    assert f"      guarantee {said}" in render(facts).splitlines()
    assert "      guarantee no guarantee" not in render(explained(s))
    assert "      no guarantee: checkpoints are off" in render(explained(s)).splitlines()


@pytest.mark.parametrize("unaligned", [True, False])
def test_exchanges_that_always_align_are_shown_for_unaligned_checkpoints(unaligned: bool) -> None:
    """A broadcast aligns always; without unaligned checkpoints there is nothing to tell."""
    s = Sketch()
    s.sink(s.map(s.travel(s.source(), Broadcast())))
    s.sink(s.map(s.travel(s.source(), Rebalance())))
    facts = explained(s, checkpointing=Checkpointing(CheckpointingMode.EXACTLY_ONCE, unaligned))
    shown = [(edge["partitioner"], edge["always_aligned"]) for edge in facts["edges"]]
    lines = [line.strip() for line in render(facts).splitlines() if "=>" in line]
    if unaligned:
        assert shown == [("broadcast", True), ("rebalance", False)]
        assert lines == [
            "=> broadcast to vertex 1, rows, always aligned",
            "=> rebalance to vertex 3, rows",
        ]
    else:
        assert shown == [("broadcast", None), ("rebalance", None)]
        assert lines == ["=> broadcast to vertex 1, rows", "=> rebalance to vertex 3, rows"]


def test_a_side_output_is_shown_with_its_tag() -> None:
    """Side outputs are rows, whatever the main output is."""
    s = Sketch()
    processed = s.process(s.source(columns=True))
    s.sink(processed)
    s.sink(s.side(processed, "late"))
    assert "=> side output 'late' forward to vertex 1, rows" in render(explained(s))


def test_json_holds_plain_values_only() -> None:
    """The facts survive a round trip through JSON unchanged."""
    s = Sketch()
    s.sink(s.map(s.keyed(s.times(s.source()), key=("a", "b"))))
    facts = explained(s)
    assert json.loads(json.dumps(facts)) == facts


def test_words_for_keys_partitioners_and_types() -> None:
    """Each kind of selector, partitioner and type has words of its own."""
    assert [key_text(k) for k in ("a", ("a", "b"), len)] == ["'a'", "('a', 'b')", "len()"]
    given = (Forward(), Rebalance(), Broadcast(), ByKeyGroup("a"))
    assert [partitioner_text(p) for p in given] == ["forward", "rebalance", "broadcast", "by key 'a'"]
    hints = (int, list[int], int | None, None, MapNode)
    assert [type_text(t) for t in hints] == ["int", "list[int]", "int | None", "unknown", "MapNode"]


def test_a_blocking_operator_is_shown_to_run_beside_the_loop() -> None:
    """Only the one that is marked says so."""
    s = Sketch()
    s.sink(s.map(s.map(s.source(), name="ask", blocking=True), name="then"))
    facts = explained(s)
    said = [[operator["blocking"] for operator in vertex["chain"]] for vertex in facts["vertices"]]
    assert said == [[False], [True, False, False]]
    lines = render(facts).splitlines()
    assert lines.count("      runs beside the loop") == 1
    assert lines[lines.index("      runs beside the loop") - 1].startswith("    ask ")
