"""Whole jobs with a broadcast side: every subtask has all rules, exactly once, at any parallelism.

What a main record gives does not depend on when rules come: it waits in state until all are there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.testing import simulate
from sim.store import EventSource

RULES = [(f"r{n}", n) for n in range(6)]
ALL = sum(value for _, value in RULES)
WORDS = [f"w{n % 7}" for n in range(120)]
UNALIGNED = "execution.checkpointing.unaligned.enabled"


class Judge(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Numbers the words of a key once all rules are known; those that come before wait."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()
    waiting: hg.ListState[Any] = hg.list_state()
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.waiting.add(record)
        if len(self.rules) == len(RULES):
            yield from self.judged(ctx.key, self.waiting)

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.rules.put(record[0], record[1])
        yield "rule", record[0], 0
        if len(self.rules) == len(RULES):
            yield from ctx.apply_to_all_keys(self.waiting, self.judged)

    def judged(self, key: str, waiting: Any) -> Iterator[Any]:
        total = sum(value for _, value in self.rules.items())
        for _ in waiting.get():
            self.count.value += 1
            yield key, self.count.value, total
        waiting.clear()


class KeylessJudge(hg.BroadcastProcessFunction[str, Any, Any]):
    """Passes words on once all rules are known; those that come before wait in operator state."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()
    waiting: hg.OperatorListState[str] = hg.operator_list_state()

    def process(self, record: str, ctx: hg.BroadcastContext) -> Iterator[Any]:
        self.waiting.add(record)
        yield from self.judged()

    def process_broadcast(self, record: Any, ctx: hg.BroadcastContext) -> Iterator[Any]:
        self.rules.put(record[0], record[1])
        yield "rule", record[0], 0
        yield from self.judged()

    def judged(self) -> Iterator[Any]:
        if len(self.rules) == len(RULES):
            total = sum(value for _, value in self.rules.items())
            yield from ((word, 0, total) for word in self.waiting.get())
            self.waiting.clear()


def itself(word: str) -> str:
    """A word is its own key."""
    return word


def judge(words: hg.DataStream[str], rules: hg.DataStream[Any], keyed: bool, uid: str = "judge") -> Any:
    """The operator under test."""
    if keyed:
        return words.key_by(itself).connect(rules.broadcast()).process(Judge(), uid=uid)
    return words.connect(rules.broadcast()).process(KeylessJudge(), uid=uid)


def demand_exact(found: Iterable[Any], keyed: bool, parallelism: int, words: list[str]) -> None:
    """Each word once, judged by all rules; each rule once in each subtask."""
    records = [tuple(record) for record in found]
    rules = sorted(record for record in records if record[0] == "rule")
    assert rules == sorted([("rule", name, 0) for name, _ in RULES] * parallelism)
    numbered = running_counts(words) if keyed else [(word, 0) for word in words]
    assert sorted(r for r in records if r[0] != "rule") == sorted((*one, ALL) for one in numbered)


@pytest.mark.parametrize("parallelism", [*(pytest.param(n, marks=pytest.mark.ci) for n in (1, 2)), 3])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
@pytest.mark.parametrize("way", ["aligned", pytest.param("unaligned", marks=pytest.mark.ci)])
def test_crashes_on_either_side_leave_no_trace(
    tmp_path: Path, parallelism: int, keyed: bool, way: str, request: Any
) -> None:
    """A reader of each side crashes behind a checkpoint, that of the rules between two of them."""
    config = {**TINY, **RESTART_AT_ONCE, UNALIGNED: way == "unaligned"}
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    name = hash(request.node.name)
    words = env.from_source(Halting(name, 40, WORDS[:60], WORDS[60:]), uid="words")
    rules = env.from_source(Halting(name + 1, 3, RULES), uid="rules", parallelism=1)
    out = judge(words, rules, keyed).collect_later("out")
    assert env.execute("judged").restarts >= 1
    demand_exact(out.records, keyed, parallelism, WORDS)


class Told:
    """How many rules were told to subtasks of this process."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    times: ClassVar[int] = 0
    awaited: ClassVar[int] = 0
    everywhere: ClassVar[threading.Event] = threading.Event()

    @classmethod
    def expect(cls, times: int) -> None:
        """Words are held back until so many were told."""
        cls.times, cls.awaited = 0, times
        cls.everywhere.clear()

    @classmethod
    def note(cls) -> None:
        """A rule was told."""
        with cls.lock:
            cls.times += 1
            if cls.times == cls.awaited:
                cls.everywhere.set()


class TellingJudge(Judge):
    """Says when it was told a rule."""

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield from super().process_broadcast(record, ctx)
        Told.note()


class TellingKeylessJudge(KeylessJudge):
    """The same without a key."""

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield from super().process_broadcast(record, ctx)
        Told.note()


class AfterTheRules(Halting):
    """Gives nothing before all rules were told, so that every checkpoint at which it crashes holds them."""

    def create_reader(self, context: hg.SourceReaderContext) -> Any:
        reader: Any = super().create_reader(context)
        poll = reader.poll

        def patiently(records: int) -> Any:
            waits = reader.splits and not Told.everywhere.is_set()
            return hg.NOTHING_AVAILABLE if waits else poll(records)

        reader.poll = patiently
        return reader


@pytest.mark.parametrize("kind", ["plain", "hashmap", pytest.param("rocksdb", marks=pytest.mark.ci)])
@pytest.mark.parametrize("widths", [(2, 3, 1), pytest.param((1, 3, 2), marks=pytest.mark.ci)])
def test_so2_rules_are_everywhere_after_rescaling(
    tmp_path: Path, widths: tuple[int, ...], kind: str, request: Any
) -> None:
    """sO2: told once, at the first parallelism; each subtask of every later job has all of them."""
    keyed = kind != "plain"
    name = hash(request.node.name)
    splits = [WORDS[n::3] for n in range(3)]
    Told.expect(len(RULES) * widths[0])
    checkpoint: str | None = None
    for number, width in enumerate(widths):
        last = number == len(widths) - 1
        config = {**TINY, "restart-strategy.type": "none", UNALIGNED: True}
        if keyed:
            config |= {"state.backend.type": kind, "state.backend.rocksdb.localdir": str(tmp_path / "local")}
        env = environment(width, config)
        env.checkpoints(every="10ms", storage=str(tmp_path / f"checkpoints{number}"))
        words = env.from_source(AfterTheRules(name + number, 20, *splits), uid="words")
        function: Any = TellingJudge() if keyed else TellingKeylessJudge()
        main: Any = words.key_by(itself) if keyed else words
        rules = env.from_collection(RULES, uid="rules").broadcast()
        main.connect(rules).process(function, uid="judge").write_json(str(tmp_path / "out"), uid="out")
        if last:
            Halting.crashed |= {(name + number, str(split)) for split in range(len(splits))}
            env.execute("judged", restore_from=checkpoint)
        else:
            with pytest.raises(hg.HeadgateError, match="crash in split"):
                env.execute("judged", restore_from=checkpoint)
            stored = (tmp_path / f"checkpoints{number}").rglob("_metadata")
            checkpoint = str(max(stored, key=lambda file: int(file.parent.name.rpartition("-")[2])).parent)
    assert Told.times == len(RULES) * widths[0]
    demand_exact(json_lines(tmp_path / "out"), keyed, widths[0], WORDS)


def wrong_rule(_: Any) -> tuple[str, int]:
    """A rule that no function takes."""
    return ("wrong", 0)


class Refusing(Judge):
    """Does not take a wrong rule."""

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        if record[0] == "wrong":
            raise ValueError("no such rule")
        yield from super().process_broadcast(record, ctx)


def test_a_failure_on_the_broadcast_side_names_operator_and_record() -> None:
    """As one on the main side does."""
    env = environment(2, {"restart-strategy.type": "none"})
    words, rules = env.from_collection(WORDS), env.from_collection([1]).map(wrong_rule).broadcast()
    with pytest.raises(hg.UserFunctionError) as caught:
        words.key_by(itself).connect(rules).process(Refusing(), uid="judge").collect()
    assert (caught.value.operator, caught.value.record) == (
        "operator 'Refusing' (uid 'judge')",
        "('wrong', 0)",
    )
    assert "in process_broadcast" in caught.value.traceback_text


@hg.blocking
class SlowJudge(Judge):
    """Runs beside the loop."""


class Quiet(Judge):
    """Tells by a timer of event time what it has counted, and sets it for all keys again with each rule."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        ctx.timers.register_event_time(1_000_000)
        yield from super().process(record, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.key, -self.count.value, timestamp


NUMBERED = [(f"k{n % 5}", n) for n in range(60)]


@pytest.mark.parametrize("unaligned", [pytest.param(False, marks=pytest.mark.ci), True])
@pytest.mark.parametrize("function", [Quiet, pytest.param(SlowJudge, marks=pytest.mark.ci)])
def test_under_faults(function: type[Judge], unaligned: bool) -> None:
    """In the simulator, with kills, pauses, cuts and slow disks: the output is that of an undisturbed run."""

    def build(env: hg.Environment) -> None:
        words = env.from_source(EventSource(NUMBERED, 7), uid="words")
        timed = words.with_event_time(lambda pair: pair[1], out_of_orderness=10_000)
        rules = env.from_source(EventSource(RULES, 2), uid="rules")
        told = rules.with_event_time(lambda rule: rule[1]).broadcast()
        judged = timed.key_by(lambda pair: pair[0]).connect(told).process(function(), uid="judge")
        # How often a rule comes depends on the parallelism, which is drawn, too.
        judged.filter(lambda record: record[0] != "rule").collect_later(uid="out")

    report = simulate(build, seeds=range(6), config={UNALIGNED: unaligned})
    assert report.faults > 0
    assert report.restarts > 0
    assert report.checkpoints > 0
