"""Incremental snapshots of RocksDB: what is shared, what is restored, and who may refer to what."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from native_bench import GROUPS, STATES, Backend, NativeBench, keyed, put, read, tables

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.state.rocksdb import native_files
from headgate.state.snapshots import FileRange, Inline
from headgate.state.stored.native_restore import Progress
from headgate.testing.suites.value_checks import snapshot_blob


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


def numbered(first: int, last: int, mark: str = "") -> dict[Any, str]:
    """A value per number."""
    return {n: f"{mark}{n}" for n in range(first, last)}


def state(kind: str, *types: Any, name: str = "v") -> dict[str, StateDescriptor]:
    """One declared state."""
    return {name: StateDescriptor(name, kind, types, lambda: None)}


def test_a21_g10_only_new_tables_are_stored(bench: NativeBench) -> None:
    """The second checkpoint refers to the first one's table; the counters tell bytes and files apart."""
    made = bench.backend()
    put(made, numbered(0, 3000))
    one = bench.snapshot(made, 1)
    put(made, numbered(0, 10, "new"))
    two = bench.snapshot(made, 2, completed=1)
    assert tables(one).items() < tables(two).items()
    assert (one.files_shared, one.bytes_shared) == (0, 0)
    (shared,) = tables(one).values()
    assert (two.files_shared, two.bytes_shared) == (1, shared.length)
    assert two.files_written == 1
    assert two.bytes_written < one.bytes_written / 10
    assert keyed(two).size > keyed(one).size
    assert read(bench.backend(stored=[keyed(one)]), range(10)) == numbered(0, 10)
    assert read(bench.backend(stored=[keyed(two)]), range(20)) == numbered(0, 10, "new") | numbered(10, 20)


def test_nothing_new_costs_no_file(bench: NativeBench) -> None:
    """A checkpoint without changes is some hundred bytes in the acknowledgement."""
    made = bench.backend()
    put(made, numbered(0, 100))
    one, two = bench.snapshot(made, 1), bench.snapshot(made, 2, completed=1)
    assert tables(one) == tables(two)
    assert (two.files_written, two.bytes_written) == (0, 0)
    assert isinstance(keyed(two).handle, Inline)


def test_without_a_completed_checkpoint_everything_is_stored(bench: NativeBench) -> None:
    """A savepoint, or a first checkpoint, is whole by itself."""
    made = bench.backend()
    put(made, numbered(0, 100))
    files = [tables(bench.snapshot(made, n)) for n in (1, 2)]
    assert files[0].keys() == files[1].keys()
    assert all("chk-2" in handle.file for handle in files[1].values())


def test_an_aborted_checkpoint_is_no_base(bench: NativeBench) -> None:
    """Only what is complete is referred to, however many were drawn meanwhile."""
    made = bench.backend()
    put(made, numbered(0, 100))
    bench.snapshot(made, 1)
    put(made, numbered(100, 200))
    bench.snapshot(made, 2, completed=1)  # never completes
    three = bench.snapshot(made, 3, completed=1)
    folders = {handle.file.split("/")[1] for handle in tables(three).values()}
    assert folders == {"chk-1", "chk-3"}
    assert not {h.file for h in keyed(three).handles() if isinstance(h, FileRange) and "chk-2" in h.file}


def test_two_at_a_time_never_refer_to_what_the_other_s_completion_deletes(bench: NativeBench) -> None:
    """3 was drawn when only 1 was complete; when 3 completes, 2 goes: 4 must not need what only 2 has."""
    made = bench.backend()
    put(made, numbered(0, 100))
    bench.snapshot(made, 1)
    put(made, numbered(100, 200))
    two = bench.snapshot(made, 2, completed=1)
    three = bench.snapshot(made, 3, completed=1)
    four = bench.snapshot(made, 4, completed=2)
    needed = {handle.file for handle in tables(four).values()}
    kept = {handle.file for handle in tables(three).values()}
    assert tables(two).keys() == tables(four).keys()
    assert not {name for name in needed - kept if "chk-4" not in name}


def test_the_first_checkpoint_after_a_restore_builds_on_the_restored_one(bench: NativeBench) -> None:
    """A restart does not store the state anew."""
    made = bench.backend()
    put(made, numbered(0, 3000))
    one = bench.snapshot(made, 7)
    again = bench.backend(stored=[keyed(one)])
    put(again, numbered(0, 5, "new"))
    two = bench.snapshot(again, 8, completed=7)
    assert tables(one).items() < tables(two).items()
    third = bench.backend(stored=[keyed(two)])
    assert read(third, range(3000)) == numbered(0, 3000) | numbered(0, 5, "new")
    assert tables(bench.snapshot(third, 9, completed=7)).keys() >= tables(two).keys()  # 7 is not its base


@pytest.mark.parametrize("other", ["job", "storage"])
def test_files_of_another_job_or_storage_are_never_referred_to(
    bench: NativeBench, tmp_path: Path, other: str
) -> None:
    """Whoever owns them may delete them, also when the checkpoint's number is the same."""
    made = bench.backend()
    put(made, numbered(0, 100))
    one = bench.snapshot(made, 1)
    again = bench.backend(stored=[keyed(one)])
    if other == "job":
        bench.job = "later"
    else:
        bench.disk = NativeBench(tmp_path / "elsewhere").disk
    two = bench.snapshot(again, 2, completed=1)
    assert two.files_shared == 0
    assert all("chk-2" in handle.file for handle in tables(two).values())


def test_after_a_restore_from_another_job_checkpoints_build_on_each_other(bench: NativeBench) -> None:
    """Its checkpoint has a number of that job: that it is greater says nothing of what came later."""
    made = bench.backend()
    put(made, numbered(0, 1000))
    theirs = bench.snapshot(made, 1_000)
    bench.job = "later"
    again = bench.backend(stored=[keyed(theirs)])
    one = bench.snapshot(again, 1)
    assert one.files_shared == 0
    two = bench.snapshot(again, 2, completed=1)
    assert two.files_shared == 1
    assert tables(two) == tables(one)


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 3), (2, 1), *[pytest.param(*each, marks=pytest.mark.ci) for each in [(2, 3), (3, 2), (4, 4)]]],
)
def test_rescaling_gives_each_key_to_its_subtask(bench: NativeBench, before: int, after: int) -> None:
    """Key groups are told apart exactly, timers go along, and nothing is left on the local disk."""
    old = bench.subtasks(before, [])
    expected = numbered(0, 500)
    for made in old:
        put(made, {k: v for k, v in expected.items() if _is_of(made, k)})
        made.event_timers.register(5, next(k for k in expected if _is_of(made, k)))
    stored = [keyed(bench.draw(made, 1, subtask=i)()) for i, made in enumerate(old)]
    new = bench.subtasks(after, stored)
    for made in new:
        assert dict(made.scan("v")) == {k: v for k, v in expected.items() if _is_of(made, k)}
        assert [path.name for path in made._directory.iterdir()] == ["db"]
    assert sum(len(made.event_timers) for made in new) == before
    again = [keyed(bench.draw(made, 2, 1, subtask=i)()) for i, made in enumerate(new)]
    for made in bench.subtasks(before, again):
        assert dict(made.scan("v")) == {k: v for k, v in expected.items() if _is_of(made, k)}


def _is_of(made: Backend, key: Any) -> bool:
    group: int = key_group(key, GROUPS)
    return made.groups[0] <= group <= made.groups[1]


def test_both_kinds_of_snapshot_are_restored_into_both_backends(bench: NativeBench) -> None:
    """Native into heap, canonical into RocksDB with native on, native into RocksDB with it off."""
    made = bench.backend()
    put(made, numbered(0, 300))
    made.event_timers.register(3, 7)
    native = keyed(bench.snapshot(made, 1))
    heap = bench.heap([native])
    assert read(heap, range(301)) == numbered(0, 300) | {300: ""}
    assert heap.event_timers.snapshot() == [(3, 7)]
    plain = bench.backend(stored=[native], incremental=False)
    canonical = keyed(bench.snapshot(plain, 2))
    assert canonical.native is None
    back = bench.backend(stored=[canonical])
    assert dict(back.scan("v")) == numbered(0, 300)
    assert back.event_timers.snapshot() == [(3, 7)]
    assert snapshot_blob(back.snapshot_sync()) == snapshot_blob(plain.snapshot_sync())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_g10_values_of_an_older_shape_are_rewritten_before_processing(
    bench: NativeBench, parallelism: int
) -> None:
    """In place, and on the way from another subtask's files; afterwards nothing of the old shape is left."""
    old = bench.backend(states=state("value", int))
    for key in range(2500):
        old.bind(key)
        handle: Any = old.handles["v"]
        handle.value = key
        old.store()
    stored = [keyed(bench.snapshot(old, 1))]
    changed = state("value", float)
    seen: dict[Any, Any] = {}
    for index in range(parallelism):
        groups = (GROUPS // parallelism * index, GROUPS // parallelism * (index + 1) - 1)
        made = bench.backend(groups, stored, changed)
        again = bench.backend(groups, [keyed(bench.snapshot(made, 2 + index))], changed)
        seen |= dict(again.scan("v"))
    assert seen == {n: float(n) for n in range(2500)}
    assert {type(value) for value in seen.values()} == {float}
    heap = bench.heap(stored, changed)
    assert type(read(heap, [7])[7]) is float


def test_a_change_that_cannot_be_read_is_refused(bench: NativeBench) -> None:
    """By the state's name, in the words of the other backend."""
    made = bench.backend()
    put(made, numbered(0, 10))
    stored = [keyed(bench.snapshot(made, 1))]
    for program in (state("value", int), state("list", str)):
        with pytest.raises(UsageError, match=r"state 'v' of the checkpoint cannot be read as the program"):
            bench.backend(stored=stored, states=program)
        with pytest.raises(UsageError, match=r"state 'v' of the checkpoint cannot be read as the program"):
            bench.heap(stored, program)
    with pytest.raises(UsageError, match=r"holds state 'v', which the program does not declare"):
        bench.backend(stored=stored, states=state("value", str, name="w"))


def test_states_come_and_empty_ones_go(bench: NativeBench) -> None:
    """A new state begins empty; one that never held anything may change its type, or disappear."""
    made = bench.backend(states=STATES | state("value", int, name="gone") | state("value", int, name="same"))
    put(made, numbered(0, 10))
    stored = [keyed(bench.snapshot(made, 1))]
    program = STATES | state("value", str, name="same") | state("value", str, name="fresh")
    later = bench.backend(stored=stored, states=program)
    put(later, {1: "x"}, "fresh")
    put(later, {1: "y"}, "same")
    last = bench.backend(stored=[keyed(bench.snapshot(later, 2, 1))], states=program)
    assert read(last, [1], "fresh") | read(last, [2]) == {1: "x", 2: "2"}
    assert read(last, [1], "same") == {1: "y"}


@pytest.mark.ci
@settings(
    max_examples=8, derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)
@given(st.data())
def test_any_course_of_checkpoints_restores_what_was_there(data: st.DataObject) -> None:
    """Random changes, checkpoints that complete or not, restores from the last complete one at any scale."""
    with tempfile.TemporaryDirectory() as root:
        bench = NativeBench(Path(root))
        model: dict[Any, str] = {}
        kept: tuple[int, dict[Any, str], list[Any]] = (0, {}, [])
        running = bench.subtasks(2, [])
        for number in range(1, 9):
            changes = data.draw(st.dictionaries(st.integers(0, 30), st.sampled_from("abc"), max_size=8))
            model |= changes
            for made in running:
                put(made, {k: v for k, v in changes.items() if _is_of(made, k)})
            drawn = [bench.draw(m, number, kept[0], subtask=i)() for i, m in enumerate(running)]
            if data.draw(st.booleans()):
                kept = number, dict(model), [keyed(each) for each in drawn]
            if data.draw(st.integers(0, 3)) == 0:
                model = dict(kept[1])
                running = bench.subtasks(data.draw(st.integers(1, 3)), kept[2])
            found = {k: v for made in running for k, v in made.scan("v")}
            assert found == model
        bench.close()


def test_a_long_restore_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Every five seconds, with counts."""
    now = [0.0]
    progress = Progress("v", 5000, lambda: now[0])
    with caplog.at_level("INFO", "headgate.state.stored.native_restore"):
        for _ in range(12):
            now[0] += 1
            progress.advance(100)
    assert [record.message for record in caplog.records] == [
        "restoring 'v': 500 of about 5000 stored entries copied",
        "restoring 'v': 1000 of about 5000 stored entries copied",
    ]


def test_what_is_given_up_takes_no_shared_file_along(bench: NativeBench) -> None:
    """A checkpoint that was aborted after its part was written loses its own files alone."""
    made = bench.backend()
    put(made, numbered(0, 100))
    one = bench.snapshot(made, 1)
    put(made, numbered(100, 200))
    two = bench.snapshot(made, 2, completed=1)
    before = set(bench.disk.list("job"))
    bench.writer().discard(2, keyed(two).handles())
    assert {name.split("/")[1] for name in before} == {"chk-1", "chk-2"}
    assert {name.split("/")[1] for name in bench.disk.list("job")} == {"chk-1"}
    assert dict(bench.backend(stored=[keyed(one)]).scan("v")) == numbered(0, 100)


def test_large_tables_have_files_of_their_own(bench: NativeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones share one with the blob; the next checkpoint refers to either kind."""
    monkeypatch.setattr(native_files, "SMALL_BYTES", 2000)
    made = bench.backend()
    put(made, numbered(0, 1000))
    one = bench.snapshot(made, 1)
    assert [handle.offset for handle in tables(one).values()] == [0]  # the rest is in the acknowledgement
    put(made, numbered(0, 5, "new"))
    two = bench.snapshot(made, 2, completed=1)
    assert (two.files_written, two.files_shared) == (1, 1)
    three = bench.snapshot(made, 3, completed=2)
    assert (three.files_written, three.files_shared) == (0, 2)
    assert dict(bench.backend(stored=[keyed(three)]).scan("v")) == numbered(0, 1000) | numbered(0, 5, "new")


def test_a_table_that_changed_its_size_is_never_referred_to(bench: NativeBench) -> None:
    """The same name must be the same bytes; else the checkpoint would not fit together."""
    made = bench.backend()
    put(made, numbered(0, 100))
    bench.snapshot(made, 1)
    store = bench.draw(made, 2, completed=1)
    (table,) = (made._directory / "snapshots" / "2").glob("*.sst")
    data = table.read_bytes()
    table.unlink()
    table.write_bytes(data + b"x")
    with pytest.raises(StorageError, match=r"of it are stored, and a table never changes"):
        store()


# -- damage, and disks that are full


def _stored(bench: NativeBench) -> Any:
    made = bench.backend()
    put(made, numbered(0, 200))
    made.event_timers.register(1, 1)
    return bench.snapshot(made, 1)


def test_a_flipped_bit_in_any_file_is_refused_by_name(bench: NativeBench) -> None:
    """Whichever byte of whichever file: our checksum tells, before RocksDB reads anything."""
    snapshot = _stored(bench)
    ranges = [handle for handle in keyed(snapshot).handles() if isinstance(handle, FileRange)]
    assert {handle.length > 0 for handle in ranges} == {True}
    assert len(ranges) == 4  # blob, table, manifest, CURRENT
    for handle in ranges:
        path = bench.disk.root / handle.file
        sound = path.read_bytes()
        for place in {0, handle.length // 3, handle.length // 2, handle.length - 1}:
            damaged = bytearray(sound)
            damaged[handle.offset + place] ^= 1 << place % 8
            path.write_bytes(damaged)
            with pytest.raises(StorageError, match=rf"{path.name} is damaged: bytes {handle.offset} to"):
                bench.backend(stored=[keyed(snapshot)])
        path.write_bytes(sound)
    assert read(bench.backend(stored=[keyed(snapshot)]), [5]) == {5: "5"}


def test_a_missing_or_short_file_is_refused(bench: NativeBench) -> None:
    """By name, for either backend."""
    snapshot = _stored(bench)
    (handle,) = tables(snapshot).values()
    path = bench.disk.root / handle.file
    path.write_bytes(path.read_bytes()[: handle.offset + 10])
    with pytest.raises(StorageError, match=rf"{path.name} is truncated"):
        bench.heap([keyed(snapshot)])
    path.unlink()
    with pytest.raises(StorageError, match=rf"{path.name} is missing but a checkpoint refers to it"):
        bench.backend(stored=[keyed(snapshot)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: {"backend": "other"}, "files of backend 'other'"),
        (lambda n: {"files": n.files | {"../evil": n.files["CURRENT"]}}, r"lists '\.\./evil' for RocksDB"),
        (lambda n: {"files": {}}, "lists no CURRENT"),
        (lambda n: {"details": n.details | {"formats": {"v": 9}}}, "is in format 9 of RocksDB's values"),
        (lambda n: {"details": {}}, "description of RocksDB's files does not decode"),
    ],
)
def test_what_is_not_rocksdb_s_or_of_another_format_is_refused(
    bench: NativeBench, change: Any, message: str
) -> None:
    """Before a single file is copied."""
    handle = keyed(_stored(bench))
    assert handle.native is not None
    native = msgspec.structs.replace(handle.native, **change(handle.native))
    with pytest.raises(StorageError, match=message):
        bench.backend(stored=[msgspec.structs.replace(handle, native=native)])


def test_a_storage_that_refuses_leaves_no_file(bench: NativeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that could not be stored is no base, and shared files survive its clean-up."""
    made = bench.backend()
    put(made, numbered(0, 100))
    one = bench.snapshot(made, 1)
    put(made, numbered(100, 200))
    create = bench.disk.create

    def refuse(name: str, parts: Any) -> None:
        create(name, parts)
        raise StorageError(f"cannot write {name}")

    monkeypatch.setattr(bench.disk, "create", refuse)
    with pytest.raises(StorageError, match="cannot write"):
        bench.snapshot(made, 2, completed=1)
    monkeypatch.undo()
    three = bench.snapshot(made, 3, completed=1)
    assert tables(one).items() < tables(three).items()
    assert dict(bench.backend(stored=[keyed(three)]).scan("v")) == numbered(0, 200)
