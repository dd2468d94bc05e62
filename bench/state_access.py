"""What it costs to read and write a key's state through the keyed operator, against doing it by hand.

    python -m bench.state_access heap|rocksdb KEYS... [--batches N] [--rounds N]

One thread counts the same keys in turn: with the operator on the heap or in RocksDB, with the least Python
that does it, and, against the heap, with that in a function called per record as the operator calls a user's:
so what state costs is told from what a call costs. The forms take turns in rotated order, so that a ratio is
of the same seconds.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.jobs.support import result
from bench.state_operator import Subtask
from bench.stats import middle, ratios

BATCH: Final = 1_000
LOADED_AT_ONCE: Final = 10_000
MEMORY_BYTES: Final = 256 << 20
_NUMBER: Final = struct.Struct(">q")

Batches = list[list[int]]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to count.

    Attributes:
        run: counts the records of batches.
        read: the count of a key, for tests.
    """

    run: Callable[[Batches], None]
    read: Callable[[int], int]


def by_dict() -> Form:
    """A plain dict: get and set per record."""
    counts: dict[int, int] = {}

    def run(batches: Batches) -> None:
        get = counts.get
        for keys in batches:
            for key in keys:
                counts[key] = get(key, 0) + 1

    return Form(run, counts.__getitem__)


class _Counting:
    """What a user would write who keeps the dict by hand."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def process(self, record: int, ctx: None) -> None:
        self.counts[record] = self.counts.get(record, 0) + 1


def by_call() -> Form:
    """The same in a method that is called per record, with a context."""
    counting = _Counting()

    def run(batches: Batches) -> None:
        process = counting.process
        for keys in batches:
            for key in keys:
                process(key, None)

    return Form(run, counting.counts.__getitem__)


def by_operator(backends: Any = None) -> Form:
    """The keyed operator and the function of a user."""
    subtask = Subtask(backends)

    def run(batches: Batches) -> None:
        for keys in batches:
            subtask.take(keys)

    return Form(run, subtask.operator._backend.handles["count"].table.get)


def by_rocksdict(folder: str, *, batched: bool) -> Form:
    """The binding alone: fixed-width keys and values, the database's options as Headgate's.

    Args:
        folder: for the database.
        batched: whether a batch's distinct keys are read with one call and written with one, as the
            operator does; else a get and a put per record.
    """
    from rocksdict import WriteBatch

    from headgate.state.rocksdb.database import Database
    from headgate.state.rocksdb.rocksdb_memory import RocksMemory

    database = Database(Path(folder) / "db", ["counts"], RocksMemory(MEMORY_BYTES))
    store = database.stores["counts"]
    raw, handle, options, whole = store._store, store._handle, store._options, store._database
    pack, unpack = _NUMBER.pack, _NUMBER.unpack

    def in_batches(batches: Batches) -> None:
        for keys in batches:
            distinct = list(dict.fromkeys(keys))
            packed = [pack(key) for key in distinct]
            counts = {
                key: 0 if value is None else unpack(value)[0]
                for key, value in zip(distinct, raw.get(packed), strict=True)
            }
            for key in keys:
                counts[key] += 1
            batch = WriteBatch(raw_mode=True)
            for name, count in zip(packed, counts.values(), strict=True):
                batch.put(name, pack(count), handle)
            whole.write(batch, options)

    def one_by_one(batches: Batches) -> None:
        for keys in batches:
            for key in keys:
                packed = pack(key)
                value = raw.get(packed)
                raw.put(packed, pack(1 if value is None else unpack(value)[0] + 1), options)

    return Form(in_batches if batched else one_by_one, lambda key: unpack(raw.get(pack(key)))[0])


def compared(forms: dict[str, Form], keys: int, batches: int, rounds: int) -> dict[str, Any]:
    """Microseconds per record of every form, and the rounds' ratios of the others to the operator.

    Args:
        forms: the operator's is called "operator".
        keys: how many there are; each has state before anything counts.
        batches: in a round, of keys chosen evenly.
        rounds: that count.
    """
    rng = np.random.default_rng(1)
    everything = rng.permutation(keys).tolist()
    chosen = rng.integers(0, keys, (batches, BATCH)).tolist()
    for form in forms.values():
        form.run([everything[at : at + LOADED_AT_ONCE] for at in range(0, keys, LOADED_AT_ONCE)])
    wall: dict[str, list[float]] = {name: [] for name in forms}
    cpu: dict[str, list[float]] = {name: [] for name in forms}
    names = list(forms)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began, cpu_began = time.perf_counter(), time.thread_time()
            forms[name].run(chosen)
            if number:  # the first round fills caches
                wall[name].append((time.perf_counter() - began) / batches / BATCH * 1e6)
                cpu[name].append((time.thread_time() - cpu_began) / batches / BATCH * 1e6)
    others = [name for name in names if name != "operator"]
    return {
        "keys": keys,
        "us": {name: _rounded(middle(wall[name])) for name in names},
        "cpu_us": {name: _rounded(middle(cpu[name])) for name in names},
        "ratios": {name: [round(r, 3) for r in ratios(wall[name], wall["operator"])] for name in others},
        "cpu_ratios": {name: [round(r, 3) for r in ratios(cpu[name], cpu["operator"])] for name in others},
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def heap(keys: int, batches: int, rounds: int) -> dict[str, Any]:
    """The heap backend against a dict, in one frame and in a function."""
    forms = {"dict": by_dict(), "operator": by_operator(), "call": by_call()}
    return compared(forms, keys, batches, rounds)


def rocksdb(keys: int, batches: int, rounds: int) -> dict[str, Any]:
    """RocksDB's backend against the binding."""
    from headgate.state.backends import RocksBackends

    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        forms = {
            "batched": by_rocksdict(f"{folder}/batched", batched=True),
            "operator": by_operator(RocksBackends(MEMORY_BYTES, folder)),
            "single": by_rocksdict(f"{folder}/single", batched=False),
        }
        return compared(forms, keys, batches, rounds)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=("heap", "rocksdb"))
    parser.add_argument("keys", nargs="+", type=int)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    measure = heap if asked.backend == "heap" else rocksdb
    result(rows=[measure(keys, asked.batches, asked.rounds) for keys in asked.keys])


if __name__ == "__main__":
    main()
