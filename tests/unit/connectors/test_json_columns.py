"""JSON lines become the columns, and the bad lines, that Arrow's reader makes, whoever decodes them."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import BadRecordError
from headgate.connectors.files import json_certain, json_columns
from headgate.connectors.files.json_columns import ArrowParser, parser_of
from headgate.connectors.files.json_decoder import JsonDecoder
from headgate.records.late_columns import LateColumns, concat_late

NAMES = ("a", "b", "id", "long_name", "ä", "x y", 'q"', "a/b")
KINDS = (
    pa.int64(),
    pa.int8(),
    pa.uint16(),
    pa.uint64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.timestamp("ms"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"),
)
OTHER_KINDS = (pa.float32(), pa.date32(), pa.struct([("a", pa.int64())]), pa.list_(pa.int64()), pa.null())

PLAIN = {"string": pa.binary(), "large_string": pa.large_binary(), "date32[day]": pa.int32()}
"""Column type -> one whose values are all Python values."""

INTEGERS = st.one_of(
    st.integers(-3, 300).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(("-0", "0", "1.0", "1e2", "01", "9" * 400, str(2**63), str(-(2**63)), str(2**64 - 1))),
)
FLOATS = st.one_of(
    st.floats().map(json.dumps),
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(("-0", "-0.0", "0", "1e400", "-1e-400", "1E+2", "NaN", "Infinity", "-0e1", "1.", ".5")),
)
TEXTS = st.one_of(
    st.text(max_size=4).map(json.dumps),
    st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        (
            '":"',
            '" :"',
            '"\\":"',
            '"a"',
            '"id"',
            '"\\ud800"',
            '"\\u0061"',
            '"1e999"',
            '"x 1e999"',
            '"\\/"',
            '"\t"',
        )
    ),
)
TIMES = st.one_of(
    st.datetimes().map(lambda time: f'"{time.isoformat()}"'),
    st.datetimes().map(lambda time: f'"{time.isoformat(sep=" ", timespec="milliseconds")}Z"'),
    st.sampled_from(
        (
            '"2020-01-02"',
            '"2020-01-02T03:04+01:00"',
            '"2020-01-02T03"',
            '"2020-13-02"',
            '""',
            "12",
            '"2020-01-02T03:04:05.1234567"',
        )
    ),
)
ODD = st.sampled_from(
    (
        "null",
        "true",
        "{}",
        "[]",
        '{"a":1}',
        '{"a":{"id":[1e999]}}',
        '[{"b":1},2]',
        "1e999",
        "-",
        "nul",
        "",
        '"',
    )
)
SPACE = st.sampled_from(("", "", "", "", " ", "\t"))
BREAKS = st.sampled_from(("\n", "\n", "\n", "\n", "\r\n", "\n\n", " \n", ""))
WHOLE_LINES = st.sampled_from(
    (
        b"null",
        b"{}",
        b"[]",
        b"5",
        b"{",
        b"}",
        b'{"a":1}{"a":2}',
        b'{"a":\n1}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{},",
    )
)


def fitting(kind: pa.DataType) -> st.SearchStrategy[str]:
    """JSON texts that such a column may have, and some that it may not."""
    if pa.types.is_integer(kind):
        return INTEGERS
    if pa.types.is_floating(kind):
        return FLOATS
    if pa.types.is_boolean(kind):
        return st.sampled_from(("true", "false"))
    return TIMES if pa.types.is_timestamp(kind) else TEXTS


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    """One to five columns, mostly of types that msgspec decodes."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    kinds = st.sampled_from(KINDS * 3 + OTHER_KINDS)
    return pa.schema([(name, draw(kinds)) for name in names])


@st.composite
def members(draw: st.DrawFn, schema: pa.Schema, odd: bool) -> list[tuple[str, str]]:
    """Names and values of one object; if odd, some are missing, or come twice, or are of another kind."""
    found = []
    for field in schema:
        value = draw(fitting(field.type))
        if odd:
            value = draw(st.one_of(st.just(value), st.just(value), st.just("null"), ODD, INTEGERS))
        name = json.dumps(field.name, ensure_ascii=False)
        if odd and draw(st.integers(0, 9)) == 0:
            name = '"' + "".join(f"\\u{ord(letter):04x}" for letter in field.name) + '"'
        found.append((name, value))
    if odd:
        found = [each for each in found if draw(st.integers(0, 5))]
        extra = st.tuples(
            st.sampled_from([f'"{name}"' for name in ("a", "id", "other", "z")]), st.one_of(ODD, TEXTS)
        )
        found += draw(st.lists(extra, max_size=2))
    return found


@st.composite
def lines(draw: st.DrawFn, schema: pa.Schema) -> bytes:
    """A block of lines: a shape that most of them have, odd ones, and some that are no objects."""
    oddness = draw(st.sampled_from((0, 0, 3, 10)))
    shape = [
        (json.dumps(name), draw(st.one_of(TEXTS, FLOATS, ODD)))
        for name in draw(st.sampled_from(((), ("o",))))
    ]
    block = b""
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.integers(0, 9)) < oddness / 3:
            line = draw(WHOLE_LINES)
        else:
            found = draw(members(schema, draw(st.integers(0, 9)) < oddness)) + shape
            gap, after = draw(SPACE), draw(SPACE)
            text = f",{gap}".join(f"{name}{gap if oddness else ''}:{after}{value}" for name, value in found)
            line = b"{" + text.encode("utf-8", "surrogatepass") + b"}"
            if oddness == 10 and draw(st.integers(0, 9)) == 0:
                line = line.replace(b"a", b"\xff")
        block += line + draw(BREAKS).encode()
    return block


def told(parser: ArrowParser, blocks: list[bytes], on_error: Any) -> list[Any]:
    """All that a decoder says of blocks, with the bits of floats and the bytes of texts."""
    decoder: JsonDecoder[Any] = JsonDecoder("f", parser, on_error)
    found: list[Any] = []
    for block in blocks:
        try:
            decoded = decoder.decode(block, 5)
        except BadRecordError as problem:
            found.append(str(problem))
            continue
        records: Any = decoded.records
        if isinstance(records, LateColumns):
            picked = pa.array(range(0, len(records), 2), pa.int64())
            some = records[: len(records)].take(picked).complete()
            records = records.complete()
            assert repr(some) == repr(records.take(picked))
        assert records.schema.equals(parser.schema, check_metadata=True)
        columns = [column.cast(PLAIN.get(str(column.type), column.type)) for column in records.columns]
        columns = [
            column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns
        ]
        found.append((repr([column.to_pylist() for column in columns]), decoded.ends, decoded.bad))
    return found


@settings(max_examples=400, deadline=None)
@given(st.data(), schemas(), st.sampled_from(("fail", "side-output")))
def test_columns_and_bad_lines_are_those_of_arrow(
    data: st.DataObject, schema: pa.Schema, on_error: str
) -> None:
    """The same records, offsets, reasons and errors, also of fields that are no columns."""
    blocks = data.draw(st.lists(lines(schema), min_size=1, max_size=3))
    used = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(schema.names), min_size=1, unique=True)))
    expected = told(ArrowParser(schema, used), blocks, on_error)
    assert told(parser_of(schema, used), blocks, on_error) == expected


def parsed(monkeypatch: pytest.MonkeyPatch, schema: pa.Schema, *blocks: bytes) -> tuple[list[Any], int]:
    """The records of blocks, and how often Arrow's reader was asked for them."""
    asked = []
    read = json_columns.json.read_json

    def read_json(*args: Any, **options: Any) -> pa.Table:
        asked.append(args)
        return read(*args, **options)

    monkeypatch.setattr(json_columns.json, "read_json", read_json)
    parser = parser_of(schema)
    found: list[Any] = []
    for block in blocks:
        batch = parser.block(block)
        found += ["bad"] if batch is None else batch.to_pylist()
    return found, len(asked)


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"a":1,"b":"x"}', b'{"a":2,"b":"y"}'],
        [b'{"b": "x", "a": 1}\r', b'{"b": "y", "a": 2}\r'],
        [b'{"z":0.5,"a":1,"b":"x","y":null}', b'{"z":"","a":2,"b":"y","y":[]}'],
        [b'{"a":1,"b":"x","in":{"c":["}"]}}', b'{"a":2,"b":"y","in":{"c":[]}}'],
        [b'{"a":1,"b":"x","hex":"1e999"}', b'{"a":2,"b":"y","id":{"1e2":1e2}}'],
        [b'{"a":1,"b":"x"}', b'{"a":2,"b":"y","late":5}'],
    ],
)
def test_common_lines_need_no_arrow(monkeypatch: pytest.MonkeyPatch, lines: list[bytes]) -> None:
    """Lines as serializers write them, with members that the schema lacks, some of them nested."""
    found, asked = parsed(monkeypatch, SCHEMA, b"\n".join(lines))
    assert found == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert asked == 0


def test_a_bad_line_at_the_beginning_only_delays_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that follow it are decoded without counting each name."""
    monkeypatch.setattr(json_certain, "_each_is_single", lambda *given: pytest.fail("names were counted"))
    blocks = [b'{"a":1,"b":"x","z":1}\n{', b'{"a":2,"b":"y","z":1}\n']
    assert parsed(monkeypatch, SCHEMA, *blocks) == (["bad", {"a": 2, "b": "y"}], 1)


def test_fields_that_some_lines_lack_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after lines that had all of them."""
    blocks = [b'{"a":1,"b":"x"}\n', b'{"a":2}\n', b'{}\n{"b":"y"}\n', b'{"z":1}\n']
    found, asked = parsed(monkeypatch, SCHEMA, *blocks)
    assert [(row["a"], row["b"]) for row in found] == [
        (1, "x"),
        (2, None),
        (None, None),
        (None, "y"),
        (None, None),
    ]
    assert asked == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1,"b":"x","a":1}',
        b'{"a":1,"b":"x","a" :1}',
        b'{"a":1,"b":"x","\\u0061":1}',
        b'{"a":1,"b":"x","c":1e999}',
        b'{"a":1,"b":"x","c":{"d":-12.5E+999}}',
        b'{"a":9223372036854775808,"b":"x"}',
        b"null",
        b"\xef\xbb\xbfnull",
        b'{"a":1}{"a":2}',
    ],
)
def test_lines_that_only_msgspec_would_take_are_bad(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    """As they are for Arrow, alone and among others; a line of null, on which Arrow crashes, is bad, too."""
    good = b'{"a":1,"b":"x"}'
    assert parsed(monkeypatch, SCHEMA, line)[0] == ["bad"]
    assert parsed(monkeypatch, SCHEMA, b"\n".join([good, line, good]))[0] == ["bad"]
    batch, bad = parser_of(SCHEMA).singly([good, line, good])
    assert (batch.num_rows, [index for index, _ in bad]) == (2, [1])


def test_many_escapes_in_a_text_cost_little() -> None:
    """Escaped texts in a nested member, which have to be searched for names, take no quadratic time."""
    line = b'{"a":1,"b":{"c":"%b"}}' % (b"\\u0436" * 50_000)
    start = time.process_time()
    assert json_certain.names_are_single(line, {"a": 1}, 0)
    assert time.process_time() - start < 2
    assert not json_certain.names_are_single(line[:-2] + b',"\\u0061" :1}}', {"a": 1}, 0)


def test_a_field_that_is_not_used_makes_a_line_bad() -> None:
    """Which lines are bad follows from the schema, not from the program."""
    schema = pa.schema([("a", pa.int8()), ("t", pa.timestamp("ms")), ("u", pa.uint8()), ("s", pa.string())])
    parser = parser_of(schema, ["s"])
    good = b'{"a":1,"t":"2020-01-02","u":1,"s":"x"}'
    batch = parser.block(good)
    assert isinstance(batch, LateColumns)
    assert batch.complete().to_pylist() == [{"s": "x"}]
    for old, new in ((b'"a":1', b'"a":128'), (b"-01-", b"-13-"), (b'"u":1', b'"u":-0')):
        assert parser.block(good.replace(old, new)) is None


def test_columns_become_late_where_few_of_their_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are decoded once more for these rows; columns that were asked for as a whole are made at once."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.string())])
    parser = parser_of(schema, ["a", "b", "c"])
    block = b"".join(b'{"a":%d,"b":"x%d"}\r\n' % (n, n) for n in range(100))
    batches = []
    for _ in range(2):
        batch = concat_late([parser.block(block), parser.block(block)[20:]])
        assert isinstance(batch, LateColumns)
        assert batch.column(0).to_pylist() == [*range(100), *range(20, 100)]
        batches.append(batch)
    assert [sorted(batch._made) for batch in batches] == [[0], [0]]
    again = []
    decode = parser._rows.decode_again
    monkeypatch.setattr(parser._rows, "decode_again", lambda data: again.append(data) or decode(data))
    kept = batches[1].take(pa.array([5, 105]))
    assert kept.complete().to_pylist() == [{"a": n, "b": f"x{n}", "c": None} for n in (5, 25)]
    assert again == [b'{"a":5,"b":"x5"}\r\n{"a":25,"b":"x25"}\r']
    assert batches[1].complete().column(2).null_count == 180
    assert isinstance(parser.block(block), pa.RecordBatch)


@pytest.mark.parametrize("line", [b'{"a":1,"f":0e999}', b'{"a":1,"f":2.5,"n":[0e309]}'])
def test_a_zero_with_a_huge_exponent_is_what_it_is_for_arrow(line: bytes) -> None:
    """Arrow refuses it, whatever the value is."""
    schema = pa.schema([("a", pa.int64()), ("f", pa.float64())])
    assert ArrowParser(schema).singly([line])[1] == parser_of(schema).singly([line])[1]
