"""The serializer suite finds each of the defects that it is there for, and says what is wrong."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import UsageError
from headgate.serde.serializer import Buffer
from headgate.testing.suites import SerializerSuite


class Ints(hg.TypeSerializer[list[int]]):
    """Sound: lists of numbers of 16 bits."""

    def encode(self, value: list[int]) -> bytes:
        return struct.pack(f">{len(value)}h", *value)

    def decode(self, data: bytes) -> list[int]:
        return list(struct.unpack(f">{len(data) // 2}h", data))

    def snapshot(self) -> Any:
        return IntsSnapshot(type(self))


class IntsSnapshot(hg.TypeSerializerSnapshot[list[int]]):
    def __init__(self, cls: type[Ints] = Ints) -> None:
        self.cls = cls

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_utf(self.cls.__qualname__)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.cls = globals()[in_.read_utf()]

    def restore_serializer(self) -> Ints:
        return self.cls()

    def resolve_schema_compatibility(self, old_snapshot: Any) -> hg.TypeSerializerSchemaCompatibility[Any]:
        return hg.TypeSerializerSchemaCompatibility.compatible_as_is()


def suite_of(cls: Callable[[], Any], **hooks: Any) -> SerializerSuite:
    """The suite over a serializer, with some hooks replaced."""

    class Suite(SerializerSuite):
        def serializer(self) -> hg.TypeSerializer[Any]:
            made: hg.TypeSerializer[Any] = cls()
            return made

        def values(self) -> Sequence[Any]:
            return [[1, -2], [], [3]]

    suite = Suite()
    for name, hook in hooks.items():
        setattr(suite, name, hook)
    return suite


def failures(suite: SerializerSuite) -> set[str]:
    """The tests that fail, without the one that starts a process."""
    found = set()
    for name in dir(suite):
        if name.startswith("test_") and name != "test_it_works_where_it_is_shipped_to":
            try:
                getattr(suite, name)()
            except (AssertionError, hg.HeadgateError):
                found.add(name)
    return found


def test_a_sound_serializer_passes() -> None:
    """Nothing is found where nothing is wrong."""
    assert failures(suite_of(Ints)) == set()


class LosesOrder(Ints):
    def decode(self, data: bytes) -> list[int]:
        return sorted(super().decode(data))


class LiesAboutItself(Ints):
    immutable = True


class SharesCopies(Ints):
    def copy(self, value: list[int]) -> list[int]:
        return value


class OtherCopies(Ints):
    def copy(self, value: list[int]) -> list[int]:
        return value[:1]


class Keeps(Ints):
    """Gives the same object for the same bytes."""

    made: ClassVar[dict[bytes, list[int]]] = {}

    def decode(self, data: bytes) -> list[int]:
        return self.made.setdefault(data, super().decode(data))


class ChangesWhatItWrites(Ints):
    def encode(self, value: list[int]) -> bytes:
        data = super().encode(value)
        value.append(0)
        return data


class Unrepeatable(Ints):
    def encode(self, value: list[int]) -> bytes:
        return super().encode(value) + random.randbytes(1)

    def decode(self, data: bytes) -> list[int]:
        return super().decode(data[:-1])


class TakesAnything(Ints):
    def encode(self, value: Any) -> bytes:
        return super().encode(value if isinstance(value, list) else [])


class NotThreadSafe(Ints):
    """Keeps what it is about to write in itself, for longer than a thread's turn."""

    def encode_many(self, values: Sequence[list[int]]) -> bytes:
        self.now = values
        time.sleep(0.0002)
        return super().encode_many(self.now)


class TrustsSizes(Ints):
    """Makes room for as many values as it is told."""

    def decode_many(self, data: Buffer, count: int) -> list[list[int]]:
        room: list[Any] = [None] * count
        room[:] = super().decode_many(data, count)
        return room

    def encode_many(self, values: Sequence[list[int]]) -> bytes:
        return super().encode_many(values)


class Miscounts(Ints):
    """Whatever its own reader raises or gives, `decode_stored` passes on."""

    def decode_stored(self, data: Buffer, count: int) -> list[list[int]]:
        return self.decode_many(data, max(count, 3))


class Views(hg.TypeSerializer[memoryview]):
    """Values are views of the bytes that they were read from."""

    immutable = True

    def encode_many(self, values: Sequence[memoryview]) -> bytes:
        return b"".join(memoryview(value) for value in values)

    def decode_many(self, data: Buffer, count: int) -> list[memoryview]:
        return [memoryview(data)[2 * n : 2 * n + 2] for n in range(count)]

    def snapshot(self) -> Any:
        return ViewsSnapshot()


class ViewsSnapshot(hg.SimpleTypeSerializerSnapshot[memoryview]):
    def __init__(self) -> None:
        super().__init__(Views)


class Forgetful(Ints):
    """Its snapshot makes another serializer."""

    def snapshot(self) -> Any:
        return ForgetfulSnapshot()


class ForgetfulSnapshot(hg.SimpleTypeSerializerSnapshot[list[int]]):
    def __init__(self) -> None:
        super().__init__(LosesOrder)


class Unstable(Ints):
    """Describes itself in another way each time."""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "version": random.random()}


class Incompatible(Ints):
    """Does not read what it has written."""

    def snapshot(self) -> Any:
        return IncompatibleSnapshot()


class IncompatibleSnapshot(hg.SimpleTypeSerializerSnapshot[list[int]]):
    def __init__(self) -> None:
        super().__init__(Incompatible)

    def resolve_schema_compatibility(self, old_snapshot: Any) -> hg.TypeSerializerSchemaCompatibility[Any]:
        return hg.TypeSerializerSchemaCompatibility.incompatible("it says so")


@pytest.mark.parametrize(
    ("cls", "test"),
    [
        (LosesOrder, "test_values_come_back"),
        (LiesAboutItself, "test_immutable_is_true_to_its_word"),
        (SharesCopies, "test_copies_are_equal_and_apart"),
        (OtherCopies, "test_copies_are_equal_and_apart"),
        (Keeps, "test_values_that_are_read_twice_are_apart"),
        (ChangesWhatItWrites, "test_encoding_is_repeatable_and_changes_nothing"),
        (Unrepeatable, "test_encoding_is_repeatable_and_changes_nothing"),
        (TakesAnything, "test_values_that_do_not_fit_are_refused"),
        (NotThreadSafe, "test_threads_share_one_instance"),
        (TrustsSizes, "test_sizes_that_are_a_lie_take_no_memory"),
        (Miscounts, "test_damaged_bytes_are_a_storage_error_or_other_values"),
        (Forgetful, "test_the_snapshot_makes_a_serializer_that_reads"),
        (Unstable, "test_the_description_is_plain_and_stable"),
        (Incompatible, "test_the_same_serializer_reads_as_is"),
    ],
    ids=lambda case: getattr(case, "__name__", case),
)
def test_each_defect_is_found(cls: Any, test: str) -> None:
    """By the test that is about it."""
    with pytest.raises((AssertionError, hg.HeadgateError)):
        getattr(suite_of(cls), test)()


def test_values_that_are_views_are_found() -> None:
    """The buffer that they look at is used again."""
    suite = suite_of(Views, values=lambda: [memoryview(b"ab"), memoryview(b"cd")])
    with pytest.raises(AssertionError, match="a buffer that was used again: value 0 came back as"):
        suite.test_values_do_not_depend_on_the_buffer()


def test_local_snapshot_classes_are_found() -> None:
    """As when the job is planned."""

    class Local(Ints):
        def snapshot(self) -> Any:
            return LocalSnapshot()

    class LocalSnapshot(IntsSnapshot):
        pass

    with pytest.raises(UsageError, match="is local or nested"):
        suite_of(Local).test_the_rules_of_planning_are_kept()


@pytest.mark.parametrize(
    ("hooks", "test", "why"),
    [
        ({"values": list}, "test_values_come_back", r"values\(\) gave none"),
        ({"change_in_place": lambda value: False}, "test_immutable_is_true_to_its_word", "could be changed"),
        ({"same": lambda left, right: False}, "test_any_batch_comes_back", "came back as"),
        ({"strategy": lambda: st.just([2**20])}, "test_any_batch_comes_back", "not a Ints"),
    ],
    ids=["no values", "nothing to change", "never the same", "a strategy that does not fit"],
)
def test_hooks_that_are_wrong_are_told(hooks: dict[str, Any], test: str, why: str) -> None:
    """In a sentence that says what to give."""
    with pytest.raises((AssertionError, UsageError), match=why):
        getattr(suite_of(Ints, **hooks), test)()


class Unshippable(Ints):
    """Holds what stays in its process."""

    def __init__(self) -> None:
        self.open = open(__file__, encoding="utf-8")  # noqa: SIM115

    def __del__(self) -> None:
        self.open.close()


class AtHomeOnly(Ints):
    """Works in the process that made it."""

    def __init__(self) -> None:
        self.home = _process()

    def decode(self, data: bytes) -> list[int]:
        assert self.home == _process(), "far from home"
        return super().decode(data)


def _process() -> int:
    import os

    return os.getpid()


@pytest.mark.ci
def test_what_does_not_work_where_it_is_shipped_to_is_found() -> None:
    """What cannot be shipped, and what does not work in another process; what is sound does."""
    suite_of(Ints).test_it_works_where_it_is_shipped_to()
    with pytest.raises(AssertionError, match="cannot be shipped to workers: an open file"):
        suite_of(Unshippable).test_it_works_where_it_is_shipped_to()
    with pytest.raises(AssertionError, match=r"where it is shipped to: StorageError: .*far from home"):
        suite_of(AtHomeOnly).test_it_works_where_it_is_shipped_to()
