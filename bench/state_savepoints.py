"""Savepoints of an operator with many keys: written, read through, and restored, as workers do it.

    python -m bench.state_savepoints KEYS [canonical|native]

A small count per key in two subtasks, on the heap. Each subtask's seconds are told for itself, as each has a
worker of its own. The savepoint lies on the local disk, flushed to the device.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.jobs.support import result
from bench.state_checkpoints import scattered
from bench.state_operator import GROUPS, Subtask, Taken
from headgate.checkpoint.data_files import verify_handle
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.keys.keygroups import key_group_range, key_groups_of_keys
from headgate.core.alignment.barriers import SavepointOrder
from headgate.restore.assignment import share_operator
from headgate.state.backends import HeapBackends, RocksBackends, StateBackends

PARALLELISM: Final = 2


def loaded(keys: int, number: int) -> Subtask:
    """A subtask with its part of the keys."""
    subtask = Subtask(HeapBackends(), None, (), number, PARALLELISM)
    first, last = key_group_range(GROUPS, PARALLELISM, number)
    for batch in scattered(keys):
        groups = key_groups_of_keys(batch, GROUPS).tolist()
        subtask.take([key for key, group in zip(batch, groups, strict=True) if first <= group <= last])
    return subtask


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long it took, and what came of it."""
    began = time.perf_counter()
    done = work()
    return round(time.perf_counter() - began, 3), done


def measure(keys: int, form: str, folder: Path) -> dict[str, Any]:
    """Everything, in order."""
    root, write_s, taken = folder / "savepoint", list[float](), list[Taken]()
    for number in range(PARALLELISM):
        subtask = loaded(keys, number)
        taken.append(subtask.checkpoint(1, order=SavepointOrder(root.as_uri(), form)))
        write_s.append(round(taken[-1].pause_s + taken[-1].write_s, 3))
        subtask.close()
    disk = LocalDisk(root)
    verify_s = [
        seconds(lambda state=one.state: [verify_handle(disk, each) for each in state.handles()])[0]
        for one in taken
    ]
    return {
        "keys": keys,
        "format": form,
        "bytes": sum(one.acknowledgement.bytes_written for one in taken),
        "write_s": write_s,
        "verify_s": verify_s,
        "restore_s": {
            "heap": restores(HeapBackends, root, taken),
            "rocksdb": restores(lambda: RocksBackends(256 << 20, str(folder / "local"), True), root, taken),
        },
    }


def restores(backends: Callable[[], StateBackends], root: Path, taken: list[Taken]) -> list[float]:
    """Of each subtask."""
    shares = share_operator([one.state for one in taken], PARALLELISM, GROUPS)
    found = []
    for number, share in enumerate(shares):
        subtask = Subtask(backends(), root, share, number, PARALLELISM)
        found.append(round(subtask.opened_s, 3))
        subtask.close()
    return found


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("format", choices=("canonical", "native"), nargs="?", default="canonical")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        result(**measure(asked.keys, asked.format, Path(folder)))


if __name__ == "__main__":
    main()
