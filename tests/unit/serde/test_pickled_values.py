"""State that is stored as pickle by name: what it holds, what it refuses, and where it never appears."""

from __future__ import annotations

import pickle
import types
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.serde.codecs.pickled import holds_pickle
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import record_serializer, serializer_for
from headgate.serde.verdicts import AsIs, Incompatible


class Model:
    """A class that no serializer holds."""

    def __init__(self, weights: Any = ()) -> None:
        self.weights = weights

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class Larger(Model):
    """A subclass."""


class Other:
    """Another class."""


class Explosive:
    """Raises what it likes when it is read."""

    def __reduce__(self) -> Any:
        return (_explode, ())


def _explode() -> Any:
    raise KeyError("boom")


RAN: list[str] = []


def _run() -> Any:
    RAN.append("ran")
    return Model()


class Running(Model):
    """Runs code when it is read."""

    def __reduce__(self) -> Any:
        return (_run, ())


@dataclass
class Carrier:
    """A record with a pickled field."""

    name: str
    model: Annotated[Model, hg.pickled]


def pickled(hint: Any = Model) -> Any:
    """The serializer of a type as pickle."""
    return serializer_for(Annotated[hint, hg.pickled])


@settings(max_examples=30)
@given(
    st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.tuples(inner), max_leaves=5)
)
def test_values_come_back(weights: Any) -> None:
    """Of their class or a subclass, alone, beside None, in records and in containers."""
    for value in (Model(weights), Larger(Model(weights))):
        for hint, wrapped in [
            (Annotated[Model, hg.pickled], value),
            (Annotated[Any, hg.pickled], {"any": value}),
            (list[Annotated[Model, hg.pickled]], [value]),
            (Carrier, Carrier("a", value)),
        ]:
            serializer = serializer_for(hint)
            assert serializer.decode_many(serializer.encode_checked([wrapped]), 1) == [wrapped]
    optional = serializer_for(Annotated[Model, hg.pickled] | None)
    assert optional.decode_many(optional.encode_checked([None, Model(1)]), 2) == [None, Model(1)]


def test_the_description_names_class_and_python() -> None:
    """Without them nobody could judge the bytes."""
    import sys

    assert pickled().describe() == {
        "kind": "pickle",
        "version": 1,
        "name": f"{__name__}.Model",
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def test_nothing_is_judged_readable_but_the_same() -> None:
    """Another class, another Python, another format."""
    own = pickled().describe()
    assert judge(own, pickled()) == AsIs()
    for stored, current, why in [
        (own, pickled(Other), "pickled values do not evolve"),
        ({**own, "python": "3.8"}, pickled(), "was pickled by Python 3.8"),
        (own, serializer_for(int), "pickled values do not evolve"),
        (own, serializer_for(Any), "pickled values do not evolve"),
        (serializer_for(int).describe(), pickled(), "was int"),
        (serializer_for(Carrier).describe(), serializer_for(int), "was the record"),
    ]:
        judged = judge(stored, current)
        assert isinstance(judged, Incompatible)
        assert why in judged.why
        with pytest.raises(hg.UsageError):
            reader_for(stored, current)


@pytest.mark.parametrize("value", [Other(), 5, None])
def test_values_of_other_classes_are_refused(value: Any) -> None:
    """An annotation that says Model does not store something else."""
    with pytest.raises(hg.UsageError, match="Model"):
        pickled().encode_checked([value])


def test_what_cannot_be_pickled_or_read_back_is_refused() -> None:
    """When it is written."""
    for hint, value in [(Model, Model(lambda: 1)), (Explosive, Explosive())]:
        with pytest.raises(hg.UsageError, match="pickled"):
            pickled(hint).encode_checked([value])


def test_no_damaged_byte_is_unpickled() -> None:
    """The checksum comes first: code in bytes that changed does not run."""
    serializer = pickled(Model)
    data = serializer.encode(Running())
    assert serializer.decode(data) == Model()
    RAN.clear()
    for place in range(1, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(hg.StorageError):
                serializer.decode_many(bytes(damaged), 1)
        with pytest.raises(hg.StorageError):
            serializer.decode_many(data[:place], 1)
    assert RAN == []


def test_bytes_of_another_class_are_refused() -> None:
    """A pickle with a right checksum that holds something else."""
    raw = pickle.dumps(5)
    data = bytes([0]) + msgspec.msgpack.encode([[__import__("zlib").crc32(raw), raw]])
    with pytest.raises(hg.StorageError, match=r"expected test_pickled_values\.Model"):
        pickled().decode_many(data, 1)


def test_the_declared_class_is_not_found_by_its_module() -> None:
    """A program's file has another module's name when it is run than when it is imported."""
    module = types.ModuleType("__main__")
    script: Any = type("Script", (), {"__module__": "__main__", "__eq__": lambda a, b: vars(a) == vars(b)})
    module.Script = script  # type: ignore[attr-defined]
    value = script()
    value.inner = [script]
    serializer = pickled(script)
    found = serializer.decode(serializer.encode_checked([value]))
    assert (type(found), found.inner) == (script, [script])


def test_records_on_the_way_are_never_pickled_by_an_annotation() -> None:
    """They are part of unaligned checkpoints."""
    assert record_serializer(Carrier) is None
    assert holds_pickle(serializer_for(Carrier).describe())
    assert holds_pickle(serializer_for(dict[str, list[Annotated[Model, hg.pickled] | None]]).describe())
    assert not holds_pickle(serializer_for(dict[str, int]).describe())


def test_the_mark_stands_on_a_class() -> None:
    """A union as a whole has no class that could be checked."""
    with pytest.raises(hg.UsageError, match="mark the class itself"):
        serializer_for(Annotated[Model | None, hg.pickled])
