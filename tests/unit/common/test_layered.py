"""LayeredTable: a dict for its owner, and for every snapshot what it was at the cut, in any interleaving."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.common.layered import LAYERS_MAX, MISSING, LayeredTable, slices_of

KEYS = st.integers(0, 7)


class Cut:
    """A snapshot that is read bit by bit, as by a thread beside the loop."""

    def __init__(self, table: LayeredTable, model: dict[int, list[int]]) -> None:
        self.layers, self.ticket = table.freeze()
        self.expected = copy.deepcopy(model)
        self.read: dict[int, list[int]] = {}
        self._slices = slices_of(self.layers, 2)

    def read_on(self) -> bool:
        """Take the next slice; False at the end."""
        for keys, values in self._slices:
            for key, value in zip(keys, values, strict=True):
                assert key not in self.read
                self.read[key] = list(value)
            return True
        return False


class Table(RuleBasedStateMachine):
    """Values are lists that are changed in place; the model is a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LayeredTable(list)
        self.shown: list[Any] = []
        self.table.on_change = self.shown.append
        self.model: dict[int, list[int]] = {}
        self.cuts: list[Cut] = []

    @initialize(keys=st.sets(KEYS))
    def fill(self, keys: set[int]) -> None:
        for key in keys:
            self.table.put(key, [key])
            self.model[key] = [key]

    @rule(key=KEYS, value=st.integers(10, 99))
    def put(self, key: int, value: int) -> None:
        self.table.put(key, [value])
        self.model[key] = [value]

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.table.remove(key)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def change_in_place(self, key: int) -> None:
        value = self.table.own(key)
        assert (value is MISSING) == (key not in self.model)
        if value is not MISSING:
            value.append(0)
            self.model[key].append(0)

    @rule(key=KEYS)
    def delete_as_of_a_dict(self, key: int) -> None:
        assert self.table.entries.pop(key, None) == self.model.pop(key, None)

    @rule()
    def freeze(self) -> None:
        self.cuts.append(Cut(self.table, self.model))

    @precondition(lambda self: self.cuts)
    @rule(which=st.integers(0, 99))
    def read_a_slice(self, which: int) -> None:
        self.cuts[which % len(self.cuts)].read_on()

    @precondition(lambda self: self.cuts)
    @rule(which=st.integers(0, 99), whole=st.booleans())
    def end_a_snapshot(self, which: int, whole: bool) -> None:
        cut = self.cuts.pop(which % len(self.cuts))
        if whole:
            while cut.read_on():
                pass
            assert cut.expected == cut.read
        self.table.thaw(cut.ticket)
        self.table.thaw(cut.ticket)

    @rule(budget=st.integers(0, 5))
    def settle(self, budget: int) -> None:
        done = self.table.settle(budget)
        assert done == self.table.settled
        if any(cut.layers for cut in self.cuts):
            assert not done

    @invariant()
    def is_the_model(self) -> None:
        entries = self.table.entries
        assert self.model == dict(entries.items())
        assert len(self.model) == len(entries)
        assert bool(self.model) == bool(entries)
        for key in range(8):
            assert entries.get(key, "none") == self.model.get(key, "none")
            assert (key in entries) == (key in self.model)

    @invariant()
    def keeps_its_bounds(self) -> None:
        assert len(self.table._deltas) <= LAYERS_MAX + 2
        assert self.shown[-1:] in ([], [self.table.entries])

    def teardown(self) -> None:
        for cut in self.cuts:
            while cut.read_on():
                pass
            assert cut.expected == cut.read
            self.table.thaw(cut.ticket)
        while not self.table.settle(1):
            pass
        assert type(self.table.entries) is dict
        assert self.model == self.table.entries


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=30, stateful_step_count=40)


def test_a_snapshot_is_the_dict_itself() -> None:
    """Nothing is copied at the cut, and the same dict is the table again when all is settled."""
    table = LayeredTable(list)
    for key in range(3):
        table.put(key, [key])
    held = table.entries
    layers, ticket = table.freeze()
    assert len(layers) == 1
    assert layers[0] is held
    table.put(7, [7])
    table.thaw(ticket)
    assert not table.settle(0)
    assert table.settle(1)
    assert table.entries is held
    assert held == {0: [0], 1: [1], 2: [2], 7: [7]}


def test_changes_while_the_layers_are_brought_back_are_the_last_word() -> None:
    """What is set or removed then is not overwritten by what an older layer still holds."""
    table = LayeredTable(list)
    for key in range(6):
        table.put(key, [key])
    tickets = []
    for number in range(2):
        tickets.append(table.freeze()[1])
        for key in range(6):
            table.put(key, [key, number])
    for ticket in tickets:
        table.thaw(ticket)
    assert not table.settle(1)
    table.put(1, ["new"])
    table.remove(2)
    table.own(3).append("changed")
    expected = {0: [0, 1], 1: ["new"], 3: [3, 1, "changed"], 4: [4, 1], 5: [5, 1]}
    while not table.settle(1):
        assert expected == dict(table.entries.items())
    assert expected == table.entries


def test_a_snapshot_begun_while_the_layers_are_brought_back() -> None:
    """It finds what is in the base by then and what is still above it, and bringing back stops for it."""
    table = LayeredTable(list)
    for key in range(6):
        table.put(key, [key])
    _, first = table.freeze()
    for key in range(3):
        table.put(key, [key, "new"])
    table.remove(5)
    table.thaw(first)
    assert not table.settle(2)
    layers, second = table.freeze()
    expected = {0: [0, "new"], 1: [1, "new"], 2: [2, "new"], 3: [3], 4: [4]}
    table.own(0).append("later")
    table.put(5, [5])
    assert not table.settle(100)
    assert expected == {
        k: v for keys, values in slices_of(layers, 2) for k, v in zip(keys, values, strict=True)
    }
    table.thaw(second)
    assert table.settle(100)
    assert table.entries == {**expected, 0: [0, "new", "later"], 5: [5]}


def test_an_empty_table_stays_a_dict() -> None:
    """A state that is never used costs nothing in a snapshot."""
    table = LayeredTable(list)
    layers, _ = table.freeze()
    table.put(1, [1])
    assert layers == ()
    assert table.settled


def test_snapshots_without_changes_between_them_add_no_layer() -> None:
    """Only what was changed makes a layer."""
    table = LayeredTable(list)
    table.put(1, [1])
    cuts = [table.freeze() for _ in range(50)]
    assert {len(layers) for layers, _ in cuts} == {1}
    assert len(table._deltas) == 1


def test_overlapping_snapshots_do_not_pile_up_layers() -> None:
    """However many snapshots overlap, the layers above the base are bounded, and every cut stays right."""
    table = LayeredTable(list)
    table.put("base", [0])
    cuts = []
    for number in range(5 * LAYERS_MAX):
        cuts.append(table.freeze())
        table.put(number, [number])
        if number % 3 == 0:
            table.remove(number - 1)
        assert len(table._deltas) <= LAYERS_MAX + 2
    for number, (layers, ticket) in enumerate(cuts):
        read = [key for keys, _ in slices_of(layers, 3) for key in keys]
        kept = [n for n in range(number) if (n + 1) % 3 or n + 1 >= number]
        assert sorted(read, key=str) == sorted(["base", *kept], key=str)
        table.thaw(ticket)
    assert table.settle(10_000)


def test_a_value_is_copied_once_per_snapshot_and_not_without() -> None:
    """The first access after the cut copies; later ones, and those after the release, do not."""
    copies: list[list[int]] = []

    def copied(value: list[int]) -> list[int]:
        copies.append(value)
        return list(value)

    table = LayeredTable(copied)
    for key in ("a", "b"):
        table.put(key, [1])
    _, first = table.freeze()
    assert table.own("a") is table.own("a")
    assert len(copies) == 1
    _, second = table.freeze()
    table.own("a")
    assert len(copies) == 2
    table.thaw(first)
    table.thaw(second)
    assert table.own("b") is table.own("b")
    assert len(copies) == 2
