"""Which copy of a module a name means: the table row by row, and what holds for every arrangement."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.settings.loader_options import MANDATORY_PATTERNS, ResolveOrder, pattern_list
from headgate.usercode.resolution import Origin, ParentFirst, Resolver, parent_first

CHILD, LAYER, PARENT = Origin.CHILD, Origin.LAYER, Origin.PARENT


@dataclass
class Disk:
    """What lies where; packages in `namespaces` have no `__init__` anywhere."""

    has_: dict[Origin, set[str]] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)

    def has(self, origin: Origin, name: str) -> bool:
        return name in self.has_.get(origin, set())

    def is_namespace(self, origin: Origin, name: str) -> bool:
        return name in self.namespaces


def decide(name: str, disk: Disk, order: ResolveOrder = ResolveOrder.CHILD_FIRST, *patterns: str) -> Origin:
    """One decision."""
    return Resolver(ParentFirst(patterns), order, disk).decide(name).origin


BOTH = Disk({CHILD: {"p", "p.a"}, PARENT: {"p", "p.a", "p.only", "json"}})
SPLIT = Disk(
    {CHILD: {"n", "n.mine"}, LAYER: {"n", "n.laid"}, PARENT: {"n", "n.ours", "n.mine"}}, namespaces={"n"}
)


@pytest.mark.parametrize(
    ("name", "origin"),
    [("builtins", CHILD), ("__main__", CHILD), ("atexit", CHILD), ("json", PARENT), ("sys", PARENT)],
)
def test_own_and_standard_modules(name: str, origin: Origin) -> None:
    """Whatever lies on the user's path."""
    assert decide(name, Disk({CHILD: {"json", "sys", "builtins"}})) is origin


def test_a_standard_module_cannot_be_claimed_by_anybody() -> None:
    """Not by order, not by files."""
    for order in ResolveOrder:
        assert decide("json.decoder", Disk({CHILD: {"json", "json.decoder"}}), order) is PARENT


def test_child_first_and_parent_first() -> None:
    """The order settles what both have; whoever alone has it gets asked in either."""
    only = Disk({CHILD: {"mine"}, PARENT: {"ours"}})
    assert decide("p", BOTH) is CHILD
    assert decide("p", BOTH, ResolveOrder.PARENT_FIRST) is PARENT
    for order in ResolveOrder:
        assert decide("mine", only, order) is CHILD
        assert decide("ours", only, order) is PARENT


def test_the_layer_lies_between() -> None:
    """User, layer, framework."""
    disk = Disk({CHILD: {"a"}, LAYER: {"a", "b"}, PARENT: {"a", "b", "c"}})
    assert [decide(name, disk) for name in "abcd"] == [CHILD, LAYER, PARENT, CHILD]


def test_a_regular_package_is_never_mixed() -> None:
    """A part that only the framework's copy of a package has is missing in the user's."""
    assert decide("p.only", BOTH) is CHILD
    assert decide("p.only", BOTH, ResolveOrder.PARENT_FIRST) is PARENT


def test_a_namespace_package_is_merged_portion_by_portion() -> None:
    """Each part is found wherever it is, the user's first."""
    parts = {"n.mine": CHILD, "n.laid": LAYER, "n.ours": PARENT, "n.nobody": CHILD}
    assert {name: decide(name, SPLIT) for name in parts} == parts


def test_patterns_come_before_the_order() -> None:
    """If the framework has the module; else as without the pattern."""
    assert decide("p", BOTH, ResolveOrder.CHILD_FIRST, "p.") is PARENT
    assert decide("p.a", BOTH, ResolveOrder.CHILD_FIRST, "p.a.") is PARENT
    assert decide("mine", Disk({CHILD: {"mine"}}), ResolveOrder.CHILD_FIRST, "mine.") is CHILD


def test_h6_a_pattern_is_a_plain_prefix() -> None:
    """Of the name with a dot behind it."""
    patterns = ParentFirst(("attr.", "lib"))
    assert [patterns.match(name) for name in ("attr", "attr.x", "attrs", "lib", "library")] == [
        *("attr.", "attr.", None, "lib", "lib"),
    ]


def test_h2_h3_default_and_additional_patterns_are_joined() -> None:
    """Those that the framework cannot do without are put back, and said so."""
    found = parent_first(pattern_list("yaml.;pyspark."), pattern_list(["attr."]))
    assert found.patterns == ("headgate.", "py4j.", "yaml.", "pyspark.", "attr.")
    assert found.readded == ("headgate.", "py4j.")
    assert parent_first().readded == ()


NAMES = st.sampled_from(["a", "a.b", "a.b.c", "b", "headgate", "headgate.x", "os", "os.path"])
DISKS = st.builds(
    Disk,
    st.fixed_dictionaries({origin: st.sets(NAMES) for origin in Origin}),
    st.sets(st.sampled_from(["a", "a.b"])),
)


@given(DISKS, NAMES, st.sampled_from(ResolveOrder), st.lists(st.sampled_from(["a.", "a.b.", "b"])))
def test_what_holds_for_every_arrangement(
    disk: Disk, name: str, order: ResolveOrder, additional: list[str]
) -> None:
    """Standard library and mandatory patterns first; a copy that is not there is named only where none is."""
    resolver = Resolver(parent_first(additional=additional), order, disk)
    decision = resolver.decide(name)
    assert resolver.decide(name) is decision
    assert decision.reason
    if name.startswith("os") or (
        any(f"{name}.".startswith(pattern) for pattern in MANDATORY_PATTERNS) and disk.has(PARENT, name)
    ):
        assert decision.origin is PARENT
    package = name.rpartition(".")[0]
    if package and decision.origin is not resolver.decide(package).origin:
        assert package in disk.namespaces or "pattern" in decision.reason
    if not package and decision.origin is not CHILD and not name.startswith("os"):
        assert disk.has(decision.origin, name)
