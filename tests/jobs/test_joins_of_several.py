"""Several tables joined at once give what one inner join after the other gives, and say what they cannot."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import TINY, environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.errors import PlanError

MARKS = {**TINY, "execution.mark-interval": "1ms"}
Table = Any


def numbers(env: hg.Environment, name: str, seed: int, rows: int = 60) -> Table:
    """A table of random rows with the columns k, which may be null, and `name`; some rows are equal."""
    chance = random.Random(seed)
    found = [{"k": chance.choice([None, *range(6)]), name: chance.randrange(5)} for _ in range(rows)]
    return env.from_collection(found).to_table(pa.schema({"k": pa.int64(), name: pa.int64()}))


def collected(table: Table) -> list[str]:
    """The rows at the end, in some order."""
    return sorted(map(str, table.collect()))


def counted(table: Table) -> Table:
    """The different rows of a table with how often each is there: rows are corrected as more come."""
    keyed = table.filter(F.col("k").isNotNull())
    return keyed.group_by(*table.columns).agg(
        F.count("*").alias(f"n{table.columns[-1]}"), uid=table.columns[-1]
    )


@pytest.mark.parametrize("change", [lambda table: table, counted])
@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_that_of_one_join_after_the_other(change: Callable[[Table], Table], seed: int) -> None:
    """Of rows that only come, and of rows that are corrected."""
    env = environment(3, MARKS)
    a, *others = (change(numbers(env, name, 10 * seed + at)) for at, name in enumerate("abcd"))
    at_once = a.join(others, "k", uid="all")
    one_by_one = a
    for at, other in enumerate(others):
        one_by_one = one_by_one.join(other, "k", uid=f"join-{at}")
    assert at_once.columns == one_by_one.columns
    found = collected(at_once)
    assert found
    assert found == collected(one_by_one)


@pytest.mark.parametrize("more", [{"split": 4}, {"where": F.col("a") < F.col("c")}, {"ttl": "1h"}], ids=str)
def test_options_of_joins_are_those_of_two_tables(more: dict[str, Any]) -> None:
    """Parts of keys, a condition on rows of all tables, and a time to live."""
    env = environment(2, MARKS)
    a, b, c = (numbers(env, name, at) for at, name in enumerate("abc"))
    plain = a.join(b, "k", uid="j1").join(c, "k", uid="j2")
    expected = plain.filter(more["where"]) if "where" in more else plain
    found = collected(a.join([b, c], "k", uid="all", **more))
    assert found
    assert found == collected(expected)


def test_explain_says_how_many_tables_are_joined() -> None:
    """As written, with each table below; as it runs, there is one exchange for all."""
    env = environment(1)
    a, b, c = (numbers(env, name, at) for at, name in enumerate("abc"))
    text = a.join([b, c], "k", uid="all").explain()
    assert "inner join of 3 tables by k, as rows come" in text
    assert text.split("as it runs")[0].count("scan ") == 3
    assert "keeps all rows for as long as the job runs" in text


REFUSED = {
    "no table": (lambda a, b, c: a.join([], "k"), "got no other table; expected one, or a list of them"),
    "kind": (
        lambda a, b, c: a.join([b, c], "k", "left"),
        "only an inner join without them takes several at once, so join one table after the other",
    ),
    "interval": (
        lambda a, b, c: a.join([b, c], "k", within="5s"),
        "got 2 other tables for a join by windows or within=",
    ),
    "one name twice": (
        lambda a, b, c: a.join([b, c.select("k", F.col("c").alias("b"))], "k"),
        "two tables have a column 'b' that is not joined by; rename one of them",
    ),
    "types": (
        lambda a, b, c: a.join([b, c.select(F.col("k").cast("boolean").alias("k"), "c")], "k"),
        "the columns 'k' of all tables",
    ),
    "no table of this program": (lambda a, b, c: a.join([b, 3], "k"), "got 3; expected a table of the same"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_joined_at_once_is_refused(name: str) -> None:
    """When the program is written, with what to do."""
    call, expected = REFUSED[name]
    env = environment(1)
    with pytest.raises(PlanError) as refusal:
        call(*(numbers(env, column, at) for at, column in enumerate("abc")))
    assert expected in str(refusal.value)
