"""Functions of text: places from the end, letters of several bytes, which regular expressions are taken."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_call import column, typed, value

from headgate.common.errors import PlanError
from headgate.relational.evaluation import evaluate
from headgate.relational.functions.strings.dialect import common_pattern
from headgate.relational.rules import RowsFailed


@pytest.mark.parametrize(
    ("place", "length", "part"),
    [
        (1, 2, "he"),
        (0, 2, "he"),
        (-4, 2, "ga"),
        (-9, 3, "he"),
        (5, 99, "gate"),
        (9, 1, ""),
        (2, 0, ""),
        (2, -1, ""),
    ],
)
def test_substrings(place: int, length: int, part: str) -> None:
    """From 1, or from the end; 0 counts as 1, and what begins before the text loses letters."""
    assert value("substring", "headgate", place, length) == part
    assert column("substring", pa.array(["headgate", None]), place, length) == [part, None]


@given(st.text(max_size=6), st.integers(-9, 9), st.integers(-9, 9))
def test_substrings_of_constants_and_of_columns_agree(text: str, place: int, length: int) -> None:
    """Arrow's kernel and the one that goes row by row."""
    arrays = {"text": pa.array([text]), "place": pa.array([place]), "length": pa.array([length])}
    assert evaluate(*typed("substring", **arrays)).to_pylist() == [value("substring", text, place, length)]


def test_cases_of_letters() -> None:
    """What becomes several letters, and the sigma at the end of a word."""
    assert column("upper", pa.array(["straße", "ﬁ"])) == ["STRASSE", "FI"]
    assert column("lower", pa.array(["ΟΔΥΣΣΕΥΣ", "ABC"])) == ["οδυσσευς", "abc"]
    assert value("initcap", "hello wORLD-wide") == "Hello World-wide"


def test_rows_of_nulls_are_joined_to_an_empty_text() -> None:
    """Arrow leaves such rows out."""
    texts = {"a": pa.array([None, "a"]), "b": pa.array([None, "b"])}
    plan, batch = typed("concat_ws", d=pa.array([",", ","]), **texts)
    assert evaluate(plan, batch).to_pylist() == ["", "a,b"]
    assert value("concat_ws", ",", None, "a", None, "b") == "a,b"
    assert value("concat_ws", ",", None, None) == ""


def test_delimiters_may_overlap() -> None:
    """Spark looks on one letter after the last find."""
    assert value("substring_index", "aaaa", "aa", 2) == "a"
    assert value("substring_index", "a.b.c", ".", -2) == "b.c"
    assert value("split_part", "a.b.c", ".", -1) == "c"
    with pytest.raises(RowsFailed, match="INVALID_INDEX_OF_ZERO"):
        value("split_part", "a", ".", 0)


def test_like() -> None:
    """A letter may be escaped, and what is escaped must be a wildcard."""
    assert value("like", "100%", r"100\%") is True
    assert value("like", "a\nb", "a_b") is True
    assert value("like", "50%", "50!%", "!") is True
    with pytest.raises(RowsFailed, match="ESC_IN_THE_MIDDLE"):
        value("like", "ab", r"a\b")


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bword",
        "(?=ahead)",
        r"(a)\1",
        "a*+",
        "(a*)*",
        "[a[bc]]",
        "[a&&b]",
        r"\p{L}",
        "a**",
        "x{2000}",
        "(?<n>a)",
        "^*",
    ],
)
def test_patterns_that_mean_something_else_elsewhere_are_refused(pattern: str) -> None:
    """While the plan is made, and the message says what and where."""
    with pytest.raises(PlanError, match="may mean something else in Spark"):
        value("rlike", "text", pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a.b", "a\rb", False),
        ("^b$", "b\n", True),
        (r"a\s", "a\x0b", True),
        (r"^\d$", "٣", False),
        ("(?i)É", "é", False),
    ],
)
def test_what_dialects_differ_in_is_as_java_has_it(pattern: str, text: str, found: bool) -> None:
    """A dot, a line's end, blanks, digits and small letters."""
    assert value("rlike", text, pattern) is found


def test_replacements() -> None:
    """Groups are `$1`; a pattern that may be empty is refused, since Spark looks within halves of letters."""
    assert value("regexp_replace", "john smith", r"(\w+) (\w+)", "$2 $1") == "smith john"
    assert value("regexp_replace", "aab", "a", r"\$") == r"$$b"
    with pytest.raises(PlanError, match="empty text"):
        value("regexp_replace", "abc", "x*", "-")
    with pytest.raises(PlanError, match="names group 2"):
        value("regexp_replace", "abc", "(b)", "$2")


def test_a_pattern_knows_its_kind() -> None:
    """A plain text is split by Arrow, and what has no `$` is looked for by RE2."""
    assert common_pattern(r"a\.b").literal == "a.b"
    assert common_pattern("a|b").literal is None
    assert common_pattern("a$").re2 is None
    assert common_pattern("(a)(?:b)(c)").groups == 2


def test_formats() -> None:
    """Java's printf, for a closed list of directives."""
    assert (
        value("format_string", "%05d|%-4s|%,d|%x|%.2f", 42, "ab", 1234567, -1, 2.675)
        == "00042|ab  |1,234,567|ffffffff|2.68"
    )
    assert value("format_string", "%s %d", None, None) == "null null"
    assert value("format_number", 1234.5, 0) == "1,234"
    with pytest.raises(PlanError, match="%q"):
        value("format_string", "%q", 1)


def test_encodings() -> None:
    """Names of character sets, and what has no place in one."""
    assert value("encode", "a", "UTF-16") == b"\xfe\xff\x00a"
    assert value("decode", b"\xff\xfea\x00", "utf-16") == "a"
    assert value("url_encode", "a b~*") == "a+b%7E*"
    assert value("try_url_decode", "%zz") is None
    with pytest.raises(RowsFailed, match="MALFORMED_CHARACTER_CODING"):
        value("encode", "ß", "us-ascii")
