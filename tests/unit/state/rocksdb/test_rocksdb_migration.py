"""Values of older types in RocksDB: read as they are, and rewritten beside the processing."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from native_bench import GROUPS, Backend, NativeBench, keyed, tables

import headgate as hg
from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.state.rocksdb import migration
from headgate.state.rocksdb.migration import Migration
from headgate.state.rocksdb.native_files import details_of
from headgate.state.rocksdb.value_layout import PLAIN_VALUES
from headgate.state.stored.native_restore import Source
from headgate.testing.suites.value_checks import snapshot_blob

NAME = "shop.Visit"
IN_ORDER: dict[str, Any] = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
}
"""As drawn, without shrinking: an example takes seconds."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


def record(*fields: Any) -> Any:
    """A dataclass of these fields; always the same class for what is stored."""
    made = make_dataclass("Visit", fields)
    made.__module__, made.__qualname__ = "shop", "Visit"
    return made


V1 = record(("page", str))
V2 = record(("page", str), ("count", int, 7))
V3 = record(("page", str), ("count", int, 7), ("country", str, "?"))


def state(type_: Any, kind: str = "value") -> dict[str, StateDescriptor]:
    """One declared state."""
    return {"v": StateDescriptor("v", kind, (type_,), lambda: None)}


def fill(made: Backend, values: dict[Any, Any]) -> None:
    """Set a value per key."""
    handle: Any = made.handles["v"]
    for key, value in values.items():
        made.bind(key)
        handle.value = value
        made.store()


def value(made: Backend, key: Any) -> Any:
    """What a program reads."""
    made.bind(key)
    return made.handles["v"].value  # type: ignore[union-attr]


def numbers(made: Any) -> set[int]:
    """The types that stored values are of."""
    return {data[0] for _, data in made._database.stores["v"].items()}


def settle(made: Backend) -> None:
    """Let the operator's loop turn until everything is rewritten."""
    while made.migration_progress():
        made.settle()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the loop rewrites one value."""
    monkeypatch.setattr(migration, "SLICE_S", 0.0)


def test_g10_nothing_is_rewritten_before_processing(bench: NativeBench) -> None:
    """Right after the restore all values lie as they were, and read as the declared type."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(100)})
    stored = [keyed(bench.snapshot(old, 1))]
    made = bench.backend(stored=stored, states=state(V2))
    assert numbers(made) == {0}
    assert [value(made, n) for n in range(3)] == [V2(str(n), 7) for n in range(3)]
    assert dict(made.scan("v")) == {n: V2(str(n), 7) for n in range(100)}
    (progress,) = made.migration_progress()
    assert (progress.state, progress.done, progress.rewritten) == ("v", 0, 0)
    settle(made)
    assert numbers(made) == {1}
    assert dict(made.scan("v")) == {n: V2(str(n), 7) for n in range(100)}


@pytest.mark.parametrize("kind", ["value", "map"])
def test_a_scan_that_began_before_the_rewriting_ends_behind_it(bench: NativeBench, kind: str) -> None:
    """The removal of entries that are over scans in small steps; what was read ahead is of an older type."""

    def of(type_: Any) -> dict[str, StateDescriptor]:
        types = (type_,) if kind == "value" else (int, type_)
        return {"v": StateDescriptor("v", kind, types, lambda: None)}

    old = bench.backend(states=of(int))
    for n in range(20):
        old.bind(n)
        handle: Any = old.handles["v"]
        if kind == "value":
            handle.value = n
        else:
            handle.put(n, n)
        old.store()
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=of(float))
    scan = made.scan("v")
    first = next(scan)
    settle(made)
    found = dict([first, *scan])
    assert found == ({n: n for n in range(20)} if kind == "value" else {n: {n: n} for n in range(20)})


def test_eager_migration_rewrites_everything_in_the_restore(bench: NativeBench) -> None:
    """As the option says; nothing is left to be done beside the processing."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(100)})
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2), eager_migration=True)
    assert (numbers(made), made.migration_progress()) == ({1}, [])
    assert value(made, 99) == V2("99", 7)


def test_what_is_read_is_written_back_so_that_a_made_default_is_made_once(bench: NativeBench) -> None:
    """A default_factory may give another value each time; the first one that was seen stays."""
    made_ids = itertools.count(1)

    @dataclass
    class Visit:
        page: str
        id: int = field(default_factory=lambda: next(made_ids))

    Visit.__module__, Visit.__qualname__ = "shop", "Visit"
    old = bench.backend(states=state(V1))
    fill(old, {n: V1("x") for n in range(20)})
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(Visit), cache_entries=2)
    made.prefetch([5, 6])
    seen = {n: value(made, n).id for n in (5, 6, 7)}
    for n in range(10, 20):
        value(made, n)  # they push the others out of the cache
    settle(made)
    assert {n: value(made, n).id for n in (5, 6, 7)} == seen


def test_a_restart_in_the_middle_goes_on_where_the_files_are(bench: NativeBench, slow: None) -> None:
    """An incremental checkpoint of a half-rewritten state is restored; the rest is rewritten then."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(60)})
    one = bench.snapshot(old, 1)
    made = bench.backend(stored=[keyed(one)], states=state(V2))
    made.settle()
    made.settle()
    fill(made, {3: V2("new", 1)})
    two = bench.snapshot(made, 2, completed=1)
    assert tables(one).items() < tables(two).items()  # what was not rewritten is not stored anew
    assert numbers(made) == {0, 1}
    expected = {n: V2(str(n), 7) for n in range(60)} | {3: V2("new", 1)}
    again = bench.backend(stored=[keyed(two)], states=state(V2))
    assert dict(again.scan("v")) == expected
    assert len(again.migration_progress()) == 1
    settle(again)
    assert numbers(again) == {1}
    three = bench.snapshot(again, 3, completed=2)
    native = keyed(three).native
    assert native is not None
    assert details_of(native).versions["v"].older == ()
    last = bench.backend(stored=[keyed(three)], states=state(V2))
    assert (dict(last.scan("v")), last.migration_progress()) == (expected, [])


@pytest.mark.parametrize("eager", [False, True])
def test_two_migrations_on_top_of_each_other(bench: NativeBench, slow: None, eager: bool) -> None:
    """Values of the first, the second and the third program side by side, at any parallelism."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(60)})
    second = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2))
    second.settle()
    fill(second, {n: V2("two", n) for n in range(50, 60)})
    two = keyed(bench.snapshot(second, 2, completed=1))
    expected = {n: V3(str(n), 7, "?") for n in range(50)} | {n: V3("two", n, "?") for n in range(50, 60)}
    third = bench.backend(stored=[two], states=state(V3), eager_migration=eager)
    assert numbers(third) == ({2} if eager else {0, 1})
    fill(third, {7: V3("three", 3, "NL")})
    expected[7] = V3("three", 3, "NL")
    third.settle()
    assert dict(third.scan("v")) == expected
    three = keyed(bench.snapshot(third, 3, completed=2))
    parts = bench.subtasks(3, [three], states=state(V3))
    four = [keyed(bench.draw(made, 4, subtask=i)()) for i, made in enumerate(parts)]
    (whole,) = bench.subtasks(1, four, states=state(V3))
    assert dict(whole.scan("v")) == expected
    settle(whole)
    assert len(numbers(whole)) == 1
    assert dict(whole.scan("v")) == expected
    heap = bench.heap(four, state(V3))
    assert {n: value(heap, n) for n in expected} == expected


def test_a_canonical_snapshot_in_the_middle_is_of_one_type(bench: NativeBench, slow: None) -> None:
    """Whoever reads it need not know of older types; the migration beside it changes nothing."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(40)})
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2), incremental=False)
    made.settle()
    pending = made.snapshot_sync()
    settle(made)
    heap = bench.heap([])
    heap = type(heap)(state(V2), 0, GROUPS - 1, GROUPS)
    heap.restore([snapshot_blob(pending)])
    assert {n: value(heap, n) for n in range(40)} == {n: V2(str(n), 7) for n in range(40)}


def test_rolling_back_in_the_middle_reads_what_was_not_rewritten_as_it_was(
    bench: NativeBench, slow: None
) -> None:
    """The type of the first program is declared again: its number is taken up again."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(40)})
    second = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2))
    second.settle()
    back = bench.backend(stored=[keyed(bench.snapshot(second, 2, completed=1))], states=state(V1))
    assert back.tables["v"].layout.versions.current == 0
    assert dict(back.scan("v")) == {n: V1(str(n)) for n in range(40)}
    settle(back)
    assert numbers(back) == {0}


@pytest.mark.parametrize(
    ("second", "third", "lost"),
    [
        # renamed twice, with the last alias only
        (
            record(("url", Annotated[str, hg.alias("page")])),
            record(("link", Annotated[str, hg.alias("url")], "none")),
            "field 'link' of shop.Visit was added",
        ),
        # removed, and another one of that name came
        (
            record(("count", int, 0)),
            record(("count", int, 0), ("page", str, "none")),
            "field 'page' of shop.Visit was added",
        ),
    ],
)
def test_a_way_that_would_lose_what_the_program_in_between_did_is_refused(
    bench: NativeBench, slow: None, second: Any, third: Any, lost: str
) -> None:
    """Read at once the old values would come out otherwise; when they are rewritten all is well."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(40)})
    middle = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(second))
    middle.settle()
    half = [keyed(bench.snapshot(middle, 2, completed=1))]
    for options in ({}, {"eager_migration": True}):
        with pytest.raises(
            UsageError, match=rf"state 'v' .* in another way \(.*{lost}.*\); let that program"
        ):
            bench.backend(stored=half, states=state(third), **options)
    with pytest.raises(UsageError, match="in another way"):
        bench.heap(half, state(third))
    settle(middle)
    done = [keyed(bench.snapshot(middle, 3, completed=2))]
    made = bench.backend(stored=done, states=state(third))
    before, default = value(middle, 5), third.__dataclass_fields__
    expected = before.url if hasattr(before, "url") else default["page"].default
    assert value(made, 5).__dict__.get("link", value(made, 5).__dict__.get("page")) == expected


def test_g8_what_does_not_fit_is_refused_before_anything_runs(bench: NativeBench, slow: None) -> None:
    """Also when only the oldest of the types does not."""
    old = bench.backend(states=state(int))
    fill(old, dict.fromkeys(range(40), 1))
    second = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(int | str))
    second.settle()
    stored = [keyed(bench.snapshot(second, 2, completed=1))]
    with pytest.raises(
        UsageError, match="state 'v' of the checkpoint cannot be read as the program declares"
    ):
        bench.backend(stored=stored, states=state(str))


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, bool]]:
    """Where files were copied to, and whether a database was built by then."""
    found, fetch = [], Source.fetch

    def noting(source: Source, directory: Path) -> None:
        found.append((directory, (directory.parent / "db").exists()))
        fetch(source, directory)

    monkeypatch.setattr(Source, "fetch", noting)
    return found


def test_g8_an_older_type_in_one_of_several_states_is_judged_before_anything_is_built(
    bench: NativeBench, slow: None, fetched: list[tuple[Path, bool]]
) -> None:
    """The first subtask's values are all rewritten and fit; some of the second's are not, and do not."""
    second = record(("url", Annotated[str, hg.alias("page")]))
    third = record(("link", Annotated[str, hg.alias("url")], "none"))
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(40)})
    parts = bench.subtasks(2, [keyed(bench.snapshot(old, 1))], states=state(second))
    settle(parts[0])
    parts[1].settle()
    stored = [keyed(bench.draw(made, 2, subtask=i)()) for i, made in enumerate(parts)]
    fetched.clear()
    with pytest.raises(UsageError, match=r"state 'v' .* in another way"):
        bench.subtasks(1, stored, states=state(third))
    ((directory, built),) = fetched  # whether its state is empty, and so does not count, is in the files
    assert (built, directory.exists(), (directory.parent / "db").exists()) == (False, False, False)
    settle(parts[1])
    stored[1] = keyed(bench.draw(parts[1], 3, subtask=1)())
    (made,) = bench.subtasks(1, stored, states=state(third))
    assert dict(made.scan("v")) == {n: third(str(n)) for n in range(40)}


def test_what_is_empty_is_looked_into_and_copied_once(
    bench: NativeBench, fetched: list[tuple[Path, bool]]
) -> None:
    """A type that nothing is left of need not fit; the files serve as they lie there, continued or not."""
    states = state(V1) | {"w": StateDescriptor("w", "value", (int,), lambda: -1)}
    parts = bench.subtasks(2, [], states=states)
    for key in range(40):
        made: Any = _owner(parts, key)
        made.bind(key)
        made.handles["v"].value, made.handles["w"].value = V1("x"), key
        made.store()
        made.tables["v"].remove(key)
    stored = [keyed(bench.draw(made, 1, subtask=i)()) for i, made in enumerate(parts)]
    fetched.clear()
    (again,) = bench.subtasks(1, stored, states=states | state(bytes))
    assert [built for _, built in fetched] == [False, False]
    assert (dict(again.scan("v")), dict(again.scan("w"))) == ({}, {key: key for key in range(40)})
    assert [path.name for path in fetched[0][0].parent.iterdir()] == ["db"]


def test_a_state_that_is_empty_begins_anew(bench: NativeBench, slow: None) -> None:
    """No values, no types: what was removed may be declared in any way."""
    old = bench.backend(states=state(V1))
    fill(old, {1: V1("x")})
    second = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2))
    second.bind(1)
    second.handles["v"].table.remove(1)
    stored = [keyed(bench.snapshot(second, 2, completed=1))]
    third = bench.backend(stored=stored, states=state(bytes))
    assert third.migration_progress() == []
    assert third.tables["v"].layout.versions.current == 0


@pytest.mark.parametrize("parallelism", [1, 2])
def test_files_of_the_first_format_are_restored(bench: NativeBench, parallelism: int) -> None:
    """Their values have no number in front; all are copied, and no checkpoint builds on the old files."""
    made = bench.backend(states=state(V1))
    fill(made, {n: V1(str(n)) for n in range(100)})
    store = made._database.stores["v"]
    made.tables["v"].flush()
    store.write([(key, data[1:]) for key, data in store.items()])
    handle = keyed(bench.snapshot(made, 1))
    assert handle.native is not None
    details = {"checkpoint": 1, "formats": {"v": PLAIN_VALUES}}
    first = [msgspec.structs.replace(handle, native=msgspec.structs.replace(handle.native, details=details))]
    for declared, changed in ((V1, False), (V2, True)):
        found: dict[Any, Any] = {}
        for again in bench.subtasks(parallelism, first, states=state(declared)):
            assert bool(again.migration_progress()) is changed
            found |= dict(again.scan("v"))
            assert bench.snapshot(again, 2, completed=1).files_shared == 0
        assert found == {n: declared(str(n)) for n in range(100)}
    heap = bench.heap(first, state(V2))
    assert value(heap, 5) == V2("5", 7)


def test_a_byte_that_stands_for_no_type_is_damage(bench: NativeBench) -> None:
    """Told by state and key, wherever it is read."""
    made = bench.backend(states=state(V1))
    fill(made, {n: V1(str(n)) for n in range(20)})
    made.tables["v"].flush()
    store = made._database.stores["v"]
    store.write([(key, b"\xee" + data[1:]) for key, data in store.items()])
    with pytest.raises(
        StorageError, match=r"state 'v', key \d+: .* begins with byte 238, .* have numbers 0;"
    ):
        dict(made.scan("v"))
    stored = [keyed(bench.snapshot(made, 1))]
    with pytest.raises(StorageError, match="begins with byte 238"):
        bench.backend(stored=stored, states=state(V2), eager_migration=True)
    with pytest.raises(StorageError, match="begins with byte 238"):
        bench.subtasks(1, _in_halves(bench, made), states=state(V2))


def _in_halves(bench: NativeBench, made: Any) -> list[Any]:
    """What two subtasks would have stored that share a damaged state."""
    handle = keyed(bench.snapshot(made, 2))
    halves = [bench.backend((low, low + 7), [handle], state(V1)) for low in (0, 8)]
    return [keyed(bench.draw(half, 3, subtask=i)()) for i, half in enumerate(halves)]


def test_progress_is_said_every_few_seconds(bench: NativeBench, caplog: pytest.LogCaptureFixture) -> None:
    """State, how much of it, how fast; and once when all is done."""
    old = bench.backend(states=state(V1))
    fill(old, {n: V1(str(n)) for n in range(3000)})
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=state(V2))
    now = [0.0]

    def later() -> float:
        now[0] += 0.01
        return now[0]

    walk = Migration(made.tables["v"].layout, made._database.stores["v"], later)
    with caplog.at_level("INFO", "headgate.state.rocksdb.migration"):
        while not walk.step():
            pass
    said = [record.message for record in caplog.records]
    assert said[0].startswith("state 'v': rewriting values to the declared type, ")
    assert said[0].endswith(" of about 3000 entries done (25/s)")
    assert said[-1].startswith("state 'v': every value is of the declared type now; 3000 of 3000 entries")
    assert len(said) == 24


@pytest.mark.ci
@settings(max_examples=4, **IN_ORDER)
@given(st.data())
def test_a_few_courses_of_types_and_restores_read_what_was_written(data: st.DataObject) -> None:
    """Widening step by step, with writes, slices of migration, restores and rescaling in between."""
    _random_course(data)


@pytest.mark.proof
@settings(max_examples=15, **IN_ORDER)
@given(st.data())
def test_any_course_of_types_and_restores_reads_what_was_written(data: st.DataObject) -> None:
    """The same at length."""
    _random_course(data)


def _random_course(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "SLICE_S", 0.0)
        _course(NativeBench(Path(root)), data)


def _course(bench: NativeBench, data: st.DataObject) -> None:
    classes = [V1, V2, V3]
    model: dict[int, tuple[Any, ...]] = {}
    at, running = 0, bench.subtasks(1, [], states=state(V1))
    for number in range(1, 7):
        for key in data.draw(st.lists(st.integers(0, 40), max_size=25)):
            model[key] = (str(number),)
            fill(_owner(running, key), {key: classes[at](str(number))})
        for made in running:
            for _ in range(data.draw(st.integers(0, 12))):
                made.settle()
        drawn = [keyed(bench.draw(m, number, number - 1, subtask=i)()) for i, m in enumerate(running)]
        at = data.draw(st.integers(at, 2))
        running = bench.subtasks(data.draw(st.integers(1, 3)), drawn, states=state(classes[at]))
        found = {k: v for made in running for k, v in made.scan("v")}
        assert found == {key: classes[at](*fields) for key, fields in model.items()}
    bench.close()


def _owner(running: list[Any], key: int) -> Any:
    group = key_group(key, GROUPS)
    return next(made for made in running if made.groups[0] <= group <= made.groups[1])
