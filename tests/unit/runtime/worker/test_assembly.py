"""From the plan to names: what an exchange is called in a checkpoint."""

from __future__ import annotations

import headgate as hg
from headgate.connectors.collection import collection_source
from headgate.runtime.worker.assembly import edge_ends


class Same(hg.KeyedProcessFunction[str, dict[str, str], dict[str, str]]):
    """Emits what it gets."""

    def process(self, value, ctx):  # type: ignore[no-untyped-def]
        yield value


def test_exchanges_between_the_same_operators_have_names_of_their_own() -> None:
    """A stream united with itself: its records come twice, each time with a time of their own."""
    env = hg.Environment(parallelism=2)
    words = env.from_source(collection_source([{"k": "a"}]), uid="words")
    others = env.from_source(collection_source([{"k": "b"}]), uid="others")
    words.union(words, others).key_by("k").process(Same(), uid="same").collect_later(uid="out")
    plan = env.plan()
    ends = [edge_ends(plan, edge) for edge in plan.edges]
    assert {(each.sender, each.receiver, each.lineage) for each in ends} == {
        ("words", "same", 0),
        ("words", "same", 1),
        ("others", "same", 0),
    }
