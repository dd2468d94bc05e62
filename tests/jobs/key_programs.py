"""A program in many versions, which differ in their keys; and what its upgrades come to."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, NewType
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from mini_jobs import environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata, encode_metadata
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import UpgradeReport, Verdict

NUMBERS = count(9100)
HALF, KEYS = 20, 5
BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {},
    "changelog": {"state.changelog.enabled": True},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    ANT = "ant"


class Pair(NamedTuple):
    name: str
    number: int


UserId = NewType("UserId", int)


@dataclass
class ByNumber:
    user: int
    shop: str = "a"


@dataclass
class ByName:
    user: str
    shop: str = "a"


def number(n: int) -> int:
    """An int, as annotated."""
    return n % KEYS


def name(n: int) -> str:
    """A str, as annotated."""
    return str(n % KEYS)


def wrongly_told(n: int) -> int:
    """A str, annotated as int."""
    return str(n % KEYS)  # type: ignore[return-value]


def truth(n: int) -> bool:
    """A bool."""
    return n % 2 == 0


def pair(n: int) -> tuple[str, int]:
    """A tuple."""
    return str(n % KEYS), n % 2


def turned(n: int) -> tuple[int, str]:
    """A tuple of other types."""
    return n % KEYS, str(n % 2)


def mixed(n: int) -> Any:
    """Ints and strs."""
    return str(n % KEYS) if n % 2 else n % KEYS


def by_number(n: int) -> ByNumber:
    """A record with an int."""
    return ByNumber(n % KEYS)


def by_name(n: int) -> ByName:
    """A record with a str."""
    return ByName(str(n % KEYS))


def silent(selector: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same key function without annotations."""
    return lambda record: selector(record)


SILENT = silent(number)


class Count(hg.KeyedProcessFunction[Any, Any, Any]):
    """Declares nothing of its keys."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        yield [ctx.key, self.count.value]


def counting(keys: Any) -> type[Count]:
    """The function with keys of a declared type."""

    class Declared(hg.KeyedProcessFunction[keys, Any, Any]):  # type: ignore[valid-type]
        count: hg.ValueState[int] = hg.value_state(default=0)
        process = Count.process

    return Declared  # type: ignore[return-value]


class Forgetful(Count):
    """Keeps nothing under keys of type str."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield from super().process(record, ctx)
        if isinstance(ctx.key, str):
            self.count.clear()


class OnlyTimers(hg.KeyedProcessFunction[Any, Any, Any]):
    """Has no state."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        ctx.timers.register_processing_time(2**50)
        yield record


class Nothing(hg.KeyedProcessFunction[Any, Any, Any]):
    """Has neither state nor timers."""

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record


class Both(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Declares keys of type str, and has a broadcast side."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield from ()


@dataclass
class Program:
    """One version of a program; its records are whole numbers, or what `made` makes of them."""

    function: type[Any] = Count
    key: Any = SILENT
    made: Callable[[int], Any] | None = None
    backend: str = "heap"
    parallelism: int = 2

    def env(self, folder: Path, limit: float = float("inf")) -> hg.Environment:
        config = {"restart-strategy.type": "none", "pipeline.max-parallelism": 128, **BACKENDS[self.backend]}
        if "rocksdb" in str(config):
            config["state.backend.rocksdb.memory.fixed-per-slot"] = "16mb"
        env = environment(self.parallelism, config)
        env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
        stream: Any = env.from_source(Valve(next(NUMBERS), limit, range(2 * HALF)), uid="in")
        if self.made is not None:
            stream = stream.map(self.made)
        keyed = stream.key_by(*self.key) if isinstance(self.key, tuple) else stream.key_by(self.key)
        if issubclass(self.function, hg.KeyedBroadcastProcessFunction):
            keyed = keyed.connect(env.from_collection([], uid="rules").broadcast())
        keyed.process(self.function(), uid="count").write_json(str(folder / "out"), uid="out")
        return env


def stopped(program: Program, folder: Path, form: str = "canonical") -> str:
    """The savepoint that a job with half of its input was stopped with."""
    with program.env(folder, HALF).execute_async("keys") as job:
        wait_until(lambda: job.done or _read(job) == HALF, "the first half came")
        uri = job.stop(str(folder / "savepoints"), format=form)
        job.result()
    return unquote(urlsplit(uri).path)


def _read(job: Any) -> int:
    return sum(vertex.records_in for vertex in job.status().vertices if "in" in vertex.uids)


def judged(snapshot: str, program: Program, folder: Path) -> UpgradeReport:
    """What `headgate check-upgrade` says."""
    disk, metadata = open_checkpoint(snapshot)
    env = program.env(folder)
    return Judgement(disk, metadata, env.program.nodes(), env.plan("keys")).report(snapshot, "keys")


def keys_item(report: UpgradeReport) -> Any:
    """What it says of the keys."""
    (count,) = [operator for operator in report.operators if operator.uid == "count"]
    return next(item for item in count.items if item.name == "keys")


def without_types(snapshot: str) -> str:
    """The same savepoint as it would have been before the types of keys were stored."""
    file = Path(snapshot) / "_metadata"
    metadata = decode_metadata(file.read_bytes(), "it")
    operators = {
        uid: [
            state if state.keyed is None else msgspec.structs.replace(
                state, keyed=msgspec.structs.replace(state.keyed, key_types=None)
            )
            for state in states
        ]
        for uid, states in metadata.operators.items()
    }  # fmt: skip
    file.write_bytes(encode_metadata(msgspec.structs.replace(metadata, operators=operators)))
    return snapshot


def refused(snapshot: str, program: Program, folder: Path, stored: str, declared: str) -> None:
    """Demand that check and run refuse the program, and that both name both types."""
    item = keys_item(judged(snapshot, program, folder))
    assert (item.verdict, item.stored, item.declared) == (Verdict.INCOMPATIBLE, stored, declared)
    said = (
        rf"under keys of type .*{_plain(stored)}.*declares keys of type {_plain(declared)}.*savepoint migrate"
    )
    with pytest.raises(hg.HeadgateError, match=said):
        program.env(folder).execute("keys", restore_from=snapshot)


def _plain(words: str) -> str:
    return words.rpartition(" and ")[2].replace("[", r"\[").replace("|", r"\|").replace(".", r"\.")


def goes_on(
    snapshot: str, program: Program, folder: Path, same: Callable[[Any], Any] = lambda key: key
) -> None:
    """Demand that the check passes, and that the run finds the state: each key's counts go on."""
    report = judged(snapshot, program, folder)
    assert report.restorable, report
    program.env(folder).execute("keys", restore_from=snapshot)
    counts: dict[Any, list[int]] = {}
    for key, n in json_lines(folder / "out"):
        counts.setdefault(same(tuple(key) if isinstance(key, list) else key), []).append(n)
    assert sum(map(len, counts.values())) == 2 * HALF
    assert {key: sorted(ns) for key, ns in counts.items()} == {
        key: list(range(1, len(ns) + 1)) for key, ns in counts.items()
    }
