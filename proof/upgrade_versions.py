"""Versions of one program, made of changes, and what each must make of the state of the first version."""

from __future__ import annotations

import json
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

STOP = 12
WORDS = [[f"w{(n + 3 * split) % 7}" for n in range(24)] for split in range(2)]
LATER = 1_000_000
"""Event time of every key's timer: behind all input."""


@dataclass
class Stats:
    word: str
    count: int


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Wider:
    word: str
    count: float


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Longer:
    word: str
    count: int
    more: int = 7


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Unfilled:
    word: str
    count: int
    must: str


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Shorter:
    count: int


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Renamed:
    word: str
    count: int


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Textual:
    word: str
    count: str


@dataclass(frozen=True)
class Place:
    word: str
    side: str


@hg.formerly(f"{__name__}.Place")
@dataclass(frozen=True)
class OneSided:
    word: str


@hg.formerly(f"{__name__}.Place")
@dataclass(frozen=True)
class Deeper:
    word: str
    side: str
    depth: int = 3


class Gate(hg.Source[str]):
    """Lists of words, one per split, of which no more come than `limits` allows; workers are threads here."""

    limits: ClassVar[dict[str, int]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _GateEnumerator(list(range(len(WORDS))) if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[str]:
        return _GateReader(self.name)


class _GateEnumerator(hg.SplitEnumerator):
    def __init__(self, left: list[int]) -> None:
        self.left = list(left)

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(str(self.left.pop(0)))] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class _GateReader(hg.SourceReader[str]):
    def __init__(self, name: str) -> None:
        self.bad_records = []
        self.name, self.splits, self.final = name, [], False

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        self.final = True

    def poll(self, max_records: int) -> Any:
        for split in list(self.splits):
            words = WORDS[int(split[0])]
            stop = min(len(words), Gate.limits[self.name])
            if split[1] < stop:
                found, split[1] = words[split[1] : stop], stop
                if stop == len(words):
                    self.splits.remove(split)
                return found
        done = self.final and not self.splits
        return hg.END_OF_INPUT if done else hg.NOTHING_AVAILABLE

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]


@dataclass
class Version:
    """One version of the program; changes alter it.

    Attributes:
        states: name -> kind, type and default of a keyed state.
        model: state -> what becomes of a stored value that the new version reads.
        fresh: states that begin empty.
        ttl: states with a time to live.
        source: "gate", or another source that gives the same words.
        readers: the parallelism of the source; None: that of the program.
        slow_s: what the first version takes for a record.
        older: whether it begins from the older of two snapshots.
        first: settings of another job that has gone on from the snapshot before; None: there was none.
    """

    states: dict[str, tuple[str, Any, Any]] = field(
        default_factory=lambda: {
            "count": ("value", int, 0),
            "stats": ("value", Stats | None, None),
            "places": ("list", int, None),
            "seen": ("map", (str, int), None),
            "sides": ("value", set[Place] | None, None),
        }
    )
    model: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    ttl: set[str] = field(default_factory=set)
    key: Any = str
    list_type: Any = int
    list_mode: str = "split"
    keeps_list: bool = True
    uids: dict[str, str] = field(default_factory=lambda: {u: u for u in ("in", "wait", "count", "out")})
    parallelism: int = 2
    config: dict[str, Any] = field(default_factory=dict)
    keyed: bool = True
    waits: bool = True
    upper: bool = False
    second_sink: bool = False
    behind: bool = False
    checkpoints: bool = True
    sink: dict[str, Any] = field(default_factory=dict)
    place: str = "out"
    source: str = "gate"
    readers: int | None = None
    parquet: bool = False
    storage: str = "checkpoints"
    older: bool = False
    first: dict[str, Any] | None = None
    slow_s: float = 0.0
    allow: bool = False

    @property
    def again(self) -> bool:
        """Whether the input is read from the start, because the splits are left behind."""
        return self.allow and self.uids["in"] != "in"

    @property
    def lost(self) -> bool:
        """Whether keyed state and timers are left behind."""
        return self.allow and self.uids["count"] != "count"

    @property
    def unpublished(self) -> bool:
        """Whether prepared output is left behind."""
        return self.allow and self.uids["out"] != "out"


def plain(value: Any) -> Any:
    """A value as JSON lines give it back."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted((plain(each) for each in value), key=repr)
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def counting(version: Version, old: bool) -> Any:
    """The keyed function: shows all of its states, then changes them."""
    kinds = {"value": hg.ValueState, "list": hg.ListState, "map": hg.MapState}
    makers: dict[str, Callable[..., Any]] = {
        "value": hg.value_state,
        "list": hg.list_state,
        "map": hg.map_state,
    }

    def shown(self: Any, name: str) -> Any:
        kind, state = version.states[name][0], getattr(self, name)
        if kind == "value":
            return plain(state.value)
        return plain(list(state.get()) if kind == "list" else dict(state.items()))

    def process(self: Any, record: str, ctx: Any) -> Iterator[Any]:
        yield {"key": record, "states": {name: shown(self, name) for name in version.states}}
        if old:
            time.sleep(version.slow_s)
            self.count.value += 1
            n = int(self.count.value)
            self.stats.value = Stats(record, n)
            self.places.add(n)
            self.seen.put(f"{record}-{n}", n)
            self.sides.value = {Place(record, "left"), Place(record, "right")}
            ctx.timers.register_event_time(LATER)

    def on_timer(_: Any, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {"timer": ctx.key, "at": timestamp}

    def body(namespace: dict[str, Any]) -> None:
        annotations = {}
        for name, (kind, of, default) in version.states.items():
            annotations[name] = kinds[kind][of]
            ttl = {"ttl": hg.StateTtl("1h")} if name in version.ttl else {}
            namespace[name] = makers[kind](default=default, **ttl) if kind == "value" else makers[kind](**ttl)
        namespace |= {"__annotations__": annotations, "process": process, "on_timer": on_timer}
        namespace["__module__"] = __name__

    base = hg.KeyedProcessFunction[version.key, str, Any]  # type: ignore[name-defined]
    return types.new_class("Counting", (base,), {}, body)()


def waiting(version: Version) -> Any:
    """The function in front, with operator state."""

    def process(self: Any, record: str, _: Any) -> Iterator[str]:
        if version.keeps_list and version.list_type is int:
            self.kept.add(1)
        yield record

    def body(namespace: dict[str, Any]) -> None:
        namespace["process"] = process
        namespace["__module__"] = __name__
        if version.keeps_list:
            namespace["__annotations__"] = {"kept": hg.OperatorListState[version.list_type]}  # type: ignore[name-defined]
            namespace["kept"] = hg.operator_list_state(redistribution=version.list_mode)  # type: ignore[arg-type]

    return types.new_class("Waiting", (hg.ProcessFunction[str, str],), {}, body)()


class Behind(hg.KeyedProcessFunction[str, Any, Any]):
    """A new operator with state, which lets everything through."""

    passed: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.passed.value += 1
        yield record


def _source(env: hg.Environment, version: Version, folder: Path) -> Any:
    uid, words = version.uids["in"], [word for split in WORDS for word in split]
    if version.source == "collection":
        return env.from_collection(words, uid=uid)
    if version.source == "files":
        file = folder / "words.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f'{{"word": "{word}"}}\n' for word in words), encoding="utf-8")
        return env.read_json(str(file), uid=uid).map(lambda record: record["word"])
    read = env.from_source(Gate(str(folder)), uid=uid)
    return read if version.readers is None else read.set_parallelism(version.readers)


def program(version: Version, folder: Path, old: bool = False) -> hg.Environment:
    """The version as a program that writes below a folder."""
    config = {
        "restart-strategy.type": "none",
        "heartbeat.interval": "10ms",
        "pipeline.max-parallelism": 16,
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        **version.config,
        "execution.state-recovery.ignore-unclaimed-state": version.allow,
    }
    given = {key: value for key, value in config.items() if value is not None}
    env = hg.Environment(parallelism=version.parallelism, executor=MiniCluster(), config=given)
    if version.checkpoints:
        env.checkpoints(every="1h", mode=given.get("execution.checkpointing.mode", hg.EXACTLY_ONCE),
                        storage=str(folder / version.storage))  # fmt: skip
    uids = version.uids
    Gate.limits[str(folder)] = STOP if old else len(WORDS[0])
    words = _source(env, version, folder).with_event_time(lambda _: 5)
    if version.waits:
        words = words.process(waiting(version), uid=uids["wait"])
    if version.upper:
        words = words.map(lambda word: word)
    if version.keyed:
        words = words.key_by(lambda word: word).process(counting(version, old), uid=uids["count"])
    if version.behind:
        words = words.key_by(lambda _: "all").process(Behind(), uid="behind")
    if version.second_sink:
        words.write_json(str(folder / "second"), uid="second")
    place, uid = str(folder / version.place), uids["out"]
    if version.parquet:
        words.map(lambda record: {"line": json.dumps(record)}).write_parquet(place, uid=uid, **version.sink)
    else:
        words.write_json(place, uid=uid, **version.sink)
    return env


def picture(version: Version, word: str, n: int) -> dict[str, Any]:
    """What a version shows of a key whose state the first version made of `n` records."""
    values = {
        "count": n,
        "stats": {"word": word, "count": n},
        "places": list(range(1, n + 1)),
        "seen": {f"{word}-{i}": i for i in range(1, n + 1)},
        "sides": [{"word": word, "side": "left"}, {"word": word, "side": "right"}],
    }
    states = {
        name: _empty(version.states[name])
        if name in version.fresh or name not in values or not n
        else version.model.get(name, lambda same: same)(values[name])
        for name in version.states
    }
    return {"key": word, "states": states}


def shown(words: Sequence[str]) -> Counter[str]:
    """What the first version shows of words, from the first one on."""
    base, seen, lines = Version(), Counter[str](), []
    for word in words:
        lines.append(picture(base, word, seen[word]))
        seen[word] += 1
    return bag(lines)


def expected(version: Version, before: Sequence[str], flying: Sequence[str] = ()) -> Counter[str]:
    """What a version must write behind a snapshot, as a bag of lines.

    Args:
        version: that goes on.
        before: what the snapshot knows of.
        flying: the records in flight that it holds.
    """
    counts, whole = Counter(before), Counter(word for split in WORDS for word in split)
    words = [*(whole if version.again else whole - counts).elements()]
    if version.again:
        words += flying
    elif version.lost:
        words = [*(Counter(words) - Counter(flying)).elements()]
    if not version.keyed:
        return bag(words)
    lines = [picture(version, word, 0 if version.lost else counts[word]) for word in words]
    if not version.lost:
        lines += [{"timer": word, "at": LATER} for word in counts]
    return bag(lines)


def _empty(state: tuple[str, Any, Any]) -> Any:
    kind, _, default = state
    return plain(default) if kind == "value" else [] if kind == "list" else {}


def _sorted(value: Any) -> Any:
    """Dicts in order of their keys; numbers that are equal look alike."""
    if isinstance(value, dict):
        return sorted((key, _sorted(each)) for key, each in value.items())
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def bag(lines: Sequence[Any]) -> Counter[str]:
    """Lines that were read back, comparable with :func:`expected`."""
    return Counter(repr(_sorted(line)) for line in lines)
