"""Protobuf, Avro, JSON and pickle as keyed state: snapshots, restores, and programs of another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
from message_samples import message

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 8
KEYS = [f"key{number}" for number in range(10)]
Make = Callable[[object], Any]


class Model:
    """What nothing but pickle holds."""

    def __init__(self, weight: int) -> None:
        self.weight = weight


def avro(*more: dict[str, Any]) -> object:
    """A schema with one number, and what is added to it."""
    fields = [{"name": "n", "type": "long" if more else "int"}, *more]
    return hg.avro({"type": "record", "name": "shop.Count", "fields": fields})


OldVisit = message(page="string 1", count="int32 2")
NewVisit = message(page="string 1", count="int64 2", note="string 3")


class Old:
    """What the first program declares."""

    visit: hg.ValueState[OldVisit | None] = hg.value_state()
    visits: hg.ListState[OldVisit] = hg.list_state()
    counts: hg.MapState[str, Annotated[dict, avro()]] = hg.map_state()
    extra: hg.ValueState[Annotated[dict[str, int], hg.json]] = hg.value_state(default_factory=dict)
    model: hg.ValueState[Annotated[Model, hg.pickled] | None] = hg.value_state()


class New:
    """What the second one does."""

    visit: hg.ValueState[NewVisit | None] = hg.value_state()
    visits: hg.ListState[NewVisit] = hg.list_state()
    counts: hg.MapState[
        str,
        Annotated[dict, avro({"name": "tags", "type": {"type": "array", "items": "string"}, "default": []})],
    ] = hg.map_state()
    extra: hg.ValueState[Annotated[dict[str, float], hg.json]] = hg.value_state(default_factory=dict)
    model: hg.ValueState[Annotated[Model, hg.pickled] | None] = hg.value_state()


@pytest.fixture(params=["heap", pytest.param("rocksdb", marks=pytest.mark.ci)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes empty backends of one sort, each owning every key group."""
    numbers, memory = count(), RocksMemory(LIMIT_MIN)
    made: list[Any] = []

    def backend(function: object) -> Any:
        groups = (declared_state(function), 0, GROUPS - 1, GROUPS)
        if request.param == "heap":
            made.append(HeapKeyedBackend(*groups))
        else:
            made.append(RocksKeyedBackend(*groups, directory=tmp_path / f"db{next(numbers)}", memory=memory))
        return made[-1]

    yield backend
    for one in made:
        one.close()


def filled(make: Make) -> bytes:
    """The snapshot of the first program, drawn before values were changed in place."""
    running = make(Old())
    for number, key in enumerate(KEYS):
        running.bind(key)
        running.handles["visit"].value = OldVisit(page=key, count=number)
        running.handles["visits"].add(OldVisit(page="first", count=number))
        running.handles["counts"].put("k", {"n": number})
        running.handles["extra"].value = {"a": number}
        running.handles["model"].value = Model(number)
        running.store()
    pending = running.snapshot_sync()
    running.bind(KEYS[1])
    running.handles["visit"].value.page = "late"
    running.handles["model"].value.weight = 99
    running.handles["extra"].value["late"] = 1
    running.store()
    return snapshot_blob(pending)


def held(backend: Any, key: str) -> list[Any]:
    """What each state holds under a key."""
    backend.bind(key)
    handles = backend.handles
    return [
        handles["visit"].value,
        handles["visits"].get(),
        dict(handles["counts"].items()),
        handles["extra"].value,
        handles["model"].value.weight,
    ]


def test_a_snapshot_holds_what_was_there_at_the_cut(make: Make) -> None:
    """Every value comes back, and a change in place behind the cut is not in the snapshot."""
    restored = make(Old())
    restored.restore([filled(make)])
    for n, key in enumerate(KEYS):
        visit, first = OldVisit(page=key, count=n), OldVisit(page="first", count=n)
        assert held(restored, key) == [visit, [first], {"k": {"n": n}}, {"a": n}, n]


def test_a_program_of_another_shape_goes_on(make: Make) -> None:
    """All states at once; values are of the new shape, can be changed, and are stored again."""
    blob = filled(make)
    for _ in range(2):
        restored = make(New())
        restored.restore([blob])
        for n, key in enumerate(KEYS):
            visit, first = NewVisit(page=key, count=n), NewVisit(page="first", count=n)
            found = held(restored, key)
            assert found == [visit, [first], {"k": {"n": n, "tags": []}}, {"a": float(n)}, n]
            assert (type(found[0]), type(found[1][0])) == (NewVisit, NewVisit)
        blob = snapshot_blob(restored.snapshot_sync())


WrongVisit = message(page="double 1")


@pytest.mark.parametrize(
    ("name", "declaration", "hint", "why"),
    [
        ("visit", hg.value_state(), hg.ValueState[WrongVisit | None], "was string and is double"),
        (
            "counts",
            hg.map_state(),
            hg.MapState[str, Annotated[dict, avro({"name": "t", "type": "int"})]],
            "'t' was added to shop.Count without a default",
        ),
        ("extra", hg.value_state(), hg.ValueState[Annotated[dict[str, str], hg.json]], "was int and is str"),
        ("model", hg.value_state(), hg.ValueState[Annotated[KeyError, hg.pickled] | None], "do not evolve"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_state(
    make: Make, name: str, declaration: Any, hint: Any, why: str
) -> None:
    """Before any value is."""
    others = {key: value for key, value in vars(Old).items() if key in Old.__annotations__ and key != name}
    notes = {key: Old.__annotations__[key] for key in others} | {name: hint}
    changed: Any = type(
        "Changed", (), {**others, name: declaration, "__annotations__": notes, "__module__": __name__}
    )
    blob = filled(make)
    with pytest.raises(hg.UsageError, match=f"state '{name}'.*{why}"):
        make(changed()).restore([blob])
