"""Expressions that have parts in common give what they give by themselves, and compute these once."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.relational.evaluation import evaluate
from headgate.relational.expressions import Call, Case, Expression, Literal, PythonFunction, Reference
from headgate.relational.function_families import load_families
from headgate.relational.passes.sharing import sharing
from headgate.relational.resolved import PieceOf, PythonApply, Shared, Typed, parts_of
from headgate.relational.resolving import resolve
from headgate.relational.rows import Rows
from headgate.relational.rules import RULES, RowsFailed
from headgate.relational.schema import schema_of

TEXT, NUMBER = Reference("text"), Reference("number")
LOWER = Call("lower", (TEXT,))
TEXTS = st.lists(st.one_of(st.none(), st.text("ab/.", max_size=8)), min_size=1, max_size=12)


def data(texts: list[str | None], numbers: list[int | None] | None = None) -> pa.RecordBatch:
    """Rows of a text and a number."""
    numbers = numbers or [None] * len(texts)
    return pa.record_batch({"text": pa.array(texts, pa.string()), "number": pa.array(numbers, pa.int64())})


def resolved(*expressions: Expression) -> list[Typed]:
    """Expressions of these rows."""
    return [resolve(each, schema_of(data(["a"]).schema)) for each in expressions]


def found(expressions: list[Typed] | tuple[Typed, ...], batch: pa.RecordBatch) -> list[list[Any]]:
    """Their values, as an operator asks for them."""
    rows = Rows(batch)
    return [evaluate(each, rows).to_pylist() for each in expressions]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each call of `lower`."""
    seen: list[int] = []
    load_families()
    rule = RULES["lower"]

    def kernel(kind: pa.DataType, *values: Any) -> Any:
        seen.append(len(values[0]))
        return rule.kernel(kind, *values)

    monkeypatch.setitem(RULES, "lower", rule.__class__(**{**vars(rule), "kernel": kernel}))
    return seen


def test_a_part_of_several_expressions_is_computed_once(calls: list[int]) -> None:
    """Also within one of them; and other rows are other values."""
    given_ = resolved(LOWER, Call("=", (LOWER, Literal("a"))), Call("concat", (LOWER, LOWER)))
    together = sharing(given_)
    assert found(together, data(["A", "b", None])) == [
        ["a", "b", None],
        [True, False, None],
        ["aa", "bb", None],
    ]
    assert calls == [3]
    assert found(together, data(["C"])) == [["c"], [False], ["cc"]]
    assert calls == [3, 1]


def test_what_is_known_for_all_rows_is_not_computed_for_some(calls: list[int]) -> None:
    """A branch that may fail is evaluated for its rows: it takes what it needs from what is there."""
    quotient = Call("/", (Call("length", (LOWER,)), NUMBER))
    branch = Case(((Call("<>", (NUMBER, Literal(0))), quotient),), Literal(-1.0))
    together = sharing(resolved(LOWER, branch))
    assert found(together, data(["AB", "C"], [2, 0])) == [["ab", "c"], [1.0, -1.0]]
    assert calls == [2]
    assert found(together[1:], data(["AB", "C"], [2, 0])) == [[1.0, -1.0]]
    assert calls == [2, 1]


def test_functions_of_the_program_are_called_as_often_as_they_are_written() -> None:
    """They may count, or draw lots."""
    numbers = iter(range(100))
    function = PythonFunction("next", lambda: next(numbers), pa.int64())
    drawn = [PythonApply(pa.int64(), True, function, ()) for _ in range(2)]
    assert found(sharing(drawn), data(["a", "b"])) == [[0, 1], [2, 3]]


def test_columns_and_constants_are_not_shared() -> None:
    """They cost nothing."""
    together = sharing(resolved(TEXT, TEXT, Literal("a"), Literal("a")))
    assert not any(isinstance(part, Shared) for each in together for part in parts_of(each))


@given(TEXTS, st.sampled_from(["/", ".", "ab", "a/", "\\"]), st.integers(-3, 3).filter(bool))
def test_a_piece_is_what_split_part_gives(texts: list[str | None], delimiter: str, number: int) -> None:
    """Texts are split once for all pieces, by Arrow."""
    piece = Call("split_part", (TEXT, Literal(delimiter), Literal(number)))
    alone = resolved(piece)
    together = sharing(resolved(piece, Call("split_part", (TEXT, Literal(delimiter), Literal(1)))))
    assert isinstance(together[0].inner[0] if isinstance(together[0], Shared) else together[0], PieceOf)
    assert str(together[0]) == str(alone[0])
    assert found(together[:1], data(texts)) == found(alone, data(texts))


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_other_calls_of_split_part_stay_as_they_are(delimiter: str) -> None:
    """Without a delimiter, or with a number that the row says, or with none that there is."""
    calls = resolved(Call("split_part", (TEXT, Literal(""), Literal(1))))
    assert found(sharing(calls), data(["a/b"])) == [["a/b"]]
    nothing = resolved(Call("split_part", (TEXT, Literal(delimiter), Literal(0))))
    with pytest.raises(RowsFailed, match="INVALID_INDEX_OF_ZERO"):
        found(sharing(nothing), data(["a/b"]))


@given(
    TEXTS,
    st.sampled_from(["(a+)(b?)", "(?:a|b)(/)", "(a|b)+", "^(.*?)/", "([^/]*)/([^/]*)"]),
    st.integers(0, 1),
)
def test_groups_are_extracted_by_arrow_as_by_python(
    texts: list[str | None], pattern: str, group: int
) -> None:
    """A text without a match gives "", and null stays null."""
    call = resolved(Call("regexp_extract", (TEXT, Literal(pattern), Literal(group))))
    matches = [None if text is None else re.search(pattern, text) for text in texts]
    expected = [
        None if text is None else (match[group] or "" if match else "")
        for text, match in zip(texts, matches, strict=True)
    ]
    assert found(call, data(texts)) == [expected]
    many = [text for text in texts for _ in range(3)]  # values that are alike are looked at once
    assert found(call, data(many)) == [[each for each in expected for _ in range(3)]]
