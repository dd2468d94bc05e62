"""A job stopped at 128 key groups goes on with another number of them, and of subtasks, and stays exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from mini_jobs import Halting, environment, json_lines

import headgate as hg
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import StorageError, UsageError
from headgate.offline.migrating import reslice
from headgate.offline.snapshot_pages import describe_snapshot
from headgate.state.snapshots import InFlightPart, InFlightStream, Inline
from headgate.state.stored import regroup

RECORDS = [{"w": f"w{n % 37}", "t": n} for n in range(600)]
STOP = 300
"""How many records of each split the job has counted when it stops."""

LATER = 1_000_000


@dataclass
class Stats:
    word: str
    count: int


class Everything(hg.KeyedProcessFunction[str, Any, Any]):
    """Counts in every kind of state, and at the end of event time tells the sum."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    seen: hg.ListState[int] = hg.list_state()
    by_rest: hg.MapState[tuple[int, str], int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda left, right: left + right)

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.value.value += 1
        n = self.value.value
        self.seen.add(n)
        self.stats.value = Stats(record["w"], n)
        rest = (record["t"] % 3, record["w"])
        self.by_rest.put(rest, (self.by_rest.get(rest) or 0) + 1)
        self.total.add(1)
        same = len(self.seen.get()) == self.total.get() == sum(v for _, v in self.by_rest.items()) == n
        ctx.timers.register_event_time(LATER)
        yield {"w": ctx.key, "n": n, "same": same and self.stats.value.count == n}

    def on_timer(self, timestamp: int, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield {"w": ctx.key, "sum": self.total.get()}


def job(
    folder: Path, parallelism: int, groups: int, backend: str, stop: int = len(RECORDS)
) -> hg.Environment:
    """Records of two splits."""
    config = {
        "restart-strategy.type": "none",
        "pipeline.max-parallelism": groups,
        "state.backend.type": "rocksdb" if backend == "rocksdb" else "hashmap",
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        "execution.checkpointing.incremental": backend == "rocksdb",
        "state.changelog.enabled": backend == "changelog",
    }
    env = environment(parallelism, config)
    env.checkpoints(every="5ms", storage=str(folder / "checkpoints"))
    records = env.from_source(Halting(id(env), stop, RECORDS, RECORDS), uid="records").with_event_time("t")
    counted = records.key_by("w").process(Everything(), uid="all")
    counted.write_json(str(folder / "out"), uid="out")
    return env


def stopped(folder: Path, backend: str) -> str:
    """The last checkpoint of a job with 128 key groups."""
    with pytest.raises(hg.HeadgateError, match="crash in split"):
        job(folder, 2, 128, backend, STOP).execute("everything")
    found = (folder / "checkpoints").rglob("_metadata")
    return str(max(found, key=lambda file: file.stat().st_mtime).parent)


def demand_exact(folder: Path) -> None:
    """Every record was counted once, and every key's timer fired once."""
    lines = json_lines(folder / "out")
    totals: dict[str, int] = {}
    for record in RECORDS + RECORDS:
        totals[record["w"]] = totals.get(record["w"], 0) + 1
    counts = [line for line in lines if "n" in line]
    assert all(line["same"] for line in counts)
    expected = sorted((word, n) for word, total in totals.items() for n in range(1, total + 1))
    assert sorted((line["w"], line["n"]) for line in counts) == expected
    assert sorted((line["w"], line["sum"]) for line in lines if "sum" in line) == sorted(totals.items())


@pytest.mark.parametrize(
    ("backend", "groups", "parallelism", "form"),
    [
        ("hashmap", 32, 3, None),
        ("hashmap", 4096, 1, "canonical"),
        ("rocksdb", 256, 3, None),
        ("changelog", 32, 1, None),
        pytest.param("changelog", 4096, 3, "canonical", marks=pytest.mark.ci),
        pytest.param("rocksdb", 32, 2, "canonical", marks=pytest.mark.ci),
    ],
)
def test_a_job_goes_on_with_other_key_groups(
    backend: str,
    groups: int,
    parallelism: int,
    form: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever backend wrote the snapshot and in whatever form it is written anew; a bucket holds little."""
    monkeypatch.setattr(regroup, "BUCKET_BYTES", 1_000)
    snapshot, target = stopped(tmp_path, backend), str(tmp_path / "resliced")
    made = reslice(snapshot, target, groups, form)
    assert made.entries > 0
    _, metadata = open_checkpoint(target)
    assert (metadata.max_parallelism, metadata.kind, metadata.format) == (
        groups,
        "savepoint",
        form or "native",
    )
    assert metadata.origin is not None
    assert Path(snapshot).name in metadata.origin
    job(tmp_path, parallelism, groups, backend).execute("everything", restore_from=target)
    demand_exact(tmp_path)


def test_reslicing_twice_gives_what_was_there(tmp_path: Path) -> None:
    """From 128 to 32 as tables and back as blobs: the same entries; and the tables open without Headgate."""
    snapshot = stopped(tmp_path, "hashmap")
    tables, back = str(tmp_path / "tables"), str(tmp_path / "back")
    there = reslice(snapshot, tables, 32, "canonical")
    again = reslice(tables, back, 128, "native")
    assert there.entries == again.entries
    assert _entries(back) == _entries(snapshot)
    counts = pl.read_parquet(f"{tables}/state/all/value/*.parquet")
    assert len(counts) == _entries(snapshot)["value"]
    assert counts["key_group"].max() < 32


def _entries(snapshot: str) -> dict[str, int]:
    (operator,) = [one for one in describe_snapshot(snapshot)["operators"] if one["uid"] == "all"]
    return {state["name"]: state["entries"] for state in operator["states"]}


def test_keyed_records_in_flight_are_refused(tmp_path: Path) -> None:
    """Their new key groups would follow from keys that only the running program knows."""
    snapshot = stopped(tmp_path, "hashmap")
    _, metadata = open_checkpoint(snapshot)
    part = InFlightPart(Inline(b""), 0, 7)
    stream = InFlightStream("all", "records", None, 0, 0, keyed=True, parts=[part])
    changed = msgspec.structs.replace(metadata, in_flight=[stream])
    (Path(snapshot) / "_metadata").write_bytes(encode_metadata(changed))
    with pytest.raises(UsageError, match=r"7 records were in flight to 'all'.*take a savepoint"):
        reslice(snapshot, str(tmp_path / "new"), 32)
    assert reslice(snapshot, str(tmp_path / "same"), 128).max_parallelism == 128


def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """Fewer key groups than subtasks, a folder that is not empty, a damaged file: each in one sentence."""
    snapshot = stopped(tmp_path, "hashmap")
    with pytest.raises(UsageError, match="max parallelism 1 is not possible; expected 2"):
        reslice(snapshot, str(tmp_path / "few"), 1)
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        reslice(snapshot, str(full), 32)
    good = tmp_path / "good"
    reslice(snapshot, str(good), 32)
    data = next((good / "data").iterdir())
    data.write_bytes(data.read_bytes()[:-1] + b"\0")
    with pytest.raises(StorageError, match="damaged"):
        reslice(str(good), str(tmp_path / "of-damaged"), 64)
    assert not [path for path in (tmp_path / "of-damaged").rglob("*") if path.is_file()]
