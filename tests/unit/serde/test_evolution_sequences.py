"""Any sequence of allowed changes keeps every old value readable: random shapes, edits and values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.common.former_names import Alias
from headgate.serde.evolution.judging_types import reader_for
from headgate.serde.resolve import serializer_for

moderate = settings(max_examples=80, derandomize=True, deadline=None, database=None)

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    str: st.text(alphabet=st.characters()),
    list[int]: st.lists(st.integers(), max_size=3),
    int | None: st.none() | st.integers(),
    int | str: st.integers() | st.text(),
    tuple[int, bytes]: st.tuples(st.integers(), st.binary()),
    dict[str, list[int]]: st.dictionaries(st.text(), st.lists(st.integers(), max_size=2), max_size=2),
    Any: st.none() | st.booleans() | st.text() | st.tuples(st.integers()),
}

WIDER: dict[Any, list[Any]] = {
    int: [float, int | None, int | str, Any],
    str: [str | None, int | str, Any],
    list[int]: [list[float], list[int] | None, list[int | None], Any],
    int | None: [float | None, int | str | None],
    int | str: [str | bytes | int, float | str],
    tuple[int, bytes]: [tuple[float, bytes | None]],
    dict[str, list[int]]: [dict[str, list[int] | None], Any],
    list[float]: [list[float] | None],
    float: [float | None],
}
KINDS = ("dataclass", "struct", "namedtuple", "typeddict")


class Column(NamedTuple):
    """One field of a shape; `was` are its earlier names."""

    name: str
    hint: Any
    default: Any = None
    has_default: bool = False
    was: tuple[str, ...] = ()


class Shape(NamedTuple):
    """A record class at one time."""

    kind: str
    columns: tuple[Column, ...]


def class_of(shape: Shape) -> Any:
    """The class; fields with defaults come last where their order matters to Python."""
    fields = [(c.name, hint_of(shape.kind, c), c) for c in shape.columns]
    if shape.kind == "dataclass":
        cls: Any = dataclasses.make_dataclass(
            "Shape",
            [(n, h, dataclasses.field(default_factory=lambda c=c: c.default)) if c.has_default else (n, h)
             for n, h, c in fields],
            kw_only=True,
        )  # fmt: skip
    elif shape.kind == "struct":
        cls = msgspec.defstruct(
            "Shape",
            [
                (n, h, msgspec.field(default_factory=lambda c=c: c.default)) if c.has_default else (n, h)
                for n, h, c in fields
            ],
            kw_only=True,
        )
    elif shape.kind == "typeddict":
        cls = TypedDict("Shape", {n: h for n, h, _ in fields})
    else:
        cls = NamedTuple("Shape", [(n, h) for n, h, _ in fields])
        cls._field_defaults = {n: c.default for n, _, c in fields if c.has_default}
    cls.__qualname__, cls.__module__ = "Shape", __name__
    return cls


def hint_of(kind: str, column: Column) -> Any:
    """The annotation of a field."""
    hint = Annotated[column.hint, Alias(column.was)] if column.was else column.hint
    return NotRequired[hint] if kind == "typeddict" and column.has_default else hint


def instance(cls: Any, shape: Shape, values: dict[str, Any]) -> Any:
    """A record of a shape; without the absent values of a dict."""
    return {k: v for k, v in values.items() if v is not ...} if shape.kind == "typeddict" else cls(**values)


Row = dict[str, Any]
Edit = Callable[[Shape, list[Row]], tuple[Shape, list[Row]]]


@st.composite
def edits(draw: st.DrawFn, shape: Shape, step: int) -> tuple[Shape, Callable[[Row], Row]]:
    """One allowed change, and what becomes of the model's rows."""
    columns = list(shape.columns)
    fresh = f"f{step}"
    kind = draw(st.sampled_from(["add", "remove", "rename", "widen", "reorder", "convert"]))
    place = draw(st.integers(0, len(columns) - 1))
    one = columns[place]
    change: Callable[[Row], Row] = dict
    if kind == "add":
        hint = draw(st.sampled_from(list(TYPES)))
        value = draw(TYPES[hint])
        columns.insert(place, Column(fresh, hint, value, has_default=True))
        change = lambda row: {**row, fresh: ... if shape.kind == "typeddict" else value}  # noqa: E731
    elif kind == "remove" and len(columns) > 1:
        del columns[place]
        change = lambda row: {k: v for k, v in row.items() if k != one.name}  # noqa: E731
    elif kind == "rename":
        columns[place] = one._replace(name=fresh, was=(*one.was, one.name))
        change = lambda row: {fresh if k == one.name else k: v for k, v in row.items()}  # noqa: E731
    elif kind == "widen":
        columns[place] = one._replace(hint=draw(st.sampled_from(WIDER.get(one.hint, [one.hint]))))
    elif kind == "reorder":
        columns = draw(st.permutations(columns))
    return Shape(draw(st.sampled_from(KINDS)) if kind == "convert" else shape.kind, tuple(columns)), change


@moderate
@given(st.data())
def test_every_value_survives_any_sequence_of_allowed_changes(data: st.DataObject) -> None:
    """Written as the first shape, read as the last one and as those between, in one step or in several."""
    hints = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    shape = Shape(data.draw(st.sampled_from(KINDS)), tuple(Column(f"a{i}", h) for i, h in enumerate(hints)))
    rows = data.draw(
        st.lists(st.fixed_dictionaries({c.name: TYPES[c.hint] for c in shape.columns}), max_size=3)
    )
    cls = class_of(shape)
    first = stepwise = written(cls, [instance(cls, shape, row) for row in rows])
    for step in range(data.draw(st.integers(1, 4))):
        before = shape
        shape, change = data.draw(edits(shape, step))
        rows = [filled(change(row), before, shape) for row in rows]
        cls = class_of(shape)
        expected = [instance(cls, shape, row) for row in rows]
        at_once, now = read(first, cls, len(rows)), read(stepwise, cls, len(rows))
        assert now == expected
        # A key that is absent stays so only as long as the record is a dict all the way.
        assert shape.kind == "typeddict" or at_once == expected
        stepwise = written(cls, now)


def filled(row: Row, before: Shape, after: Shape) -> Row:
    """Absent keys of a dict become defaults when it becomes another kind of record."""
    if before.kind != "typeddict" or after.kind == "typeddict":
        return row
    defaults = {column.name: column.default for column in after.columns}
    return {name: defaults[name] if value is ... else value for name, value in row.items()}


def written(cls: Any, values: list[Any]) -> tuple[dict[str, Any], bytes]:
    """Description and bytes."""
    serializer = serializer_for(cls)
    return serializer.describe(), serializer.encode_checked(values)


def read(stored: tuple[dict[str, Any], bytes], cls: Any, number: int) -> list[Any]:
    """Values of another shape."""
    return reader_for(stored[0], serializer_for(cls))(stored[1], number)


@moderate
@given(st.data())
def test_any_value_of_any_shape_round_trips(data: st.DataObject) -> None:
    """Without a change the same values come back, of every kind of record."""
    hints = data.draw(st.lists(st.sampled_from(list(TYPES)), max_size=4))
    for kind in KINDS:
        shape = Shape(kind, tuple(Column(f"a{i}", hint) for i, hint in enumerate(hints)))
        row = data.draw(st.fixed_dictionaries({c.name: TYPES[c.hint] for c in shape.columns}))
        cls = class_of(shape)
        value = instance(cls, shape, row)
        assert read(written(cls, [value]), cls, 1) == [value]


def test_the_public_mark_is_the_one_used_here() -> None:
    """The model writes aliases as `hg.alias` does."""
    assert hg.alias("a", "b") == Alias(("a", "b"))
