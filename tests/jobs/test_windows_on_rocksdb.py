"""Windows of columns with state in RocksDB: whole jobs, and savepoints from and to Python's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment
from running_jobs import Valve, wait_until
from test_kinds_of_windows import ALL, KINDS, NUMBERS, ROWS, SCHEMA, Answer, published

import headgate.functions as F  # noqa: N812  # as PySpark's users write it

HEAP = {"state.backend.type": "hashmap"}
ROCKSDB = {"state.backend.type": "rocksdb", "state.backend.rocksdb.memory.windows": "2kb"}
INCREMENTAL = {**ROCKSDB, "execution.checkpointing.incremental": True}
BACKENDS = {"heap": HEAP, "rocksdb": ROCKSDB, "incremental": INCREMENTAL}


def joined(table: Any) -> Any:
    """Each user's rows in windows of 1 s with the highest price of all users in them."""
    window = F.window("at", "1s")
    counted = table.group_by("user", window).agg(F.count("*").alias("n"), uid="counted")
    highest = table.group_by("user", window).agg(F.max("price").alias("price"), uid="highest")
    both = counted.join(highest, ["window", "user"], uid="w")
    return both.select("user", "window", (F.col("n") * 100 + F.col("price")).alias("n"))


def of_join() -> Answer:
    """User, start, end and 100 times the number of rows plus the highest price."""
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    for row in ALL:
        start = row["at"] // 1_000 * 1_000
        key = row["user"], start, start + 1_000
        n, price = found.get(key, (0, 0))
        found[key] = n + 1, max(price, row["price"])
    return sorted((*key, 100 * n + price) for key, (n, price) in found.items())


EVERY = {**KINDS, "join": (joined, of_join)}


class Job:
    """Windows over the rows, which come through a valve."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        parallelism: int,
        backend: str,
        limit: float = float("inf"),
        halting_at: int | None = None,
        **more: Any,
    ) -> None:
        source: Any = Valve(next(NUMBERS), limit, *ROWS)
        if halting_at is not None:
            source = Halting(next(NUMBERS), halting_at, *ROWS)
        local = {"state.backend.rocksdb.localdir": str(folder / "local"), **more}
        config = {**TINY, "restart-strategy.type": "none", **BACKENDS[backend], **local}
        self.env = environment(parallelism, config)
        self.env.checkpoints(every="100ms", storage=str(folder / "checkpoints"))
        stream = self.env.from_source(source, uid="in").with_event_time("at", out_of_orderness="15s")
        EVERY[kind][0](stream.to_table(SCHEMA)).write_json(str(folder / "out"), uid="out")


def read(handle: Any) -> int:
    """How many records the sources have sent."""
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


def stopped(job: Job, folder: Path, form: str) -> str:
    """Run a job until its valve's records have come, and stop it with a savepoint; return its folder."""
    with job.env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or read(handle) == 180, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return unquote(urlsplit(uri).path)


@pytest.mark.parametrize("backend", ["rocksdb", "incremental"])
@pytest.mark.parametrize("kind", EVERY)
def test_windows_are_those_of_the_batch_answer(tmp_path: Path, kind: str, backend: str) -> None:
    """With next to nothing in memory; the local disk is left as it was."""
    Job(tmp_path, kind, 2, backend).env.execute("windows")
    assert published(tmp_path) == EVERY[kind][1]()
    assert list((tmp_path / "local").glob("*")) == []


@pytest.mark.parametrize(
    ("before", "after", "form"),
    [
        ("rocksdb", "heap", "canonical"),
        ("heap", "rocksdb", "canonical"),
        ("incremental", "heap", "native"),
        ("incremental", "incremental", "native"),
        ("incremental", "rocksdb", "native"),
        ("rocksdb", "incremental", "native"),
        ("heap", "incremental", "native"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "parallelism"),
    [
        pytest.param(kind, 1 + number % 3, marks=[] if kind in ("sessions", "join") else [pytest.mark.ci])
        for number, kind in enumerate(EVERY)
    ],
)
def test_windows_go_on_with_another_backend_and_parallelism(
    tmp_path: Path, kind: str, before: str, after: str, form: str, parallelism: int
) -> None:
    """Open windows are in the savepoint once, whatever its form."""
    start = stopped(Job(tmp_path, kind, 2, before, 90), tmp_path, form)
    Job(tmp_path, kind, parallelism, after).env.execute("windows", restore_from=start)
    assert published(tmp_path) == EVERY[kind][1]()


@pytest.mark.parametrize("backend", ["rocksdb", "incremental"])
@pytest.mark.parametrize("kind", EVERY)
def test_windows_are_whole_after_a_crash(tmp_path: Path, kind: str, backend: str) -> None:
    """The job goes on from a checkpoint, which may refer to files of an earlier one."""
    job = Job(tmp_path, kind, 2, backend, halting_at=90, **RESTART_AT_ONCE)
    job.env.execute("windows")
    assert published(tmp_path) == EVERY[kind][1]()
