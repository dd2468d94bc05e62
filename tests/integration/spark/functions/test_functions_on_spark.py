"""Every function of the registry gives what Spark gives: values, types of results, conditions of errors."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import cases_of_collections
import cases_of_numbers
import cases_of_texts
import cases_of_times
import pyarrow as pa
import pytest
from cases_of_errors import ERRORS
from function_calls import call_of, sql_of
from function_columns import odd_table

from headgate.relational.evaluation import evaluate
from headgate.relational.function_families import load_families
from headgate.relational.passes.sharing import sharing
from headgate.relational.resolved import Typed, parts_of
from headgate.relational.resolving import resolve
from headgate.relational.rules import ALIASES, RULES, RowsFailed
from headgate.relational.schema import schema_of
from headgate.relational.spark_types import normal_type, text_of

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(1200)]

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
FAMILIES: dict[str, dict[str, list[str]]] = {
    "arithmetic": cases_of_numbers.ARITHMETIC,
    "bits": cases_of_numbers.BITS,
    "casts": cases_of_numbers.CASTS,
    "collections": cases_of_collections.COLLECTIONS,
    "comparison": cases_of_numbers.COMPARISON,
    "conditional": cases_of_numbers.CONDITIONAL,
    "hashes": cases_of_numbers.HASHES,
    "logic": cases_of_numbers.LOGIC,
    "mathematical": cases_of_numbers.NUMBERS,
    "strings": cases_of_texts.TEXTS,
    "times": cases_of_times.TIMES,
}
Case = tuple[str, str]


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Iterator[Any]:
    """A session that has the odd table as the view `odd`."""
    session = open_spark("local[1]", SETTINGS)
    make_view(session)
    return session


def make_view(session: Any, table: pa.Table | None = None) -> None:
    """Give a session the odd table; it takes times without a zone for instants, unless told."""
    table = odd_table() if table is None else table
    local = {field.name for field in table.schema if field.type == pa.timestamp("us")}
    columns = [
        f"cast({name} AS timestamp_ntz) AS {name}" if name in local else name for name in table.column_names
    ]
    session.createDataFrame(table).selectExpr(*columns).createOrReplaceTempView("odd")


def ours(case: Case) -> tuple[Typed, pa.Array]:
    """Resolve and evaluate a call over the odd table; also over some rows in the middle, and over none."""
    table = odd_table()
    batch = table.combine_chunks().to_batches()[0]
    typed = resolve(call_of(*case), schema_of(table.schema))
    found = evaluate(typed, batch)
    assert same(evaluate(sharing([typed])[0], batch), found) == [], "an operator computes something else"
    assert len(found) == batch.num_rows
    assert same(evaluate(typed, batch.slice(7, 50)), found.slice(7, 50)) == [], "rows of a slice differ"
    assert len(evaluate(typed, batch.slice(3, 0))) == 0
    return typed, found


def plain(values: pa.Array) -> list[Any]:
    """Values as Python's, times as the integers that they are inside."""
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int64())
    return values.to_pylist()


def same(ours: pa.Array, theirs: pa.Array, ulps: int = 0) -> list[tuple[int, Any, Any]]:
    """The rows in which values differ, with both values."""
    pairs = enumerate(zip(plain(ours), plain(theirs), strict=True))
    return [(row, one, other) for row, (one, other) in pairs if not equal(one, other, ulps)]


def equal(one: Any, other: Any, ulps: int) -> bool:
    """NaN equals NaN, 0.0 is not -0.0, and doubles may differ by some units in the last place."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return abs(place_of(one) - place_of(other)) <= ulps
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(equal(a, b, ulps) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(equal(one[name], other[name], ulps) for name in one)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.as_tuple() == other.as_tuple()
    return type(one) is type(other) and one == other


def place_of(value: float) -> int:
    """The place of a double among all doubles in order; -0.0 comes right before 0.0."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1)) - 1


def spark_columns(spark: Any, cases: list[Case]) -> list[pa.Array | str]:
    """What Spark gives for calls over the view, all at once; one by one if some raise, with their errors."""
    texts = [f"{sql_of(call_of(*case))} AS c{place}" for place, case in enumerate(cases)]
    try:
        table = spark.table("odd").selectExpr(*texts).toArrow()
        return [table.column(place).combine_chunks() for place in range(len(cases))]
    except Exception as error:
        if len(cases) == 1:
            return [f"{condition_of(error)}: {str(error)[:300]}"]
    half = len(cases) // 2
    return [*spark_columns(spark, cases[:half]), *spark_columns(spark, cases[half:])]


def condition_of(error: Exception) -> str:
    """Spark's name of an error."""
    found = getattr(error, "getCondition", lambda: None)()
    return found or type(error).__name__


def difference(case: Case, theirs: pa.Array | str) -> str | None:
    """How a call differs between Spark and here; None: it does not."""
    name = f"{case[0]}({case[1]})"
    try:
        typed, values = ours(case)
    except Exception as error:
        return f"{name}: here {type(error).__name__}: {error}"
    if isinstance(theirs, str):
        return f"{name}: Spark raises {theirs}"
    if text_of(normal_type(theirs.type) or theirs.type) != text_of(typed.type):
        return f"{name}: here {text_of(typed.type)}, in Spark {text_of(normal_type(theirs.type))}"
    if values.type != typed.type:
        return f"{name}: the values are {values.type}, and should be {typed.type}"
    if not typed.nullable and values.null_count:
        return f"{name}: is said not to be nullable, and has nulls"
    called = {part.function for part in parts_of(typed) if hasattr(part, "function")}
    wrong = same(values, theirs, 1 if called & cases_of_numbers.ROUNDED else 0)
    shown = "; ".join(f"row {row}: here {one!r}, in Spark {other!r}" for row, one, other in wrong[:3])
    return f"{name}: {len(wrong)} rows differ: {shown}" if wrong else None


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_give_what_spark_gives(spark: Any, family: str) -> None:
    """All calls of a family over the odd table: types and all values are Spark's."""
    cases = [(name, arguments) for name, calls in FAMILIES[family].items() for arguments in calls]
    theirs = spark_columns(spark, cases)
    wrong = [text for case, columns in zip(cases, theirs, strict=True) if (text := difference(case, columns))]
    assert wrong == []


@pytest.mark.parametrize("name", ERRORS)
def test_functions_fail_as_spark_does(spark: Any, name: str) -> None:
    """A row that cannot be computed raises with the condition of Spark's error."""
    wrong = []
    for arguments in ERRORS[name]:
        (theirs,) = spark_columns(spark, [(name, arguments)])
        try:
            ours((name, arguments))
            found = "nothing"
        except RowsFailed as failed:
            found = failed.condition
        condition = theirs.partition(":")[0] if isinstance(theirs, str) else "nothing"
        if found != condition:
            said = theirs if isinstance(theirs, str) else condition
            wrong.append(f"{name}({arguments}): here {found}, in Spark {said}")
    assert wrong == []


def test_every_function_is_compared() -> None:
    """Each rule has a call that is compared, and each that may fail one that does."""
    load_families()
    names = {name for family in FAMILIES.values() for name in family}
    compared = names | {ALIASES.get(name, name) for name in names}
    assert sorted(RULES.keys() - compared) == []
    fallible = {name for name, rule in RULES.items() if rule.fails}
    assert sorted(fallible - ERRORS.keys()) == []
