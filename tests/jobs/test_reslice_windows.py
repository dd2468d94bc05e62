"""Windows of columns with another number of key groups: they stay exact, or are refused."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.migrating import reslice
from headgate.state.snapshots import Inline, OperatorStateHandle

NUMBERS = count(9600)
KEYS, RECORDS = 400, 1_000
SCHEMA = pa.schema({"at": pa.int64(), "k": pa.int64()})
ROWS = [{"at": n, "k": n % KEYS} for n in range(RECORDS)]


def job(folder: Path, parallelism: int, groups: int, limit: float) -> hg.Environment:
    """Counts by key in one window of all."""
    config = {**TINY, "restart-strategy.type": "none", "pipeline.max-parallelism": groups}
    env = environment(parallelism, config)
    env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
    table = env.from_source(Valve(next(NUMBERS), limit, ROWS), uid="in").to_table(SCHEMA)
    windows = table.with_watermark("at", "10s").group_by("k", F.window("at", "10s"))
    windows.agg(F.count("*").alias("n"), uid="w").write_json(str(folder / "out"), uid="out")
    return env


def stopped(folder: Path) -> Path:
    """A native savepoint in the middle of the input, of two subtasks."""
    with job(folder, 2, 128, RECORDS // 2).execute_async("windows") as handle:
        wait_until(lambda: handle.done or _read(handle) >= RECORDS // 2, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format="native")
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


def change(savepoint: Path, **changes: Any) -> None:
    """Write the metadata anew, with changes to what the last subtask of the windows stored."""
    _, metadata = open_checkpoint(str(savepoint))
    *first, last = metadata.operators["w"]
    operators = {**metadata.operators, "w": [*first, msgspec.structs.replace(last, **changes)]}
    changed = msgspec.structs.replace(metadata, operators=operators)
    (savepoint / "_metadata").write_bytes(encode_metadata(changed))


def test_windows_go_on_with_other_key_groups(tmp_path: Path) -> None:
    """Every record is counted once."""
    reslice(str(stopped(tmp_path)), str(tmp_path / "new"), 8)
    job(tmp_path, 3, 8, float("inf")).execute("windows", restore_from=str(tmp_path / "new"))
    expected = [RECORDS // KEYS + (key < RECORDS % KEYS) for key in range(KEYS)]
    assert [row["n"] for row in sorted(json_lines(tmp_path / "out"), key=lambda row: row["k"])] == expected


def test_windows_that_are_not_equally_far_are_refused(tmp_path: Path) -> None:
    """Which groups had sent out what is known by the groups, which become others."""
    savepoint = stopped(tmp_path)
    change(savepoint, watermark=77)
    with pytest.raises(hg.UsageError, match=r"windows of 'w' are not equally far in event time"):
        reslice(str(savepoint), str(tmp_path / "new"), 8)
    assert not (tmp_path / "new").exists()
    reslice(str(savepoint), str(tmp_path / "same"), 128)


def test_groups_that_are_ahead_are_refused(tmp_path: Path) -> None:
    """They are known by their numbers."""
    savepoint = stopped(tmp_path)
    _, metadata = open_checkpoint(str(savepoint))
    held = OperatorStateHandle("ahead", "union", metadata.state_types["w"]["ahead"], Inline(b""), 1)
    change(savepoint, operator_state=[held])
    with pytest.raises(hg.UsageError, match="take a savepoint, and rewrite that"):
        reslice(str(savepoint), str(tmp_path / "new"), 8)
