"""Savepoints out of DataFrames: written by Spark, restored by jobs of any parallelism and either backend."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_groups_of_keys
from headgate.offline.keyed_verdicts import targets_of
from headgate.offline.migrating import migrate
from headgate.offline.rewriting import rewrite
from headgate.state.stored.values import DeclaredValues, PlainValues
from headgate.stateprocessor.diff import compare
from headgate.stateprocessor.ranges import GROUP, with_key_group
from headgate.stateprocessor.ranges_rewriting import INSPECTOR, SparkEngine
from headgate.stateprocessor.writing.savepoint_writer import SavepointWriter
from headgate.testing.mini_cluster import MiniCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.ci]

USERS = 500
GROUPS = 24
ASKED = [f"user{n}" for n in (0, 1, 2, 77, 499, 1000)]


@dataclass
class Visit:
    """A record, nested and with other kinds of fields in it."""

    page: str
    times: int
    tags: list[str]


class Visits(hg.KeyedProcessFunction[str, str, Any]):
    """Tells all that it holds of the key of each record."""

    count: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("1000d"))
    last: hg.ValueState[Visit | None] = hg.value_state()
    seen: hg.ListState[int] = hg.list_state()
    per_page: hg.MapState[str, float] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        last = self.last.value
        shown = None if last is None else [last.page, last.times, last.tags]
        yield [ctx.key, self.count.value, shown, self.seen.get(), dict(self.per_page.items())]

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[Any]:
        yield [ctx.key, timestamp]


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session whose workers find this file's classes."""
    return open_spark("local[2]", {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parent)})


@pytest.fixture(scope="module")
def bootstrapped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with a state of each kind, and timers."""
    users = spark.range(USERS).selectExpr("concat('user', id) AS user", "id")
    frames = {
        "count": users.selectExpr("user", "cast(id AS int) AS count"),
        "last": users.selectExpr(
            "user", "named_struct('times', id, 'page', '/a', 'tags', array('x', user)) AS value"
        ),
        "seen": users.selectExpr("user", "slice(array(id, id + 1), 1, cast(id % 3 AS int)) AS seen"),
        "per_page": users.selectExpr("user", "map('/b', cast(id AS float)) AS per_page"),
    }
    timers = users.where("id < 5").selectExpr("user", "id * 1000 AS timestamp")
    writer = SavepointWriter.new(GROUPS, 3).with_operator("visits", Visits, frames, key="user")
    folder = tmp_path_factory.mktemp("savepoints")
    made = writer.with_timers("visits", timers, key="user").write(str(folder / "one"))
    assert made.entries["visits"]["count"] == made.entries["visits"]["seen"] == USERS
    assert made.entries["visits"]["timers:all"] == 5
    return made.uri


def restored(uri: str, parallelism: int, backend: str) -> list[Any]:
    """What a job says that begins from a savepoint."""
    config = {"state.backend.type": backend}
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster(), config=config)
    told = env.from_collection(ASKED).key_by(lambda user: user).process(Visits(), uid="visits")
    collected = told.collect_later()
    env.execute("visits", restore_from=uri)
    return sorted(collected.records, key=str)


def told_of(number: int) -> list[Any]:
    """What the bootstrapped state says of one user."""
    user = f"user{number}"
    seen = [number, number + 1][: number % 3]
    return [user, number, ["/a", number, ["x", user]], seen, {"/b": float(number)}]


def timers_of(numbers: range) -> list[Any]:
    """What its timers say."""
    return [[f"user{number}", number * 1000] for number in numbers]


@pytest.mark.parametrize(("parallelism", "backend"), [(1, "hashmap"), (4, "rocksdb")])
def test_any_job_begins_from_dataframes(bootstrapped: str, parallelism: int, backend: str) -> None:
    """Values, records, lists, maps, stamps and timers are where a job of any parallelism looks for them."""
    verify_files(*open_checkpoint(bootstrapped))
    expected = [told_of(number) for number in (0, 1, 2, 77, 499)]
    expected += [["user1000", 0, None, [], {}], *timers_of(range(5))]
    assert restored(bootstrapped, parallelism, backend) == sorted(expected, key=str)


class VisitsByNumber(hg.KeyedProcessFunction[int, str, Any]):
    """Declares other keys."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: str, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        yield record


def test_keys_of_another_type_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """By the writer, where the function declares them, and else by the restore: the stored keys decide."""
    counts = spark.createDataFrame([("ada", 1), ("bob", 2)], "user string, value long")
    said = "keys of type str, and function VisitsByNumber declares keys of type int"
    with pytest.raises(UsageError, match=said):
        SavepointWriter.new(GROUPS).with_state("v", "count", counts, key="user", declared=VisitsByNumber)
    writer = SavepointWriter.new(GROUPS, 2)
    made = writer.with_state("v", "count", counts, key="user", declared=hg.ValueState[int])
    uri = made.write(str(tmp_path / "one")).uri
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    env.from_collection([1]).key_by(int).process(VisitsByNumber(), uid="v").collect_later()
    with pytest.raises(hg.HeadgateError, match="under " + said):
        env.execute("visits", restore_from=uri)


def test_an_existing_savepoint_is_changed(spark: SparkSession, bootstrapped: str, tmp_path: Path) -> None:
    """One state is transformed, one replaced, one left out; what else there is stays."""
    seen = spark.createDataFrame([("user77", [9, 8, 7])], "user string, seen array<long>")
    writer = SavepointWriter.from_existing(bootstrapped).remove("visits", "per_page")
    writer = writer.transform("visits", "count", lambda count: count + 1000, declared=Visits)
    writer = writer.with_state("visits", "seen", seen, key="user", value="seen", declared=hg.ListState[int])
    made = writer.write(str(tmp_path / "two"))
    found = {one[0]: one for one in restored(made.uri, 2, "hashmap") if len(one) > 2}
    assert found["user77"] == ["user77", 1077, ["/a", 77, ["x", "user77"]], [9, 8, 7], {}]
    assert found["user2"] == ["user2", 1002, ["/a", 2, ["x", "user2"]], [], {}]
    differing = {one.state: one for one in compare(bootstrapped, made.uri) if one.differs}
    assert differing.keys() == {"count", "seen", "per_page"}
    assert (differing["count"].changed, differing["per_page"].removed) == (USERS, USERS)
    assert (differing["seen"].changed, differing["seen"].removed) == (1, USERS - 1)


def test_what_is_no_state_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A key that is there twice and one that is null are named, and no file stays."""
    twice = spark.createDataFrame([("ada", 1), ("bob", 2), ("ada", 3)], "user string, value long")
    empty = spark.createDataFrame([("ada", 1), (None, 2)], "user string, value long")
    int_state = hg.ValueState[int]
    for frame, why in ((twice, "key 'ada' is there more than once"), (empty, "key column 'user' holds null")):
        writer = SavepointWriter.new(GROUPS, 2)
        writer = writer.with_state("visits", "count", frame, key="user", declared=int_state)
        with pytest.raises(UsageError, match=f"state 'count' of operator 'visits': {why}"):
            writer.write(str(tmp_path / "none"))
        assert not [file for file in (tmp_path / "none").rglob("*") if file.is_file()]


def test_columns_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    """Dots and backticks, too, which mean something to Spark where a column is asked for by its name."""
    users = spark.range(USERS).selectExpr("concat('user', id) AS `user.name`", "cast(id AS int) AS `a``b.c`")
    stamped = users.selectExpr("`user.name`", "`a``b.c` * 1000L AS `t.``s`").where("`a``b.c` < 2")
    writer = SavepointWriter.new(GROUPS, 2)
    writer = writer.with_state("visits", "count", users, key="user.name", value="a`b.c", declared=Visits)
    made = writer.with_timers("visits", stamped, key="user.name", timestamp="t.`s").write(str(tmp_path / "s"))
    assert made.entries["visits"]["count"] == USERS
    expected = [[user, int(user[4:]), None, [], {}] for user in ASKED[:-1]]
    expected += [["user1000", 0, None, [], {}], *timers_of(range(2))]
    assert restored(made.uri, 2, "hashmap") == sorted(expected, key=str)


def test_what_spark_says_of_a_failed_column_is_told_whole(spark: SparkSession, tmp_path: Path) -> None:
    """An error of the frame's own Python function and one of Spark's: the cause comes first."""
    from pyspark.sql.functions import udf

    def rate(value: int) -> int:
        return 1 // (value - 7)

    frame = spark.range(10).selectExpr("concat('user', id) AS user", "id AS value")
    wrong = {
        "ZeroDivisionError: ": frame.withColumn("value", udf(rate, "long", useArrow=False)("value")),
        "not a number of mine": frame.selectExpr(
            "user", "if(value = 7, raise_error('not a number of mine'), value) AS value"
        ),
    }
    for cause, column in wrong.items():
        writer = SavepointWriter.new(GROUPS, 2)
        writer = writer.with_state("visits", "count", column, key="user", value="value", declared=Visits)
        with pytest.raises(hg.OperatingError) as caught:
            writer.write(str(tmp_path / "none"))
        first, *rest = str(caught.value).splitlines()
        assert first.startswith("Spark could not compute the state of operator 'visits': ")
        assert cause in first
        assert not any(line.lstrip().startswith("at org.apache") for line in rest)
    assert not [file for file in (tmp_path / "none").rglob("*") if file.is_file()]


def test_a_column_that_does_not_fit_is_refused_at_once(spark: SparkSession) -> None:
    """The types are compared where the state is declared; nothing is computed for it."""
    frame = spark.sql("SELECT 'ada' AS user, raise_error('computed') AS value, 1.5d AS rate")
    new = SavepointWriter.new()
    with pytest.raises(UsageError, match="column 'rate' is of type double, which does not fit into the decl"):
        new.with_state("visits", "count", frame, key="user", value="rate", declared=Visits)
    with pytest.raises(UsageError, match="no column 'usr'; it has user, value, rate"):
        new.with_state("visits", "count", frame, key="usr", declared=Visits)
    with pytest.raises(
        UsageError, match="Visits declares 'count', 'last', 'seen', 'per_page', and not 'cuont'"
    ):
        new.with_state("visits", "cuont", frame, key="user", declared=Visits)
    with pytest.raises(UsageError, match=r"begin with SavepointWriter\.from_existing"):
        new.remove("visits")


@pytest.mark.proof
def test_spark_hashes_keys_as_the_runtime_does(spark: SparkSession) -> None:
    """Key groups of every kind of key that a column can have, and of tuples, are those of a job."""
    frame = spark.range(300).selectExpr(
        "id * 2654435761 * 104729 - 9000000000000 AS l",
        "cast(id AS int) - 150 AS i",
        "concat('ké', id) AS s",
        "cast(concat('b', id) AS binary) AS b",
        "id % 2 = 0 AS o",
        "date_add(date'1969-06-01', int(id)) AS d",
        "timestamp_micros(id * 123456789012 - 5000000000000) AS t",
        "cast(id AS double) / 4 - 9 AS f",
    )
    kinds = [["l"], ["i"], ["s"], ["b"], ["o"], ["d"], ["t"], ["f"], ["i", "s", "f"]]
    for number, keys in enumerate(kinds):
        frame = with_key_group(frame, keys, 1000).withColumnRenamed(GROUP, f"group{number}")
    rows = [row.asDict() for row in frame.collect()]
    for row in rows:
        row["b"], row["t"] = bytes(row["b"]), row["t"].astimezone(dt.UTC)
    for number, keys in enumerate(kinds):
        found = [row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys) for row in rows]
        expected = key_groups_of_keys(found, 1000).tolist()
        assert [row[f"group{number}"] for row in rows] == expected, keys


class _Change:
    """A `rewriting.Change`: another number of key groups, and other keys where a function is given."""

    def __init__(self, max_parallelism: int, rekey: Any = None) -> None:
        self.max_parallelism: int | None = max_parallelism
        self._rekey = rekey

    def keeps(self, uid: str) -> bool:
        return True

    def part(self, state: Any) -> Any:
        return state

    def splits(self, uid: str) -> bool:
        return True

    def values(self, uid: str) -> Any:
        return PlainValues() if self._rekey is None else DeclaredValues(targets_of(declared_state(Visits())))

    def rekey(self, uid: str) -> Any:
        return self._rekey

    def operator_state(self, *_: Any) -> None:
        """It stays."""

    def state_types(self, uid: str, stored: Any) -> Any:
        return dict(stored)


def tables(uri: str) -> dict[tuple[str, int], Any]:
    """The rows of each table of a savepoint."""
    disk, metadata = open_checkpoint(uri)
    folder = Path(disk.describe().removeprefix("file://"))
    return {
        (table.name, index): pq.read_table(folder / table.file).to_pydict()
        for index, state in enumerate(metadata.operators["visits"])
        if state.keyed is not None
        for table in state.keyed.tables or ()
    }


@pytest.mark.proof
@pytest.mark.parametrize("rekey", [None, lambda user: int(user.removeprefix("user"))])
def test_f29_spark_rewrites_to_the_same_tables(
    spark: SparkSession, bootstrapped: str, tmp_path: Path, rekey: Any
) -> None:
    """Another number of key groups, other keys and declared types: row by row what one process writes."""
    here = rewrite(bootstrapped, str(tmp_path / "here"), _Change(40, rekey))
    there = rewrite(bootstrapped, str(tmp_path / "spark"), _Change(40, rekey), engine=SparkEngine(spark))
    assert there.entries == here.entries
    assert tables(there.uri) == tables(here.uri)


def test_two_keys_that_become_one_are_refused_on_spark(
    spark: SparkSession, bootstrapped: str, tmp_path: Path
) -> None:
    """As in one process, and nothing is left."""
    with pytest.raises(UsageError, match="would both become 'user'"):
        rewrite(bootstrapped, str(tmp_path / "no"), _Change(40, lambda _: "user"), engine=SparkEngine(spark))
    assert not [file for file in (tmp_path / "no").rglob("*") if file.is_file()]


PROGRAM = """
from dataclasses import dataclass
import headgate as hg
from headgate.testing import MiniCluster

@hg.formerly("test_savepoint_writer.Visit")
@dataclass
class Visit:
    page: str
    times: int
    tags: list[str]
    rating: float = 0.5

class Visits(hg.KeyedProcessFunction[int, int, int]):
    count: hg.ValueState[float] = hg.value_state(default=0.0, ttl=hg.StateTtl("1000d"))
    last: hg.ValueState[Visit | None] = hg.value_state()
    seen: hg.ListState[int] = hg.list_state()
    per_page: hg.MapState[str, float] = hg.map_state()

    def process(self, record, ctx):
        yield record

def number(user):
    return int(user.removeprefix("user"))

env = hg.Environment(executor=MiniCluster())
env.from_collection([1]).key_by(lambda n: n).process(Visits(), uid="visits").collect()
"""


@pytest.mark.proof
def test_a_program_migrates_on_spark(spark: SparkSession, bootstrapped: str, tmp_path: Path) -> None:
    """Its classes and its function for new keys get to the tasks; the tables are those of one process."""
    spark.stop()  # the program opens its own
    program = tmp_path / "visits.py"
    program.write_text(PROGRAM)
    options = ["headgate.spark.master=local[2]"]
    made = [
        migrate(
            bootstrapped,
            str(tmp_path / name),
            program,
            options=options,
            rekey={"visits": "number"},
            max_parallelism=32,
            inspector=INSPECTOR,
            spark=name == "spark",
        )
        for name in ("here", "spark")
    ]
    assert made[0].entries == made[1].entries
    assert tables(made[0].uri) == tables(made[1].uri)
    (last,) = compare(made[0].uri, made[1].uri, "visits/last", samples=0)
    assert last.same == USERS
