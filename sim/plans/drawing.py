"""Draws random plans of tables from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

from sim.plans.plan import (
    NULLABLE,
    Aggregate,
    Chosen,
    Column,
    Computed,
    Condition,
    Different,
    First,
    Grouped,
    Joined,
    Kind,
    Node,
    Over,
    Plan,
    Row,
    United,
)

HOWS: Final = ("inner", "left", "right", "full", "semi", "anti")
SETS: Final = ("union", "union", "intersect", "intersect_all", "subtract", "except_all")
NODES_MAX: Final = 8
ROWS_MAX: Final = 600
"""Most rows that a node is expected to have: else only nodes with fewer rows are drawn."""

Functions = dict[Kind, tuple[tuple[str, Kind], ...]]

_FUNCTIONS: Final[Functions] = {
    "int": (
        *(("count", "int"), ("sum", "int"), ("sum", "int"), ("avg", "float"), ("min", "int")),
        *(("max", "int"), ("count_distinct", "int"), ("count_if", "int")),
    ),
    "float": (
        *(("count", "int"), ("sum", "float"), ("avg", "float"), ("min", "float"), ("max", "float")),
        ("count_distinct", "int"),
    ),
    "text": (("count", "int"), ("min", "text"), ("max", "text"), ("count_distinct", "int")),
}

_COUNTED: Final[Functions] = {
    "int": (("count", "int"), ("sum", "int"), ("avg", "float"), ("count_if", "int")),
    "float": (("count", "int"),),
    "text": (("count", "int"),),
}
"""Those from which a row can be subtracted; with others whole groups are computed anew."""


def draw_plan(seed: int, most: int = NODES_MAX) -> Plan:
    """The plan of a seed, of at most so many nodes."""
    parts = (random.Random(f"{seed} {part}") for part in ("plan", "values", "conditions"))
    return _Drawing(*parts).plan(most)


class _Drawing:
    """A plan while it is drawn."""

    def __init__(self, rng: random.Random, of_values: random.Random, of_partners: random.Random) -> None:
        self._rng, self._names = rng, 0
        # What is drawn of these leaves the rest of a seed's plan as it is.
        self._of_values, self._of_partners = of_values, of_partners
        self._columns: dict[str, tuple[Column, ...]] = {}
        self._rows: dict[str, float] = {}
        self._corrected: set[str] = set()
        self._moving: set[str] = set()
        """Names of columns that a correction may change: as keys they make groups and partners go."""
        self._means: set[str] = set()
        """Names of columns with means: what they add up to depends on the order."""
        self._nodes: list[Node] = []

    def plan(self, most: int) -> Plan:
        rng = self._rng
        inputs = {f"in{number}": self._input() for number in range(rng.choice((1, 1, 2, 3)))}
        rows = {uid: self._input_rows(columns) for uid, columns in inputs.items()}
        self._columns |= inputs
        self._rows |= {uid: len(each) for uid, each in rows.items()}
        for _ in range(rng.randint(1, most - 1)):
            self._add(rng.choice(self._drawn()))
        if self._nodes[-1].uid not in self._corrected:
            self._add(rng.choice((self._grouped, self._grouped, self._first)))
        nodes = self._read()
        read = {each for node in nodes for each in node.inputs}
        between = [n.uid for n in nodes[:-1] if n.uid in self._corrected and rng.random() < 0.15]
        sinks = (*between[:1], nodes[-1].uid)
        inputs = {uid: columns for uid, columns in inputs.items() if uid in read}
        rows = {uid: rows[uid] for uid in inputs}
        return Plan(inputs, rows, nodes, sinks, {uid: rng.choice((5, 9, 20)) for uid in inputs})

    def _read(self) -> tuple[Node, ...]:
        """The last node, and what leads to it."""
        wanted, found = {self._nodes[-1].uid}, []
        for node in reversed(self._nodes):
            if node.uid in wanted:
                found.append(node)
                wanted.update(node.inputs)
        return tuple(reversed(found))

    def _input(self) -> tuple[Column, ...]:
        kinds: list[Kind] = ["int", "int", *self._rng.sample(["int", "float", "float", "text"], 2)]  # type: ignore[list-item]
        self._rng.shuffle(kinds)
        return tuple(self._column(kind) for kind in kinds)

    def _input_rows(self, columns: Sequence[Column]) -> list[Row]:
        rng = self._rng
        rows = [
            tuple(rng.choice(NULLABLE[column.kind]) for column in columns) for _ in range(rng.randint(8, 30))
        ]
        return rows + [rng.choice(rows) for _ in range(rng.choice((0, 0, 4)))]

    def _drawn(self) -> list[Callable[[], Node]]:
        """What may come next: joins twice, as most goes wrong there."""
        grouped, first = [self._grouped] * 3, [self._first] * 2
        others = [self._chosen, self._chosen, self._different, *[self._united] * 2, self._over]
        return [*others, *grouped, *[self._joined] * 4, *first]

    def _add(self, draw: Callable[[], Node]) -> None:
        node = draw()
        self._nodes.append(node)
        self._columns[node.uid] = node.columns
        corrects = isinstance(node, Grouped | First | Over) or (
            isinstance(node, Joined | United) and node.how not in ("inner", "union")
        )
        if corrects or self._corrected & set(node.inputs):
            self._corrected.add(node.uid)

    def _column(self, kind: Kind) -> Column:
        self._names += 1
        return Column(f"c{self._names}", kind)

    def _some(self, most: float = ROWS_MAX) -> str:
        """A table of at most so many rows, rather one that came last."""
        fitting = [uid for uid in self._columns if self._rows[uid] <= most] or [
            min(self._rows, key=self._rows.__getitem__)
        ]
        read = {each for node in self._nodes for each in node.inputs}
        fresh = [
            uid
            for uid in fitting
            if uid not in read and uid not in self._columns.keys() - {n.uid for n in self._nodes}
        ]
        return self._rng.choice(fresh if fresh and self._rng.random() < 0.75 else fitting)

    def _uid(self, verb: str, rows: float) -> str:
        uid = f"{verb}{len(self._nodes)}"
        self._rows[uid] = rows
        return uid

    def _same(self, column: Column) -> Computed:
        return self._computed(column.kind, "same", column)

    def _computed(self, kind: Kind, how: str, of: Column, number: int = 0) -> Computed:
        name = self._column(kind).name
        for names in (self._moving, self._means):
            if of.name in names:
                names.add(name)
        return Computed(name, kind, how, of.name, number)

    def _named_as(self, column: Column, other: Computed) -> Computed:
        """A column that goes together with one of another table."""
        if column.name in self._means:
            self._means.add(other.name)
        return self._same(column)._replace(name=other.name)

    def _made(self, column: Column) -> Computed:
        rng = self._rng
        hows = {
            "int": ("same", "plus", "modulo", "known", "filled"),
            "float": ("same", "twice", "known", "filled"),
            "text": ("same", "length", "known", "filled"),
        }
        how = rng.choice(hows[column.kind])
        kind: Kind = "int" if how in ("known", "length") else column.kind
        return self._computed(kind, how, column, rng.choice((2, 3)))

    def _keys(self, uid: str, most: int, *, nulls: bool = False) -> tuple[list[Column], tuple[Computed, ...]]:
        """Some columns of a table, and keys of them; without `nulls` they have none."""
        columns = self._columns[uid]
        moving = [each for each in columns if each.name in self._moving]
        if moving and most and self._rng.random() < 0.5:
            columns = tuple(moving)
        of = self._rng.sample(columns, min(len(columns), most))
        how = "same" if nulls else "filled"
        return of, tuple(self._computed(each.kind, how, each) for each in of)

    def _chosen(self) -> Node:
        rng, of = self._rng, self._some()
        columns = self._columns[of]
        computed = [self._made(rng.choice(columns)) for _ in range(rng.randint(0, 2))]
        computed += [self._same(column) for column in columns if rng.random() < 0.85]
        computed = computed or [self._same(columns[0])]
        condition = self._condition(rng.choice(columns)) if rng.random() < 0.6 else None
        uid = self._uid("chosen", self._rows[of])
        return Chosen(uid, (of,), _shown(computed), tuple(computed), condition)

    def _condition(self, column: Column, rng: random.Random | None = None) -> Condition:
        rng = rng or self._rng
        how = rng.choice(("less", "equal", "unlike", "unlike", "known", "unknown"))
        value = rng.choice([each for each in NULLABLE[column.kind] if each is not None and each == each])
        return Condition(how, column.name, column.kind, value)

    def _united(self) -> Node:
        left = self._some(ROWS_MAX / 2)
        right = self._some(ROWS_MAX / 2)
        pairs = [
            (mine, other)
            for mine, other in zip(
                self._columns[left],
                self._rng.sample(self._columns[right], len(self._columns[right])),
                strict=False,
            )
            if mine.kind == other.kind
        ]
        if not pairs:
            return self._chosen()
        sides: tuple[list[Computed], list[Computed]] = ([], [])
        for mine, other in pairs:
            sides[0].append(self._same(mine))
            sides[1].append(self._named_as(other, sides[0][-1]))
        uid = self._uid("united", self._rows[left] + self._rows[right])
        how = self._rng.choice(SETS)
        return United(uid, (left, right), _shown(sides[0]), how, (tuple(sides[0]), tuple(sides[1])))

    def _different(self) -> Node:
        of = self._some()
        columns = self._columns[of]
        computed = tuple(self._same(each) for each in self._rng.sample(columns, min(2, len(columns))))
        return Different(self._uid("different", self._rows[of]), (of,), _shown(computed), computed)

    def _grouped(self) -> Node:
        of = self._some()
        nulls, most = self._rng.random() < 0.3, self._rng.choice((0, 1, 1, 1, 2))
        _, keys = self._keys(of, most, nulls=nulls)
        counted = of in self._corrected and self._rng.random() < 0.5
        found = self._aggregates(of, _COUNTED if counted else _FUNCTIONS)
        found = tuple(self._of_different_values(each, self._columns[of]) for each in found)
        uid = self._uid("grouped", min(self._rows[of], 7.0 ** len(keys)))
        return Grouped(uid, (of,), (*_shown(keys), *_shown(found)), nulls and most > 0, keys, found)

    def _aggregates(self, of: str, functions: Functions = _FUNCTIONS) -> tuple[Aggregate, ...]:
        rng, found = self._rng, []
        for _ in range(rng.randint(1, 3)):
            column = rng.choice(self._columns[of])
            if rng.random() < 0.2:
                found.append(self._aggregate("int", "count", None))
            else:
                function, kind = rng.choice(functions[column.kind])
                if column.name in self._means and function in ("sum", "avg"):
                    function = "max"
                found.append(self._aggregate(kind, function, column.name))
        return tuple(found)

    def _of_different_values(self, each: Aggregate, columns: Sequence[Column]) -> Aggregate:
        """Now and then a count becomes one of different values, and these are of some rows only."""
        rng = self._of_values
        if each.function == "count" and each.of is not None and rng.random() < 0.5:
            each = each._replace(function="count_distinct")
        if each.function == "count_distinct" and rng.random() < 0.6:
            each = each._replace(within=self._condition(rng.choice(columns), rng))
        return each

    def _aggregate(self, kind: Kind, function: str, of: str | None) -> Aggregate:
        name = self._column(kind).name
        self._moving.add(name)
        if kind == "float" and (function == "avg" or of in self._means):
            self._means.add(name)
        return Aggregate(name, kind, function, of)

    def _joined(self) -> Node:
        rng, left = self._rng, self._some()
        right = left if rng.random() < 0.2 else self._some(4 * ROWS_MAX / max(1, self._rows[left]))
        pairs = [(a, b) for a in self._columns[left] for b in self._columns[right] if a.kind == b.kind]
        expected = self._rows[left] * self._rows[right] / 4
        if not pairs or expected > ROWS_MAX:
            return self._grouped()
        # Where one side moves, its partners are left alone.
        moving = [pair for pair in pairs if len(self._moving & {each.name for each in pair}) == 1]
        if moving and rng.random() < 0.7:
            pairs = [rng.choice(moving)]
        how = rng.choice(HOWS)
        keys: tuple[list[Computed], list[Computed]] = ([], [])
        for mine, other in rng.sample(pairs, min(len(pairs), rng.choice((1, 1, 2)))):
            keys[0].append(self._same(mine))
            keys[1].append(self._named_as(other, keys[0][-1]))
        others = [tuple(self._same(each) for each in self._columns[side]) for side in (left, right)]
        shown = [*keys[0], *others[0], *(() if how in ("semi", "anti") else others[1])]
        rows = (
            self._rows[left] if how in ("semi", "anti") else expected + self._rows[left] + self._rows[right]
        )
        uid = self._uid("joined", rows)
        by, along = (tuple(keys[0]), tuple(keys[1])), (others[0], others[1])
        return Joined(uid, (left, right), _shown(shown), how, by, along, self._partners(*along))

    def _partners(self, left: Sequence[Computed], right: Sequence[Computed]) -> tuple[str, str, str] | None:
        """Now and then a condition that partners have to meet."""
        rng = self._of_partners
        pairs = [(a.name, b.name) for a in left for b in right if a.kind == b.kind]
        if rng.random() < 0.7 or not pairs:
            return None
        mine, other = rng.choice(pairs)
        return mine, rng.choice(("<", "<>")), other

    def _first(self) -> Node:
        rng, of = self._rng, self._some()
        keep: Literal["first", "last"] | None = rng.choice((None, None, "first", "last"))
        keyed, keys = self._keys(of, rng.choice((1, 1, 2)), nulls=keep is not None)
        others = self._others(of, keyed)
        order, n = self._order(keys, others), 1 if keep else rng.choice((1, 1, 2, 3))
        rank = self._column("int") if not keep and rng.random() < 0.4 else None
        shown = (*_shown(keys), *_shown(others), *(() if rank is None else (rank,)))
        uid = self._uid("first", min(self._rows[of], n * 7.0 ** len(keys)))
        name = None if rank is None else rank.name
        return First(uid, (of,), shown, keep, n, keys, others, order, name)

    def _over(self) -> Node:
        rng, of = self._rng, self._some(ROWS_MAX / 3)
        keyed, keys = self._keys(of, 1)
        others = self._others(of, keyed)
        renamed = {each.of: each.name for each in others}
        found = [
            each._replace(of=None if each.of is None else renamed[each.of])
            for each in self._aggregates(of)
            if (each.of is None or each.of in renamed) and each.function != "count_distinct"
        ] or [self._aggregate("int", "count", None)]
        order, uid = self._order(keys, others), self._uid("over", self._rows[of])
        shown = (*_shown(keys), *_shown(others), *_shown(found))
        return Over(uid, (of,), shown, keys, others, order, rng.choice((None, 0, 1, 2)), tuple(found))

    def _others(self, of: str, keyed: list[Column]) -> tuple[Computed, ...]:
        return tuple(self._same(each) for each in self._columns[of] if each not in keyed)

    def _order(self, keys: Sequence[Computed], others: Sequence[Computed]) -> tuple[tuple[str, bool], ...]:
        names = [each.name for each in others] or [keys[0].name]
        return tuple((name, self._rng.random() < 0.5) for name in self._rng.sample(names, len(names)))


def _shown(found: Sequence[Computed | Aggregate]) -> tuple[Column, ...]:
    return tuple(Column(each.name, each.kind) for each in found)
