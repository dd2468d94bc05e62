"""`headgate.functions` has the registry's functions by name, with PySpark's arguments."""

from __future__ import annotations

import inspect

import pyspark.sql.functions as spark
import pytest

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.relational.function_families import function_names
from headgate.relational.text_arguments import PLACES


def test_text_is_a_column_but_where_pyspark_takes_it_for_itself() -> None:
    """Patterns, formats and units."""
    assert str(F.upper("name")) == "Column<upper(name)>"
    assert F.lpad("name", 5, "*").expression == F.expr("lpad", F.col("name"), F.lit(5), F.lit("*")).expression
    assert F.regexp_extract("url", "a(b)", 1).expression.inner[1] == F.lit("a(b)").expression  # type: ignore[attr-defined]
    assert str(F.try_divide("a", "b")) == "Column<try_divide(a, b)>"


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    """As an attribute that is not there."""
    with pytest.raises(AttributeError, match="has no 'uper'; did you mean 'upper'"):
        F.uper("name")


@pytest.mark.parametrize("name", PLACES)
def test_places_of_text_are_those_of_pyspark(name: str) -> None:
    """Where a parameter is annotated as text, or as a column or text that stands for itself."""
    known = [
        place
        for place, each in enumerate(inspect.signature(getattr(spark, name)).parameters.values())
        if "ColumnOrName" not in str(each.annotation)
        and ("str" in str(each.annotation) or "Any" in str(each.annotation))
    ]
    assert set(PLACES[name]) == set(known)


def test_text_that_stands_for_itself_is_known_of_every_function() -> None:
    """A function of PySpark with such a parameter is in the table."""
    lacking = []
    for name in function_names():
        function = getattr(spark, name, None)
        if not callable(function) or name in PLACES or name.startswith("try_"):
            continue
        lacking += [
            name
            for each in inspect.signature(function).parameters.values()
            if str(each.annotation) in ("<class 'str'>", "typing.Any", "typing.Optional[str]")
        ]
    assert lacking == []
