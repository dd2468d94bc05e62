"""Checkpoints and restores of one subtask with many keys, as a worker takes and makes them.

    python -m bench.state_checkpoints heap|rocksdb KEYS [--limit-mb N] [--updates N] [--no-restore] ...

A small count per key; checkpoints go to a folder on the local disk, flushed to the device. RocksDB's are
incremental: the second one is drawn after 1 % of the keys changed. With a limit the kernel refuses this
process more private memory than that.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.jobs.support import result, tell
from bench.state_operator import Subtask, Taken
from headgate.state.backends import HeapBackends, RocksBackends, StateBackends

LOADED_AT_ONCE: Final = 2_000
UPDATED_AT_ONCE: Final = 1_000
CHANGED_SHARE: Final = 0.01
SAY_EVERY: Final = 2_000_000
PARALLELISMS: Final = (1, 2)
RESTORES: Final = 5
_MULTIPLIER: Final = 1_000_003
_BACKGROUND: Final = ("num-running-compactions", "num-running-flushes", "compaction-pending")


def scattered(keys: int) -> Iterator[list[int]]:
    """All keys from 0 up, each once, in batches and in an order that has nothing of their numbers.

    Example:
        >>> sorted(key for batch in scattered(25_000) for key in batch) == list(range(25_000))
        True
    """
    if keys % _MULTIPLIER == 0:
        raise ValueError(f"{keys} keys cannot be scattered by steps of {_MULTIPLIER}; choose another number")
    for at in range(0, keys, LOADED_AT_ONCE):
        places = np.arange(at, min(at + LOADED_AT_ONCE, keys), dtype=np.int64)
        yield (places * _MULTIPLIER % keys).tolist()


class Timed:
    """Parts of the run, each with its seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, name: str, part: Callable[[], Any]) -> Any:
        """Do a part and say so."""
        tell(say=name)
        began = time.perf_counter()
        done = part()
        self.seconds[name] = round(time.perf_counter() - began, 3)
        return done


def load(subtask: Subtask, keys: int) -> None:
    """Give every key its first value."""
    done = said = 0
    for batch in scattered(keys):
        subtask.take(batch)
        done += len(batch)
        if done - said >= SAY_EVERY:
            said = done
            tell(say=f"{done:,} of {keys:,} keys are there, {resident_mb():,.0f} MB resident")


def update(subtask: Subtask, keys: int, updates: int, seed: int) -> None:
    """Count keys that are chosen evenly."""
    rng = np.random.default_rng(seed)
    for at in range(0, updates, UPDATED_AT_ONCE):
        subtask.take(rng.integers(0, keys, min(UPDATED_AT_ONCE, updates - at)).tolist())


def wait_for_background(subtask: Subtask) -> None:
    """Until RocksDB has nothing to do by itself."""
    store = subtask.operator._backend._database.stores["count"]._store  # type: ignore[attr-defined]
    quiet = 0
    while quiet < 3:
        quiet = 0 if any(store.property_int_value(f"rocksdb.{name}") for name in _BACKGROUND) else quiet + 1
        time.sleep(0.1)


def restored(
    backends: Callable[[], StateBackends], storage: Path, taken: Taken, parallelism: int
) -> list[float]:
    """Seconds that each of so many subtasks takes to open with its part of a checkpoint."""
    seconds = []
    for number in range(parallelism):
        subtask = Subtask(backends(), storage, [taken.state], number, parallelism)
        seconds.append(round(subtask.opened_s, 4))
        subtask.close()
    return seconds


def restores(
    backends: Callable[[], StateBackends], storage: Path, taken: Taken
) -> dict[str, list[list[float]]]:
    """The same range, and its halves, in turn: for each parallelism the rounds, for each its subtasks."""
    rounds = [{n: restored(backends, storage, taken, n) for n in PARALLELISMS} for _ in range(RESTORES)]
    return {str(n): [seconds[n] for seconds in rounds] for n in PARALLELISMS}


def resident_mb(which: str = "VmRSS") -> float:
    """Resident memory of this process: now, or with "VmHWM" at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{which}:"))


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything, in order."""
    native, storage, timed = asked.backend == "rocksdb", folder / "storage", Timed()

    def backends() -> StateBackends:
        if not native:
            return HeapBackends()
        return RocksBackends(asked.memory_mb << 20, str(folder / "local"), incremental=True)

    subtask = Subtask(backends(), storage)
    timed.run("load", lambda: load(subtask, asked.keys))
    if asked.updates:
        timed.run("update", lambda: update(subtask, asked.keys, asked.updates, seed=1))
    facts: dict[str, Any] = {"backend": asked.backend, "keys": asked.keys, "updates": asked.updates}
    if native:
        wait_for_background(subtask)
    full = timed.run("full checkpoint", lambda: subtask.checkpoint(1))
    facts["full"] = full.facts() | {"size": full.state.keyed.size}
    if native:
        changed = int(asked.keys * CHANGED_SHARE)
        timed.run("change 1 %", lambda: update(subtask, asked.keys, changed, seed=2))
        facts["next"] = timed.run("next checkpoint", lambda: subtask.checkpoint(2, completed=1)).facts()
    subtask.close()
    facts["peak_mb"] = round(resident_mb("VmHWM"))
    if asked.restore:
        facts["restore_s"] = timed.run("restore", lambda: restores(backends, storage, full))
    return facts | {"seconds": timed.seconds}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", choices=("heap", "rocksdb"))
    parser.add_argument("keys", type=int)
    parser.add_argument("--memory-mb", type=int, default=256, help="for RocksDB")
    parser.add_argument("--limit-mb", type=int, default=0, help="private memory of this process; 0: any")
    parser.add_argument("--updates", type=int, default=0, help="random ones before the checkpoints")
    parser.add_argument("--no-restore", dest="restore", action="store_false")
    asked = parser.parse_args()
    if asked.limit_mb:
        resource.setrlimit(resource.RLIMIT_DATA, (asked.limit_mb << 20, asked.limit_mb << 20))
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        result(**measure(asked, Path(folder)))


if __name__ == "__main__":
    main()
