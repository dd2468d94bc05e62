"""The serializers of one state across a restore: every event in every phase, lazily and eagerly."""

from __future__ import annotations

from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import InternalError, UsageError
from headgate.serde.resolve import serializer_for
from headgate.state.serializer_provider import StateSerializerProvider

Compatibility = hg.TypeSerializerSchemaCompatibility


class First(hg.TypeSerializer[str]):
    """What wrote the state."""

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> Any:
        return FirstSnapshot()


class FirstSnapshot(hg.TypeSerializerSnapshot[str]):
    verdict: Any = Compatibility.compatible_as_is()

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        """Nothing."""

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        """Nothing."""

    def restore_serializer(self) -> Any:
        return First()

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Any:
        return self.verdict


class Second(First):
    def snapshot(self) -> Any:
        return SecondSnapshot()


class SecondSnapshot(FirstSnapshot):
    verdict = Compatibility.compatible_after_migration()


class Reconfiguring(First):
    def snapshot(self) -> Any:
        return ReconfiguringSnapshot()


class ReconfiguringSnapshot(FirstSnapshot):
    verdict = Compatibility.compatible_with_reconfigured_serializer(First())


class Stranger(First):
    def snapshot(self) -> Any:
        return StrangerSnapshot()


class StrangerSnapshot(FirstSnapshot):
    verdict = Compatibility.incompatible("another format")


class BrokenSnapshot(FirstSnapshot):
    def restore_serializer(self) -> Any:
        raise UsageError("the old format is not known any more")


def lazy(new: Any = None, old: Any = None) -> StateSerializerProvider[str]:
    """A provider that begins with what was stored."""
    made = StateSerializerProvider[str].lazily_registered("state 'one'", old or FirstSnapshot())
    if new is not None:
        made.register_new_serializer(new)
    return made


def eager(new: Any, old: Any = None) -> StateSerializerProvider[str]:
    """A provider that begins with the program's serializer."""
    made = StateSerializerProvider[str].eagerly_registered("state 'one'", new)
    if old is not None:
        made.set_previous_serializer_snapshot(old)
    return made


def judged(new: Any) -> list[StateSerializerProvider[str]]:
    """The same old and new, in both orders."""
    return [lazy(new), eager(new, FirstSnapshot())]


def test_ss4_before_anything_is_registered_the_stored_serializer_is_the_current_one() -> None:
    """sS4: from the first version's snapshot: current and previous are of the first version."""
    provider = lazy()
    assert type(provider.current_serializer()) is First
    assert type(provider.previous_serializer()) is First
    assert provider.previous_serializer() is provider.previous_serializer()


def test_ss4_a_migrating_serializer_is_current_and_the_old_one_previous() -> None:
    """sS4: in both orders."""
    assert lazy().register_new_serializer(Second()).is_compatible_after_migration
    for provider in judged(Second()):
        assert type(provider.current_serializer()) is Second
        assert type(provider.previous_serializer()) is First


def test_ss4_a_reconfigured_serializer_takes_the_new_ones_place() -> None:
    """sS4: in both orders."""
    for provider in judged(Reconfiguring()):
        assert type(provider.current_serializer()) is First


def test_ss4_after_an_incompatible_verdict_the_state_cannot_be_accessed() -> None:
    """sS4: the error names the state, the serializer and why; the old one can still be asked for."""
    for provider in judged(Stranger()):
        with pytest.raises(
            UsageError, match=r"state 'one' cannot be accessed: serializer Stranger .*another format"
        ):
            provider.current_serializer()
        assert type(provider.previous_serializer()) is First


def test_ss4_a_broken_snapshot_fails_only_when_the_previous_serializer_is_asked_for() -> None:
    """sS4: a lazily restored serializer; judging and going on do not need it."""
    for provider in (lazy(Second(), BrokenSnapshot()), eager(Second(), BrokenSnapshot())):
        assert type(provider.current_serializer()) is Second
        with pytest.raises(UsageError, match="not known any more"):
            provider.previous_serializer()


REGISTER, SET = "register_new_serializer", "set_previous_serializer_snapshot"


@pytest.mark.parametrize(
    "new", [None, Second(), Reconfiguring(), Stranger()], ids=lambda new: type(new).__name__
)
def test_g24_each_side_is_given_once(new: Any) -> None:
    """sS4: the whole table: what a provider began with, or already has, is refused in every phase."""
    stored_first = lazy(new)
    with pytest.raises(InternalError, match="has a restored snapshot already"):
        stored_first.set_previous_serializer_snapshot(FirstSnapshot())
    declared_first = eager(new or Second(), None if new is None else FirstSnapshot())
    with pytest.raises(InternalError, match="has a registered serializer already"):
        declared_first.register_new_serializer(Second())
    if new is None:
        with pytest.raises(InternalError, match="nothing was restored"):
            declared_first.previous_serializer()
        assert type(declared_first.current_serializer()) is Second
        return
    for provider, event, value in (
        (stored_first, REGISTER, Second()),
        (declared_first, SET, FirstSnapshot()),
    ):
        with pytest.raises(InternalError):
            getattr(provider, event)(value)


def test_a_previous_built_in_serializer_reads_values_of_the_new_one() -> None:
    """Also when it was asked for before the new one was known."""
    old, new = serializer_for(int), serializer_for(float | None)
    provider: StateSerializerProvider[Any] = StateSerializerProvider.lazily_registered("it", old.snapshot())
    assert provider.current_serializer().decode(old.encode(3)) == 3
    provider.register_new_serializer(new)
    assert type(provider.previous_serializer().decode(old.encode(3))) is float
