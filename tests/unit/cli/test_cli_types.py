"""``headgate types``: type, serializer and storability of every stream and state, without starting a job."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from headgate.cli.main import app
from headgate.cli.types import render
from headgate.common.errors import UsageError
from headgate.common.ids import VertexId
from headgate.graph.logical import KeyedProcessNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.graph.type_facts import NO, PLAIN_ONLY, YES, record_serializer, storable, type_rows
from headgate.graph.type_text import StateFact, type_text
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.frames import FrameKind
from headgate.serde.resolve import composite_serializer

PROGRAM = """
from dataclasses import dataclass
from typing import Any
import headgate as hg

@dataclass(frozen=True)
class Word:
    text: str
    size: int

class Opaque:
    pass

def parse(number: int) -> Word:
    return Word("w", number)

def hide(word) -> Opaque:
    return Opaque()

LATE = hg.OutputTag[int]("late")

class Count(hg.KeyedProcessFunction):
    count: hg.ValueState[int] = hg.value_state(default=0)
    words: hg.ListState[Word] = hg.list_state()
    seen: hg.MapState[str, Any] = hg.map_state()
    loose: hg.ValueState = hg.value_state()

    def process(self, record, ctx):
        yield 1

env = hg.Environment(parallelism=2)
words = env.from_collection([1], uid="in").map(parse, uid="parse")
counted = words.key_by("text").process(Count(), uid="count")
counted.rebalance().map(hide, uid="hide").rebalance().collect_later()
counted.side_output(LATE).rebalance().write_json("late")
env.execute("typed")
raise SystemExit("the program went on")
"""


COLUMNS_AND_DICTS = """
from typing import TypedDict
import headgate as hg

class Options(TypedDict):
    name: str

def options(record) -> Options:
    return {"name": record["name"]}

env = hg.Environment()
rows = env.read_parquet("no such file", uid="in").rebalance().map(options, uid="map").rebalance()
rows.write_json("out")
env.execute("columns")
"""


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    x: int
    y: Any = None


class Pair(NamedTuple):
    left: int


class Options(TypedDict):
    name: str


class Coloured(TypedDict):
    colour: Colour


class Event(msgspec.Struct):
    kind: str


class Opaque:
    """A class that nothing is known of."""


class Odd:
    """Fields of no known serializer."""

    inside: complex


def headgate(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that must not be run."""
    file = tmp_path_factory.mktemp("types") / "job.py"
    file.write_text(PROGRAM, encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def facts(program: str) -> dict[str, Any]:
    """What the command tells machines."""
    code, out, err = headgate("types", program, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_every_stream_is_told(facts: dict[str, Any]) -> None:
    """Type, who tells it, serializer, and whether its records can be stored in flight."""
    assert facts["job"] == "typed"
    keys = ("uid", "tag", "type", "why", "serializer", "immutable", "in_flight")
    streams = [tuple(row[key] for key in keys) for row in facts["streams"]]
    undeclared = "not declared"
    assert streams == [
        ("in", None, "int", "inferred from the source", "self-describing", True, "yes"),
        ("parse", None, "Word", "annotation of parse", "dataclass", True, "yes"),
        ("count", None, "unknown", undeclared, "self-describing", None, "plain values only"),
        ("count", "late", "int", "type argument of the tag", "self-describing", True, "yes"),
        ("hide", None, "Opaque", "annotation of hide", "self-describing", None, "no"),
    ]
    assert facts["streams"][0]["to"] is None
    assert all(isinstance(row["to"], int) for row in facts["streams"][1:])


def test_streams_that_travel_otherwise_than_their_type_says(tmp_path: Path) -> None:
    """Columns travel as Arrow and are always storable; a TypedDict's values are plain dicts."""
    file = tmp_path / "job.py"
    file.write_text(COLUMNS_AND_DICTS, encoding="utf-8")
    _, out, _ = headgate("types", str(file), "--json")
    keys = ("type", "serializer", "in_flight")
    streams = [tuple(row[key] for key in keys) for row in json.loads(out)["streams"]]
    assert streams == [("unknown", "Arrow", "yes"), ("Options", "self-describing", "yes")]


def test_declared_types_without_fields_are_told_by_their_serializer(tmp_path: Path) -> None:
    """They are not pickled between workers, and no plain values either."""
    program = tmp_path / "job.py"
    program.write_text("""import enum
import headgate as hg
from dataclasses import dataclass

class Color(enum.Enum):
    RED = 1

@dataclass
class Shop:
    name: str

def color(n: int) -> Color:
    return Color.RED

def pair(n: int) -> tuple[str, Shop]:
    return "a", Shop("b")

env = hg.Environment(parallelism=2)
for function in (color, pair):
    env.generate(lambda n: n, count=1).map(function).rebalance().collect_later()
env.execute()
""")
    _, out, _ = headgate("types", str(program), "--json")
    streams = json.loads(out)["streams"]
    told = {row["type"]: row["serializer"] for row in streams if row["serializer"] != "self-describing"}
    assert told == {"Color": "enum", "tuple[str, __main__.Shop]": "tuple"}


def test_every_state_is_told(facts: dict[str, Any]) -> None:
    """Kind, types, serializer of each type, and whether a snapshot must guard its values."""
    keys = ("state", "kind", "types", "serializer", "why", "immutable")
    assert {row["uid"] for row in facts["states"]} == {"count"}
    assert [tuple(row[key] for key in keys) for row in facts["states"]] == [
        ("count", "value", ["int"], ["int"], "annotation", True),
        ("words", "list", ["Word"], ["dataclass"], "annotation", False),
        ("seen", "map", ["str", "Any"], ["str", "self-describing"], "annotation", False),
        ("loose", "value", ["Any"], ["self-describing"], "not declared", False),
    ]


def test_who_declares_the_keys_is_told(facts: dict[str, Any], tmp_path: Path) -> None:
    """A type that is not declared is not compared at a restore, so it is reported, too."""
    told = [(row["uid"], row["type"], row["why"]) for row in facts["keys"]]
    assert told == [("count", "str", "field 'text' of Word")]
    file = tmp_path / "job.py"
    file.write_text(PROGRAM.replace('key_by("text")', "key_by(lambda word: word.text)"), encoding="utf-8")
    _, out, _ = headgate("types", str(file))
    assert "keys of Count (count): not declared, so a change of their type is not noticed" in out


def test_the_tables_for_people(program: str) -> None:
    """One line for each stream and state."""
    code, out, _ = headgate("types", program)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    parsed = "map (parse) vertex 1 Word dataclass annotation of parse yes yes"
    words = "Count (count) words list[Word] dataclass annotation copied when changed"
    assert parsed in lines
    assert words in lines
    assert "went on" not in out


def test_a_state_without_serializer_is_shown_as_refused() -> None:
    """Whoever explains a program that will be refused sees why, and no serializer."""
    function = KeyedProcessNode(0, "Count", uid="count", function=object(), key="a")
    plan = PhysicalPlan((Vertex(VertexId(0), (function,), 1),), (), 128, 1)
    rows = type_rows([function], plan, {0: [StateFact("x", "value", (type_text(Opaque),))]}, lambda _: "rows")
    (row,) = rows["states"]
    assert (row["types"], row["serializer"], row["immutable"]) == (["Opaque"], None, None)
    assert row["refused"].startswith("state 'x' is declared as Opaque: no serializer is known")
    text = render("typed", rows)
    assert "none         annotation" in text
    assert "refused: state 'x' is declared as Opaque" in text


def test_a_program_that_cannot_be_planned(program: str) -> None:
    """The sentence, on the standard error, and the code of a refusal."""
    code, out, err = headgate("types", program, "-D", "heartbeat.timeot=1s")
    assert (code, out) == (2, "")
    assert "did you mean 'heartbeat.timeout'?" in err


HINTS: list[tuple[Any, Any, str]] = [
    (int, 1, YES),
    (dict[str, int], {"a": 1}, YES),
    (dict[str, Any], {"a": 1}, PLAIN_ONLY),
    (list, [1], PLAIN_ONLY),
    (tuple[int, dt.date], (1, dt.date.max), YES),
    (Point, Point(1), YES),
    (Pair, Pair(1), YES),
    (Event, Event("a"), YES),
    (Options, {"name": "a"}, YES),
    (Coloured, {"colour": Colour.RED}, NO),
    (list[Point], [Point(1)], NO),
    (Point | None, None, PLAIN_ONLY),
    (Colour, Colour.RED, NO),
    (np.float32, np.float32(1), NO),
    (NDArray[np.int8], np.ones(1, np.int8), NO),
    (pa.Table, pa.table({"a": [1]}), NO),
    (Opaque, Opaque(), NO),
    (Odd, Odd(), NO),
    (complex, 1j, NO),
    (None, 1, PLAIN_ONLY),
]


@pytest.mark.parametrize(("hint", "value", "told"), HINTS, ids=lambda case: str(case)[:30])
def test_what_is_told_is_what_the_exchange_does(hint: Any, value: Any, told: str) -> None:
    """The exchange's codec has the same serializer, and stores without pickle exactly what is told."""
    codec = ElementCodec(hint)
    ours, theirs = record_serializer(hint), codec.record_serializer
    assert (None if ours is None else ours.describe()) == (None if theirs is None else theirs.describe())
    assert storable(hint) == told
    try:
        codec.encode_plain(RowBatch([value]))
    except UsageError:
        assert told != YES
    else:
        assert told != NO


@pytest.mark.parametrize(
    ("hint", "value"),
    [(hint, value) for hint, value, told in HINTS if told == NO],
    ids=lambda case: str(case)[:30],
)
def test_only_what_has_no_serializer_is_pickled_between_workers(hint: Any, value: Any) -> None:
    """What state of a declared type is stored by, carries its records, too."""
    codec = ElementCodec(hint)
    known = record_serializer(hint) or composite_serializer(hint)
    kind, parts = codec.encode(RowBatch([value]))
    assert kind is (FrameKind.PICKLED_ROWS if known is None else FrameKind.ROWS)
    back = codec.decode(kind, memoryview(b"".join(parts)))
    assert isinstance(back, RowBatch)
    assert type(back.records[0]) is type(value)
