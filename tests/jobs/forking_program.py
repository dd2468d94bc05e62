"""A job whose user code makes children of each kind, at each place; prints what became of it as JSON.

Called with a folder and the name of a case.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.testing import MiniCluster, TestSource
from headgate.testing.sources import TestEnumerator

RECORDS, AT = 60, 30


def _waited(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    print(f"child: {os.waitstatus_to_exitcode(status)}", file=sys.stderr)


def leaves() -> None:
    """Ends as programs end."""
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    _waited(pid)


def raises() -> None:
    """Ends by an exception."""
    pid = os.fork()
    if pid == 0:
        raise ValueError("of the child")
    _waited(pid)


def returns() -> None:
    """Forgets to end: comes back out of the function."""
    pid = os.fork()
    if pid != 0:
        _waited(pid)


def stays() -> None:
    """Lives on when the job is over, and collects its garbage meanwhile."""
    if os.fork() == 0:
        import gc

        gc.collect()
        time.sleep(4)
        sys.exit(0)


def by_multiprocessing() -> None:
    """A process of `multiprocessing` by fork, which ends by sys.exit."""
    child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(0,))
    child.start()
    child.join()
    print(f"child: {child.exitcode}", file=sys.stderr)


def by_pool() -> None:
    """A pool by fork."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]
    print("child: 0", file=sys.stderr)


def by_subprocess() -> None:
    """Another program that closes all descriptors that it was given."""
    program = "import os; os.closerange(3, 4096)"
    done = subprocess.run([sys.executable, "-c", program], check=True, close_fds=False)
    print(f"child: {done.returncode}", file=sys.stderr)


def by_spawn() -> None:
    """A process of `multiprocessing` by spawn."""
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(0,))
    child.start()
    child.join()
    print(f"child: {child.exitcode}", file=sys.stderr)


KINDS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (leaves, raises, returns, stays, by_multiprocessing, by_pool, by_subprocess, by_spawn)
}


class InOpen(hg.ProcessFunction[int, int]):
    """Makes the child before the first record."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, context: hg.RuntimeContext) -> None:
        KINDS[self.kind]()

    def process(self, record: int, ctx: Any) -> Iterable[int]:
        yield record


class InProcess(hg.ProcessFunction[int, int]):
    """Makes it in the middle of the records."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, record: int, ctx: Any) -> Iterable[int]:
        if record == AT:
            KINDS[self.kind]()
        time.sleep(0.005)
        yield record


class Counted(hg.KeyedProcessFunction[int, int, int]):
    """Makes it with keyed state at hand."""

    seen: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterable[int]:
        self.seen.value += 1
        if record == AT:
            KINDS[self.kind]()
        time.sleep(0.005)
        yield record


class InEnumerator(TestEnumerator):
    """Makes the child in the driver, where splits are handed out."""

    kind = "leaves"

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        KINDS[self.kind]()
        return super().next_splits(subtask)


class Numbers(TestSource):
    """The records, from such an enumerator."""

    kind = "leaves"

    def create_enumerator(self, restored: Any) -> InEnumerator:
        made = InEnumerator(range(len(self.splits)) if restored is None else restored)
        made.kind = self.kind
        return made


def paced(number: int) -> int:
    """Slow enough for checkpoints to come between."""
    time.sleep(0.005)
    return number


def program(folder: Path, place: str, kind: str, backend: str) -> hg.Environment:
    """The job."""
    env = hg.Environment(
        parallelism=2,
        executor=MiniCluster(),
        config={
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.interval": "50ms",
            "state.backend.type": backend,
            "state.backend.rocksdb.localdir": str(folder / "local"),
        },
    )
    if place == "enumerator":
        source = Numbers(range(0, RECORDS, 2), range(1, RECORDS, 2))
        source.kind = kind
        numbers = env.from_source(source, uid="numbers")
    else:
        numbers = env.from_collection(list(range(RECORDS)), uid="numbers")
    if place == "map":

        def same(number: int) -> int:
            if number == AT:
                KINDS[kind]()
            time.sleep(0.005)
            return number

        result = numbers.map(same)
    elif place in ("driver", "enumerator"):
        result = numbers.map(paced)
    elif place == "open":
        result = numbers.process(InOpen(kind), uid="children")
    elif place == "blocking":
        result = numbers.process(hg.blocking(InProcess(kind)), uid="children")
    else:
        result = numbers.key_by(lambda n: n % 7).process(Counted(kind), uid="children")
    result.write_json(folder / "out", uid="out")
    return env


def published(folder: Path) -> list[Any]:
    """What the sink has published."""
    files = sorted((folder / "out").glob("part-*"))
    return sorted(json.loads(line) for file in files for line in file.read_text().splitlines())


def main() -> None:
    """Run it."""
    folder, place, kind, backend = Path(sys.argv[1]), *sys.argv[2:5]
    env = program(folder, place, kind, backend)
    if place == "driver":
        with env.execute_async("forking") as job:
            while not any((folder / "checkpoints").glob("**/_metadata")):
                time.sleep(0.01)
            KINDS[kind]()
            result = job.result()
    else:
        result = env.execute("forking")
    told = {"restarts": result.restarts, "exactly": published(folder) == list(range(RECORDS))}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
