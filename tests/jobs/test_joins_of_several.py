"""Several tables joined at once give what one inner join after the other gives, and say what they cannot."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.errors import PlanError

NUMBERS = count(14_900)
MARKS = {**TINY, "execution.mark-interval": "1ms"}
Table = Any
A, B = (pa.schema({"k": pa.int64(), name: pa.int64()}) for name in "ab")


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


@pytest.mark.parametrize("key", ["left/k", "right/k", "table_3/k"])
def test_keys_may_be_called_as_columns_are_stored(key: str) -> None:
    """What is stored of each table has its number before its name."""
    env = environment(2, MARKS)
    tables = [numbers(env, name, at) for at, name in enumerate("abc")]
    a, b, c = (table.select(F.col("k").alias(key), table.columns[1]) for table in tables)
    assert len(a.join([b, c], key, uid="all").collect()) > len(a.join(b, key, uid="two").collect()) > 0


class Counted(hg.KeyedProcessFunction[int, Any, dict[str, int]]):
    """How many rows of a key have come, when event time ends."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Any:
        """Count, and wait."""
        self.count.value += 1
        ctx.timers.register_event_time(1_000_000)
        return iter(())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Tell the count."""
        yield {"k": ctx.key, "rows": self.count.value}


def test_a_job_that_stops_with_drain_sends_what_its_rows_join_to(tmp_path: Path) -> None:
    """Rows that came just before are joined before its barrier, and event time ends behind them."""
    env = environment(1, TINY)
    env.checkpoints(every="1h", storage=str(tmp_path / "checkpoints"))
    valve = Valve(next(NUMBERS), 20, [{"k": n % 3, "a": n} for n in range(60)])
    a = env.from_source(valve, uid="a").with_event_time("a").to_table(A)
    other = Valve(next(NUMBERS), 3, [{"k": n % 3, "b": n} for n in range(60)])
    b = env.from_source(other, uid="b").with_event_time("b").to_table(B)
    pairs = a.join(b, "k", uid="join").to_stream().with_event_time("a").key_by("k")
    pairs.process(Counted(), uid="counted").write_json(tmp_path / "out", uid="out")
    with env.execute_async("drained") as handle:
        wait_until(lambda: handle.done or read(handle) == (20, 3), "rows came")
        valve.open_to(40)
        handle.stop(str(tmp_path / "savepoint"), drain=True)
        handle.result()
    found = {row["k"]: row["rows"] for row in json_lines(tmp_path / "out")}
    assert found.keys() == {0, 1, 2}
    assert 20 <= sum(found.values()) <= 40  # some of the last rows may not have been read before the stop


def read(handle: Any) -> tuple[int, ...]:
    """How many rows were read of both tables."""
    vertices = handle.status().vertices
    return tuple(sum(v.records_in for v in vertices if uid in v.uids) for uid in "ab")


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
