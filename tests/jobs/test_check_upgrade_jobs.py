"""The verdict of an upgrade check is what a restore then does: for programs that changed in every way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import Halting, environment

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.cli.check_upgrade import exit_code, render
from headgate.cli.exit_codes import ExitCode
from headgate.common.settings.options import IGNORE_UNCLAIMED_STATE
from headgate.connectors.discard import CountingSink
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import UpgradeReport, Verdict

WORDS = ["ant", "bee", "cow", "bee"] * 20
OTHER_KEYS = "keys of type str, and function ByNumber declares keys of type int"
STOP = 40
"""How many words of each split the old program has counted when it stops."""


@dataclass
class Stats:
    word: str
    count: int


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Wider:
    word: str
    count: float
    more: int = 0


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Unfilled:
    word: str
    count: int
    must: str


class Old(hg.KeyedProcessFunction[str, str, Any]):
    """Has filled states of several kinds, and one in which nothing is stored."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str, int] = hg.map_state()
    never: hg.ValueState[int | None] = hg.value_state(default=None)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        self.stats.value = Stats(record, int(self.count.value))
        self.places.add(int(self.count.value))
        self.seen.put(record, 1)
        yield record


class Grown(hg.KeyedProcessFunction[str, str, Any]):
    """Everything can follow; what was never filled is of another type, and one state is new."""

    count: hg.ValueState[float] = hg.value_state(default=0)
    stats: hg.ValueState[Wider | None] = hg.value_state(default=None)
    places: hg.ListState[int | None] = hg.list_state()
    seen: hg.MapState[str, float] = hg.map_state()
    never: hg.ListState[str] = hg.list_state()
    fresh: hg.ValueState[bytes] = hg.value_state(default=b"")

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        yield record


class WithoutEmpty(hg.KeyedProcessFunction[str, str, Any]):
    """Lacks only the state in which nothing is stored."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class Lacking(hg.KeyedProcessFunction[str, str, Any]):
    """Lacks a state that is filled."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    seen: hg.MapState[str, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class WiderAndLacking(hg.KeyedProcessFunction[str, str, Any]):
    """One state is of a wider type, and others are gone."""

    count: hg.ValueState[float] = hg.value_state(default=0)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class WithTtl(Old):
    """As before, and one more state, whose entries end."""

    late: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("1h"))


class OtherKind(hg.KeyedProcessFunction[str, str, Any]):
    """A value became a list."""

    count: hg.ListState[int] = hg.list_state()
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class OtherMapKeys(hg.KeyedProcessFunction[str, str, Any]):
    """The keys of a map are of another type."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str | None, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class Unreadable(hg.KeyedProcessFunction[str, str, Any]):
    """A field was added without a default."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Unfilled | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


class ByNumber(hg.KeyedProcessFunction[int, str, Any]):
    """Says that its keys are numbers."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()
    seen: hg.MapState[str, int] = hg.map_state()

    def process(self, record: str, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        yield record


class Waiting(hg.ProcessFunction[str, str]):
    """Keeps a list that is dealt out."""

    waiting: hg.OperatorListState[int] = hg.operator_list_state()

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        self.waiting.add(1)
        yield record


class WaitingWider(hg.ProcessFunction[str, str]):
    """The elements are of a type that takes the old ones."""

    waiting: hg.OperatorListState[float] = hg.operator_list_state()

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        yield record


class WaitingForAll(hg.ProcessFunction[str, str]):
    """The list goes to everybody now."""

    waiting: hg.OperatorListState[int] = hg.operator_list_state(redistribution="union")

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        yield record


class WaitsForNothing(hg.ProcessFunction[str, str]):
    """Has no list any more."""

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        yield record


def program(
    folder: Path,
    count: Callable[[], Any] = Old,
    wait: Callable[[], Any] = Waiting,
    uid: str = "count",
    parallelism: int = 2,
    stop: int = len(WORDS),
    groups: int = 128,
    backend: str = "hashmap",
) -> hg.Environment:
    """Words from two splits."""
    config = {
        "restart-strategy.type": "none",
        "pipeline.max-parallelism": groups,
        "state.backend.type": backend,
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
    }
    env = environment(parallelism, config)
    env.checkpoints(every="5ms", storage=str(folder / "checkpoints"))
    source = Halting(id(env), stop, WORDS, WORDS)
    words = env.from_source(source, uid="words").process(wait(), uid="wait")
    words.key_by(lambda word: word).process(count(), uid=uid).sink_to(CountingSink(), uid="out")
    return env


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The last checkpoint of the old program."""
    return stopped(tmp_path_factory.mktemp("old"))


def stopped(folder: Path, **changes: Any) -> str:
    """The last checkpoint of the old program, in a folder of its own."""
    with pytest.raises(hg.HeadgateError, match="crash in split"):
        program(folder, stop=STOP, **changes).execute("words")
    found = (folder / "checkpoints").rglob("_metadata")
    return str(max(found, key=lambda file: file.stat().st_mtime).parent)


def judged(snapshot: str, env: hg.Environment, allow: bool = False) -> UpgradeReport:
    """The report on a program of this process."""
    disk, metadata = open_checkpoint(snapshot)
    return Judgement(disk, metadata, env.program.nodes(), env.plan("words"), allow).report(snapshot, "words")


def verdicts(report: UpgradeReport) -> dict[tuple[str, str], Verdict]:
    """Operator and name -> verdict."""
    return {
        (operator.uid, item.name): item.verdict for operator in report.operators for item in operator.items
    }


PAIRS: dict[str, tuple[dict[str, Any], Verdict]] = {
    "the same": ({}, Verdict.AS_IS),
    "another parallelism": ({"parallelism": 3}, Verdict.AS_IS),
    "types that can follow": ({"count": Grown}, Verdict.AFTER_MIGRATION),
    "an empty state is gone": ({"count": WithoutEmpty}, Verdict.AS_IS),
    "a time to live": ({"count": WithTtl}, Verdict.AS_IS),
    "a filled state is gone": ({"count": Lacking}, Verdict.ONLY_IN_SNAPSHOT),
    "another kind of state": ({"count": OtherKind}, Verdict.INCOMPATIBLE),
    "other keys of a map": ({"count": OtherMapKeys}, Verdict.INCOMPATIBLE),
    "keys of another type": ({"count": ByNumber}, Verdict.INCOMPATIBLE),
    "a field without a default": ({"count": Unreadable}, Verdict.INCOMPATIBLE),
    "another uid": ({"uid": "counted"}, Verdict.ONLY_IN_SNAPSHOT),
    "another number of key groups": ({"groups": 64}, Verdict.INCOMPATIBLE),
    "wider elements": ({"wait": WaitingWider}, Verdict.AFTER_MIGRATION),
    "a list for everybody": ({"wait": WaitingForAll}, Verdict.INCOMPATIBLE),
    "no list any more": ({"wait": WaitsForNothing}, Verdict.ONLY_IN_SNAPSHOT),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_verdict_is_what_a_restore_does(name: str, snapshot: str, tmp_path: Path) -> None:
    """G6-G9, G25: a job begins from the checkpoint exactly when the check says that it can."""
    changes, expected = PAIRS[name]
    report = judged(snapshot, program(tmp_path, **changes))
    assert report.verdict is expected
    job = program(tmp_path, **changes)
    if report.restorable:
        job.execute("words", restore_from=snapshot)
        return
    with pytest.raises(hg.HeadgateError) as refused:
        job.execute("words", restore_from=snapshot)
    assert "checkpoint" in str(refused.value)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(Grown, Verdict.AFTER_MIGRATION), (WithoutEmpty, Verdict.AS_IS), (Lacking, Verdict.ONLY_IN_SNAPSHOT)],
)
def test_the_verdict_on_rocksdb_files(count: Any, expected: Verdict, tmp_path: Path) -> None:
    """Whether anything is stored of a state is asked of RocksDB's own files, where it matters."""
    found = stopped(tmp_path, backend="rocksdb")
    report = judged(found, program(tmp_path, count, backend="rocksdb"))
    assert report.verdict is expected


def test_a_renamed_operator_is_found(snapshot: str, tmp_path: Path) -> None:
    """The report asks whether the new uid is the old one's."""
    report = judged(snapshot, program(tmp_path, uid="counted"))
    (lost,) = [operator for operator in report.operators if operator.name is None]
    assert lost.suggestion is not None
    assert "did you rename uid 'count' to 'counted'?" in lost.suggestion


def test_an_operator_with_state_and_no_uid_is_told(snapshot: str, tmp_path: Path) -> None:
    """Where checkpoints are off in the program, nothing else has refused it yet."""
    env = environment(2, {"pipeline.max-parallelism": 128})
    words = env.from_source(Halting(id(env), 1, WORDS, WORDS), uid="words").process(Waiting(), uid="wait")
    words.key_by(lambda word: word).process(Old()).sink_to(CountingSink(), uid="out")
    report = judged(snapshot, env)
    (unnamed,) = [operator for operator in report.operators if operator.lacks_uid]
    assert unnamed.suggestion is not None
    assert "operator 'Old' has state but no uid; give it the one" in unnamed.suggestion


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": 64}, r"128 key groups and the program asks for 64; set pipeline\.max-parallelism to 128"),
        (
            {"groups": 512, "parallelism": 200},
            r"parallelism 200 needs as many key groups.* has 128; run the program at a parallelism of at",
        ),
    ],
)
def test_what_helps_with_other_key_groups_is_said(
    changes: dict[str, Any], said: str, snapshot: str, tmp_path: Path
) -> None:
    """A parallelism beyond the stored key groups is not mended by fewer of them; the command is whole."""
    (refusal,) = judged(snapshot, program(tmp_path, **changes)).refusals
    assert re.search(said, refusal)
    assert f"headgate savepoint reslice SNAPSHOT TARGET --max-parallelism {changes['groups']}" in refusal


def test_state_that_may_be_left_behind_is_no_failure(
    snapshot: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told all the same, of the part and of the whole, and the restore says what it skips."""
    report = judged(snapshot, program(tmp_path, Lacking), allow=True)
    assert report.restorable
    assert report.verdict is Verdict.LEFT_BEHIND
    assert verdicts(report)["count", "places"] is Verdict.ONLY_IN_SNAPSHOT
    assert "goes on from the snapshot, and what is only in the snapshot is left behind" in render(report)
    env = program(tmp_path, Lacking).config(IGNORE_UNCLAIMED_STATE.key, True)
    with caplog.at_level("WARNING"):
        env.execute("words", restore_from=snapshot)
    assert re.search("stored state .*'places' is not declared any more and is skipped", caplog.text)


def test_a_conversion_counts_also_where_state_is_left_behind(snapshot: str, tmp_path: Path) -> None:
    """With --exact the one must not hide the other."""
    report = judged(snapshot, program(tmp_path, WiderAndLacking), allow=True)
    assert report.verdict is Verdict.LEFT_BEHIND
    assert exit_code(report, exact=True) is ExitCode.NEEDS_MIGRATION
    assert exit_code(report) is ExitCode.FINISHED


def test_each_state_has_its_own_verdict(snapshot: str, tmp_path: Path) -> None:
    """Both sides are listed, with what changed."""
    report = judged(snapshot, program(tmp_path, Grown))
    found = verdicts(report)
    assert found["count", "count"] is Verdict.AFTER_MIGRATION
    assert found["count", "never"] is Verdict.AS_IS
    assert found["count", "fresh"] is Verdict.ONLY_IN_PROGRAM
    assert found["count", "keys"] is found["count", "timers"] is found["words", "splits"] is Verdict.AS_IS


def test_keys_of_another_type_are_told(snapshot: str, tmp_path: Path) -> None:
    """G25: nothing would be found under the new keys, so check and restore refuse it and name both types."""
    report = judged(snapshot, program(tmp_path, ByNumber))
    assert verdicts(report)["count", "keys"] is Verdict.INCOMPATIBLE
    with pytest.raises(hg.HeadgateError, match=OTHER_KEYS):
        program(tmp_path, ByNumber).execute("words", restore_from=snapshot)


def test_keys_of_another_type_are_refused_on_rocksdb(tmp_path: Path) -> None:
    """The keys in RocksDB's own files decide as those of the heap do."""
    found = stopped(tmp_path, backend="rocksdb")
    report = judged(found, program(tmp_path, ByNumber, backend="rocksdb"))
    assert verdicts(report)["count", "keys"] is Verdict.INCOMPATIBLE
    with pytest.raises(hg.HeadgateError, match=OTHER_KEYS):
        program(tmp_path, ByNumber, backend="rocksdb").execute("words", restore_from=found)


def test_a_key_of_another_type_than_declared_is_refused_at_run_time(tmp_path: Path) -> None:
    """Else the job's own checkpoint could not be restored; both types are named."""
    with pytest.raises(hg.HeadgateError, match="got a " + OTHER_KEYS.replace("keys", "key", 1)):
        program(tmp_path, ByNumber).execute("words")
