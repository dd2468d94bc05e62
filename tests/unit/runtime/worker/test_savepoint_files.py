"""Savepoints between a subtask and a folder: written by every backend, read by every other one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from msgspec.structs import replace
from savepoint_bench import SavepointBench

import headgate as hg
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files
from headgate.common.errors import StorageError, UsageError
from headgate.core.alignment.barriers import SavepointOrder
from headgate.state.snapshots import CheckpointMetadata, FileRange, Inline

KEYS = range(1, 41)
Make = Callable[..., SavepointBench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    """Makes operators that are closed at the end."""
    made: list[SavepointBench] = []

    def make(*args: Any, **options: Any) -> SavepointBench:
        made.append(SavepointBench(tmp_path, *args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def files(folder: Path) -> list[str]:
    """Names relative to the folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# -- what is written


def test_a_canonical_savepoint_is_a_table_for_each_state(bench: Make) -> None:
    """One file for each subtask that holds something; timers are a table too; so are stamps."""
    op = bench()
    op.fill(KEYS)
    folder = op.savepoint()
    names = ("count", "most", "seen", "short", "short%23ttl", "sizes", "timers")
    expected = [f"state/op/{name}/part-0000{part}.parquet" for name in names for part in (0, 1)]
    assert files(folder) == sorted(["_metadata", *expected])
    _, metadata = open_checkpoint(str(folder))
    first = metadata.operators["op"][0].keyed
    assert first is not None
    assert (first.handle, first.native, first.log) == (Inline(b""), None, [])
    assert first.size == sum(table.length for table in first.tables or ())
    assert {unquote(table.file.split("/")[2]) for table in first.tables or ()} == {
        "count", "most", "seen", "short", "short#ttl", "sizes", "timers",
    }  # fmt: skip


def test_a_canonical_savepoint_opens_in_polars(bench: Make) -> None:
    """With nothing of ours; a folder is a table."""
    op = bench()
    op.fill(KEYS)
    folder = op.savepoint()
    counts = pl.read_parquet(folder / "state/op/count/*.parquet")
    assert dict(counts.select("key", "value").iter_rows()) == {key: key for key in KEYS}
    timers = pl.read_parquet(folder / "state/op/timers/*.parquet").filter(pl.col("time_domain") == "event")
    assert set(timers.select("timestamp", "key").iter_rows()) == {(10 * key, key) for key in KEYS}


@pytest.mark.parametrize("kind", ["heap", "incremental", "changelog-heap"])
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_nothing_refers_outside_the_folder(bench: Make, kind: str, form: str) -> None:
    """Although earlier checkpoints have most of it already; and every file is referred to."""
    op = bench(kind)
    op.fill(KEYS)
    op.checkpoint(1)
    op.checkpoint(2, completed=1)
    folder = op.savepoint(form)
    disk, metadata = open_checkpoint(str(folder))
    named = {item.file for item in referenced_ranges(metadata)}
    assert sorted(named | {"_metadata"}) == files(folder)
    verify_files(disk, metadata)


@pytest.mark.parametrize("kind", ["incremental", "changelog-heap", "changelog-incremental"])
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_checkpoint_after_a_savepoint_goes_on_from_the_one_before(
    bench: Make, kind: str, form: str
) -> None:
    """A savepoint is nobody's base and makes no checkpoint whole; what changed before it is not lost."""
    op, control = bench(kind), bench(kind)
    for one in (op, control):
        one.fill(KEYS)
        one.checkpoint(1)
        one.fill(range(41, 44))
    op.savepoint(form, number=2)
    for one in (op, control):
        one.fill(range(44, 46))
    stored = [[_shape(one) for one in each.checkpoint(3, completed=1)] for each in (op, control)]
    assert stored[0] == stored[1]
    assert all(shared for shared, _ in stored[0])


def _shape(keyed: Any) -> tuple[list[str], int]:
    """Which files of the first checkpoint a handle refers to, and how many segments it has."""
    ranges = [handle for handle in keyed.handles() if isinstance(handle, FileRange)]
    return sorted(one.file for one in ranges if "/chk-1/" in one.file), len(keyed.log)


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_a_savepoint_that_is_given_up_leaves_no_files(bench: Make, form: str) -> None:
    """Those of the folder go; those of checkpoints stay."""
    op = bench("incremental")
    op.fill(KEYS)
    op.checkpoint(1)
    before = files(op.root / "checkpoints")
    order = SavepointOrder((op.root / "savepoint-x").as_uri(), form)
    for one in op.finish(op.draw(2, order)):
        handles = [handle for state in one.operators for handle in state.handles()]
        op.writer.discard(2, handles, order)
    assert files(op.root / "savepoint-x") == []
    assert files(op.root / "checkpoints") == before


def test_what_was_written_goes_when_the_rest_cannot_be(bench: Make) -> None:
    """A value that is no table's: the savepoint fails, the operator lives, nothing stays."""
    op = bench(parallelism=1)
    op.fill([1])
    subtask = op.of(1)
    subtask.handles["sizes"].put("x", "no number")
    subtask.store()
    order = SavepointOrder((op.root / "savepoint-x").as_uri())
    with pytest.raises(UsageError, match="sizes"):
        op.finish(op.draw(2, order))
    assert files(op.root / "savepoint-x") == []
    subtask = op.of(1)
    subtask.handles["sizes"].put("x", 2)
    subtask.store()
    op.finish(op.draw(3, order))
    assert "state/op/sizes/part-00000.parquet" in files(op.root / "savepoint-x")


# -- what is read


@pytest.mark.parametrize(
    ("kind", "parallelism", "target"),
    [
        ("heap", 2, "incremental"),
        ("incremental", 3, "heap"),
        ("changelog-heap", 1, "changelog-incremental"),
        pytest.param("rocksdb", 3, "changelog-heap", marks=pytest.mark.ci),
        pytest.param("changelog-incremental", 2, "rocksdb", marks=pytest.mark.ci),
        pytest.param("heap", 1, "heap", marks=pytest.mark.ci),
    ],
)
def test_canonical_state_moves_to_every_backend(
    bench: Make, kind: str, parallelism: int, target: str
) -> None:
    """Also to another parallelism; all of it, and only once. Then the job goes on."""
    op = bench(kind)
    op.fill(KEYS)
    folder = op.savepoint()
    restored = bench(target, parallelism, str(folder))
    assert restored.contents() == op.contents()
    restored.fill([100])
    restored.checkpoint(1)
    assert restored.contents()["count"] == {key: key for key in [*KEYS, 100]}


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("heap", "incremental"),
        ("incremental", "heap"),
        ("changelog-heap", "changelog-incremental"),
        *[
            pytest.param(kind, target, marks=pytest.mark.ci)
            for kind in ("incremental", "changelog-incremental", "rocksdb")
            for target in ("incremental", "changelog-incremental")
        ],
    ],
)
def test_native_state_is_restored(bench: Make, kind: str, target: str) -> None:
    """By the same backend and by others, as from a checkpoint."""
    op = bench(kind)
    op.fill(KEYS)
    folder = op.savepoint("native")
    restored = bench(target, 3, str(folder))
    assert restored.contents() == op.contents()
    # What it goes on with is in its own storage, and whole.
    for keyed in restored.checkpoint(8, completed=7):
        assert all(handle.file.startswith("job/chk-8/") for handle in keyed.handles())


def test_a_savepoint_may_be_moved_and_copied(bench: Make) -> None:
    """Names in it are relative to where it is."""
    op = bench()
    op.fill(KEYS)
    for form in ("canonical", "native"):
        folder = op.savepoint(form, folder=f"savepoint-{form}")
        elsewhere = op.root / "backup" / "wäre schön" / form
        shutil.copytree(folder, elsewhere)
        shutil.rmtree(folder)
        for uri in (str(elsewhere), elsewhere.as_uri(), str(elsewhere / "_metadata")):
            verify_files(*open_checkpoint(uri))
        assert bench("heap", 1, str(elsewhere)).contents() == op.contents()


def test_an_empty_operator_has_an_empty_savepoint(bench: Make) -> None:
    """No file, and nothing to restore."""
    folder = bench().savepoint()
    assert files(folder) == ["_metadata"]
    assert bench("incremental", 3, str(folder)).contents()["count"] == {}


def test_a_damaged_table_is_refused_by_its_name(bench: Make) -> None:
    """By reading it, and by a restore; nothing was decoded."""
    op = bench()
    op.fill(KEYS)
    folder = op.savepoint()
    file = folder / "state/op/seen/part-00001.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StorageError, match=r"seen/part-00001\.parquet is damaged"):
        verify_files(*open_checkpoint(str(folder)))
    with pytest.raises(StorageError, match=r"seen/part-00001\.parquet is damaged"):
        bench("heap", 1, str(folder))
    file.write_bytes(data[:-1])
    with pytest.raises(StorageError, match=r"seen/part-00001\.parquet is truncated"):
        open_checkpoint(str(folder))
    file.unlink()
    with pytest.raises(StorageError, match=r"seen/part-00001\.parquet is missing"):
        open_checkpoint(str(folder))


def test_a_table_of_another_subtask_is_refused_by_its_name(bench: Make) -> None:
    """Sound bytes in the wrong place."""
    op = bench()
    op.fill(KEYS)
    folder = op.savepoint()
    _, metadata = open_checkpoint(str(folder))
    swapped = _with_tables_swapped(metadata)
    (folder / "_metadata").write_bytes(encode_metadata(swapped))
    with pytest.raises(StorageError, match=r"part-00001\.parquet: .*belongs to another subtask"):
        bench("heap", 2, str(folder))


def _with_tables_swapped(metadata: CheckpointMetadata) -> CheckpointMetadata:
    first, second = metadata.operators["op"]
    assert first.keyed is not None
    assert second.keyed is not None
    states = [
        replace(first, keyed=replace(first.keyed, tables=second.keyed.tables)),
        replace(second, keyed=replace(second.keyed, tables=first.keyed.tables)),
    ]
    return replace(metadata, operators={"op": states})


# -- what changed in between


@pytest.mark.parametrize(
    ("kind", "form", "target"),
    [
        ("heap", "canonical", "incremental"),
        ("heap", "native", "changelog-heap"),
        ("incremental", "native", "heap"),
        ("incremental", "native", "incremental"),
        pytest.param("incremental", "canonical", "heap", marks=pytest.mark.ci),
        pytest.param("changelog-incremental", "native", "changelog-incremental", marks=pytest.mark.ci),
    ],
)
def test_unclaimed_state_is_refused_or_skipped_loudly(
    bench: Make, kind: str, form: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    """G: state that is declared no more is never dropped without leave; with leave the log names it."""
    op = bench(kind)
    op.fill(KEYS)
    folder = op.savepoint(form)
    with pytest.raises(UsageError, match=r"holds state '(most|short)', which the program does not declare"):
        bench(target, 2, str(folder), WithoutTwo)
    with caplog.at_level(logging.WARNING):
        restored = bench(target, 3, str(folder), WithoutTwo, ignore=True)
    assert [line for line in caplog.messages if "'most', 'short'" in line] != []
    expected = op.contents()
    found = restored.contents()
    assert found["fresh"] == {}
    assert all(found[name] == expected[name] for name in ("count", "seen", "sizes", "event", "processing"))
    assert "most" not in restored.subtasks[0].state_types()


class WithoutTwo:
    """Two of the states are gone, one of them with a time to live, and one is new."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[str] = hg.list_state()
    sizes: hg.MapState[str, int] = hg.map_state()
    fresh: hg.ValueState[int] = hg.value_state(default=5)


class Wider:
    """`count` became a float."""

    count: hg.ValueState[float] = hg.value_state(default=0.0)
    seen: hg.ListState[str] = hg.list_state()
    sizes: hg.MapState[str, int] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)
    short: hg.ValueState[int | None] = hg.value_state(default=None, ttl=hg.StateTtl("1h"))


@pytest.mark.parametrize("target", ["heap", "changelog-incremental"])
def test_types_evolve_through_tables(bench: Make, target: str) -> None:
    """The same rules as from a checkpoint."""
    op = bench("incremental")
    op.fill(KEYS)
    restored = bench(target, 3, str(op.savepoint()), Wider)
    counts = restored.contents()["count"]
    assert counts == {key: float(key) for key in KEYS}
    assert {type(value) for value in counts.values()} == {float}
