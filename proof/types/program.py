"""The text of a job that puts a type to every use, to be written below the type's own text."""

from __future__ import annotations

from typing import Final

USES: Final = (
    "schema of a source",
    "across an exchange, declared",
    "across an exchange, not declared",
    "key",
    "state value",
    "state element",
    "output of a timer",
    "side of a broadcast",
    "collect()",
    "write_json",
)
"""Those that need no Spark, in the order of the table."""

SPARK_USES: Final = ("to_dataframe", "to_spark", "savepoint read as DataFrame")

JOB: Final = '''
import atexit
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import headgate as hg

FOLDER = Path(os.environ["TYPES_FOLDER"])
COUNT = 12
CONFIG = {"state.backend.type": "rocksdb", "restart-strategy.type": "none", "execution.buffer-timeout": "1ms"}


def in_its_way() -> None:
    isolated = type(sys.modules) is not dict
    assert isolated is (os.environ["TYPES_WAY"] == "isolated"), f"isolated: {isolated}"


def seen_row(row: Row) -> int:
    in_its_way()
    row_check(row)
    return row_n(row)


def first(one: Any) -> Any:
    return one[0] if type(one) is tuple else one


class Seen(hg.KeyedProcessFunction[int, Any, int]):
    """Each record comes to the process of its key, and from one that may be another."""

    def process(self, one: Any, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        check(first(one))
        if one is not first(one):
            check(one[1][0])
        yield os.getpid()


def key_of(record: Record) -> Record:
    return record


class ByKey(hg.KeyedProcessFunction[Record, Record, int]):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Record, ctx: hg.KeyedContext[Record]) -> Iterator[int]:
        check(ctx.key)
        self.count.value += 1
        yield os.getpid()


class InValue(hg.KeyedProcessFunction[int, int, int]):
    before: hg.ValueState[Record | None] = hg.value_state(default=None)

    def process(self, number: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        if self.before.value is not None:
            check(self.before.value)
            assert self.before.value == make(number - 3)
            yield number
        self.before.value = make(number)


class InElements(hg.KeyedProcessFunction[int, int, int]):
    listed: hg.ListState[Record] = hg.list_state()
    mapped: hg.MapState[str, Record] = hg.map_state()

    def process(self, number: int, ctx: hg.KeyedContext[int]) -> Iterator[int]:
        self.listed.add(make(number))
        self.mapped[str(number)] = make(number)
        for record in [*self.listed.get(), *(record for _, record in self.mapped.items())]:
            check(record)
        assert self.listed.get() == [make(n) for n in range(number % 3, number + 1, 3)]
        assert self.mapped[str(number)] == make(number)
        yield len(self.listed.get())


class Timed(hg.KeyedProcessFunction[int, int, Record]):
    def process(self, number: int, ctx: hg.KeyedContext[int]) -> Iterable[Record]:
        ctx.timers.register_event_time(number + 1)
        return []

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[int]) -> Iterator[Record]:
        yield make(timestamp - 1)


class Beside(hg.BroadcastProcessFunction[int, Record, int]):
    known: hg.BroadcastState[int, Record] = hg.broadcast_state()

    def process(self, number: int, ctx: Any) -> Iterable[int]:
        return []

    def process_broadcast(self, record: Record, ctx: Any) -> Iterator[int]:
        check(record)
        self.known.put(len(self.known), record)
        for _, one in self.known.items():
            check(one)
        yield os.getpid()


def both_processes(pids: list[int], count: int = COUNT) -> None:
    assert len(pids) == count, f"{len(pids)} came of {count}"
    assert len(set(pids)) == 2, "all came to one process"
    assert os.getpid() not in pids


def equals(found: Any, expected: Any) -> None:
    assert found == expected, f"got {found!r}, expected {expected!r}"


def numbers(env: hg.Environment, uid: str) -> Any:
    return env.generate(lambda n: n, count=COUNT, uid=uid).set_parallelism(1)


def schema_of_a_source(env):
    read = env.read_json(str(FOLDER / "rows.jsonl"), schema=Row, uid="schema")
    kept = read.map(seen_row).collect_later(uid="k1")
    return lambda: equals(sorted(kept.records), list(range(COUNT)))


def across_an_exchange_declared(env):
    keyed = env.generate(make, count=COUNT, uid="g6").set_parallelism(1).key_by(order)
    kept = keyed.process(Seen(), uid="seen-1").collect_later(uid="k2")
    return lambda: both_processes(kept.records)


def across_an_exchange_not_declared(env):
    made = env.from_collection([make(n) for n in range(COUNT)], uid="made").map(lambda record: record)
    mixed = made.flat_map(lambda record: [record, (record, [record])])
    keyed = mixed.key_by(lambda one: order(first(one)))
    kept = keyed.process(Seen(), uid="seen-2").collect_later(uid="k3")
    return lambda: both_processes(kept.records, 2 * COUNT)


def key(env):
    keyed = env.generate(make, count=COUNT, uid="g7").key_by(key_of)
    kept = keyed.process(ByKey(), uid="by-key").collect_later(uid="k4")
    return lambda: both_processes(kept.records)


def state_value(env):
    keyed = numbers(env, "n1").key_by(lambda n: n % 3)
    kept = keyed.process(InValue(), uid="value").collect_later(uid="k5")
    return lambda: equals(sorted(kept.records), list(range(3, COUNT)))


def state_element(env):
    keyed = numbers(env, "n2").key_by(lambda n: n % 3)
    kept = keyed.process(InElements(), uid="elements").collect_later(uid="k6")
    return lambda: equals(sorted(kept.records), sorted(list(range(1, COUNT // 3 + 1)) * 3))


def output_of_a_timer(env):
    numbered = numbers(env, "n3").with_event_time(lambda n: n)
    timed = numbered.key_by(lambda n: n % 5).process(Timed(), uid="timed")
    kept = timed.key_by(order).process(Seen(), uid="seen-3").collect_later(uid="k7")
    return lambda: both_processes(kept.records)


def side_of_a_broadcast(env):
    side = env.generate(make, count=COUNT, uid="g8").set_parallelism(1).broadcast()
    both = numbers(env, "n4").rebalance().connect(side)
    kept = both.process(Beside(), uid="beside").collect_later(uid="k8")
    return lambda: both_processes(kept.records, 2 * COUNT)


def collect(env):
    declared = env.generate(make, count=COUNT, uid="g9").collect_later(uid="k9")
    undeclared = numbers(env, "n5").map(lambda n: make(n)).collect_later(uid="k10")

    def same():
        for kept in (declared.records, undeclared.records):
            for record in kept:
                check(record)
            for n in range(COUNT):
                assert make(n) in kept, f"{make(n)!r} is not among {kept!r}"
            equals(len(kept), COUNT)

    return same


def write_json(env):
    env.generate(make_row, count=COUNT, uid="g10").write_json(str(FOLDER / "out"), uid="out")

    def same():
        files = sorted((FOLDER / "out").glob("part-*"))
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        equals(sorted(found, key=lambda row: row["n"]), [plain_row(n) for n in range(COUNT)])

    return same


def pieces(env, uses):
    env.checkpoints(every="1h", storage=str(FOLDER / "checkpoints"))
    for setting, value in CONFIG.items():
        env.config(setting, value)
    return [globals()[use](env) for use in uses]


def begun():
    return len((FOLDER / "begun").read_text().splitlines()) if (FOLDER / "begun").exists() else 0


def report(uses, state, said=""):
    with open(FOLDER / "report", "a") as file:
        file.write(json.dumps({"uses": uses, "state": state, "said": said}) + "\\n")


def judged(uses, run):
    before = begun()
    try:
        in_its_way()
        run()
    except Exception as error:
        ours = isinstance(error, hg.HeadgateError)
        refused = isinstance(error, hg.UsageError) and begun() == before
        said = str(error) if ours else f"{type(error).__name__}: {error}"
        report(uses, "refused" if refused else "fails", said)
    else:
        report(uses, "works")


def wanted():
    return [group.split(",") for group in os.environ["TYPES_USES"].split(";")]
'''

RUN: Final = """
def run_one(uses):
    env = hg.Environment(parallelism=2EXECUTOR)
    checks = pieces(env, uses)
    env.execute("types")
    for one in checks:
        one()


for uses in wanted():
    judged(uses, lambda: run_one(uses))
"""

BUILD: Final = """
def build(env):
    (uses,) = wanted()
    env.config("parallelism.default", 2)
    checks = pieces(env, uses)
    # The command executes the job behind this; its exit code says whether these tell anything.
    atexit.register(lambda: judged(uses, lambda: [one() for one in checks]))
"""


def identifier(use: str) -> str:
    """The function of a use.

    Example:
        >>> identifier("across an exchange, declared"), identifier("collect()")
        ('across_an_exchange_declared', 'collect')
    """
    return use.replace(",", "").replace("()", "").replace(" ", "_")
