"""What checks of simulated jobs read of a checkpoint is what its job would be restored with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from changelog_bench import ChangelogBench, States, put
from latest_checkpoint import load_latest

from headgate.common.errors import StorageError
from headgate.state.snapshots import CheckpointMetadata
from sim.checkers import keyed_values

KEYS = range(12)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ChangelogBench]:
    """A job with two subtasks, which nothing has started yet."""
    made = ChangelogBench(tmp_path)
    yield made
    made.close()


def changed_between(bench: ChangelogBench) -> CheckpointMetadata:
    """Two checkpoints: one with all keys, and one after some have changed, gone and come."""
    put(bench, {key: key + 1 for key in KEYS})
    bench.checkpoint(1)
    put(bench, {0: 100, 1: 0, "new": 7})
    bench.checkpoint(2)
    metadata = load_latest(bench.service)
    assert metadata is not None
    return metadata


@pytest.mark.parametrize(
    ("inner", "changelog"),
    [("heap", False), ("rocksdb", False), ("incremental", False), ("heap", True), ("incremental", True)],
)
def test_what_is_in_native_files_and_logs_is_read_too(
    bench: ChangelogBench, inner: str, changelog: bool
) -> None:
    """Of both subtasks; a removed key is not there, and a changed one has its last value."""
    bench.start(2, inner, changelog)
    cut = changed_between(bench)
    keyed = [state.keyed for state in cut.operators["op"] if state.keyed is not None]
    assert {each.native is not None for each in keyed} == {inner == "incremental"}
    assert {bool(each.log) for each in keyed} == {changelog}
    expected = {key: key + 1 for key in KEYS if key != 1} | {0: 100, "new": 7}
    assert keyed_values(bench.disk, cut, "op", States(), "count") == Counter(expected)
    assert keyed_values(bench.disk, cut, "other", States(), "count") == Counter()


def test_a_log_of_which_a_part_is_missing_is_no_cut(bench: ChangelogBench) -> None:
    """What cannot be restored is not read in part."""
    bench.start(1)
    put(bench, {key: key + 1 for key in KEYS})
    bench.checkpoint(1)
    put(bench, {f"long key number {number}" * 10: number + 1 for number in range(20)})
    (segment,) = bench.checkpoint(2).log
    cut = load_latest(bench.service)
    assert cut is not None
    bench.disk.delete(segment.file)  # type: ignore[union-attr]
    with pytest.raises(StorageError, match="missing"):
        keyed_values(bench.disk, cut, "op", States(), "count")
