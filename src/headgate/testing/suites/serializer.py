"""The conformance suite of serializers, as tests that a class inherits."""

from __future__ import annotations

import random
import sys
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
from typing_extensions import TypeVar

from headgate.api.checking.shipping_check import shipping_error
from headgate.common.errors import StorageError, UsageError
from headgate.serde.evolution.custom_serializers import stored_snapshot
from headgate.serde.evolution.judging_types import judge
from headgate.serde.serializer import Buffer, TypeSerializer
from headgate.serde.snapshots.snapshot_rules import SerializerRegistry
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes
from headgate.serde.verdicts import AsIs
from headgate.testing.suites.other_process import other_process
from headgate.testing.suites.value_checks import (
    COUNT_LIE,
    change_in_place,
    check_same,
    cut_short,
    same,
    with_a_flipped_bit,
    with_large_sizes,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T", default=Any)

_THREADS: Final = 4
_ROUNDS: Final = 25
_MEMORY_MAX: Final = 16 << 20
"""Bytes of memory that decoding damaged data may take; the tests' intact data takes far less."""


class SerializerSuite(ABC, Generic[T]):
    """Tests of one serializer; inherit from it under a name that pytest collects, and implement the hooks.

    Two hooks are needed, :meth:`serializer` and :meth:`values`; the others have defaults that suit most.

    Example:
        >>> import headgate as hg
        >>> class Text(hg.TypeSerializer[str]):
        ...     immutable = True
        ...     def encode(self, value):
        ...         return value.encode()
        ...     def decode(self, data):
        ...         return data.decode()
        ...     def snapshot(self):
        ...         raise NotImplementedError
        >>> class TestText(SerializerSuite):
        ...     def serializer(self):
        ...         return Text()
        ...     def values(self):
        ...         return ["", "text"]
        >>> TestText().test_values_come_back()
    """

    # -- hooks

    @abstractmethod
    def serializer(self) -> TypeSerializer[T]:
        """Return a new instance of the serializer under test at each call."""

    @abstractmethod
    def values(self) -> Sequence[T]:
        """Return at least one value to store, equal at each call; add the smallest, the strangest and, unless
        the serializer is immutable, one that can be changed in place.
        """

    def strategy(self) -> SearchStrategy[T] | None:
        """Return a strategy of the package hypothesis for values; None: random batches of :meth:`values`."""
        return None

    def wrong_values(self) -> Sequence[Any]:
        """Return values that encoding must refuse with UsageError; by default one of an unknown class."""
        return [_Unknown()]

    def same(self, left: T, right: T) -> bool:
        """Return whether a decoded value counts as equal to the one that was stored."""
        return same(left, right)

    def change_in_place(self, value: T) -> bool:
        """Change a value in place wherever a program can; return False if nothing could be changed."""
        return change_in_place(value)

    def read(self, serializer: TypeSerializer[T], data: Buffer, count: int) -> list[T]:
        """Decode `count` values as state backends do: an error of the serializer becomes a StorageError."""
        return serializer.decode_stored(data, count)

    # -- values and bytes

    def test_values_come_back(self) -> None:
        """Values are decoded as they were encoded, as one batch in its order, and each by itself."""
        serializer, values = self.serializer(), self._values()
        data = serializer.encode_checked(values)
        assert type(data) is bytes, f"encode_many() gave {type(data).__qualname__}; expected bytes"
        self._check(serializer.decode_many(data, len(values)), values, "a batch")
        self._check([serializer.decode(serializer.encode(value)) for value in values], values, "one by one")

    def test_an_empty_batch_comes_back(self) -> None:
        """A batch without values can be encoded and decoded: a key group may have no entries."""
        serializer = self.serializer()
        found = serializer.decode_many(serializer.encode_checked([]), 0)
        assert found == [], f"an empty batch came back as {found!r:.200}"

    def test_any_batch_comes_back(self) -> None:
        """A batch of any length and order is decoded as it was encoded."""
        serializer, strategy = self.serializer(), self.strategy()

        def check(values: list[T]) -> None:
            found = serializer.decode_many(serializer.encode_checked(values), len(values))
            self._check(found, values, f"a batch of {len(values)}")

        if strategy is not None:
            _for_all_lists(strategy, check)
            return
        values, chance = self._values(), random.Random(7)
        for length in (1, 2, 3, 5, 100, 1000):
            check([chance.choice(values) for _ in range(length)])

    def test_encoding_is_repeatable_and_changes_nothing(self) -> None:
        """Encoding the same values again, in any instance, gives the same bytes, and changes no value."""
        serializer, values = self.serializer(), self._values()
        first = serializer.encode_many(values)
        self._check(serializer.decode_many(first, len(values)), self._values(), "after encoding")
        for again in (serializer, self.serializer()):
            assert again.encode_many(values) == first, f"{serializer.name} gave other bytes for equal values"

    def test_values_do_not_depend_on_the_buffer(self) -> None:
        """Decoded values keep no reference to the buffer that they were read from."""
        serializer, values = self.serializer(), self._values()
        data = serializer.encode_many(values)
        self._check(serializer.decode_many(memoryview(data), len(values)), values, "a memoryview")
        buffer = bytearray(data)
        found = serializer.decode_many(buffer, len(values))
        buffer[:] = bytes(len(buffer))
        self._check(found, values, "a buffer that was used again")

    def test_values_that_do_not_fit_are_refused(self) -> None:
        """Encoding values of other types raises UsageError, so that every checkpoint can be read."""
        serializer = self.serializer()
        for wrong in self.wrong_values():
            for batch in ([wrong], [*self._values(), wrong]):
                assert self._refuses(serializer, batch), (
                    f"{serializer.name} stores {wrong!r:.200}; let encode() refuse it"
                )

    # -- copies

    def test_immutable_is_true_to_its_word(self) -> None:
        """If `immutable` is True, no value is copied or can be changed in place; else at least one can be."""
        serializer, values = self.serializer(), self._values()
        assert isinstance(serializer.immutable, bool)
        if not serializer.immutable:
            changed = [self.change_in_place(value) for value in self._fresh(values)]
            assert any(changed), (
                f"no value of {serializer.name} could be changed in place: add one to values(), implement "
                "change_in_place() of the test, or set immutable = True"
            )
            return
        for value in values:
            assert serializer.copy(value) is value, f"{serializer.name} copies the immutable {value!r:.200}"
            (fresh,) = self._fresh([value])
            assert not self.change_in_place(fresh), (
                f"the values of {serializer.name} are called immutable, but {value!r:.200} can be changed"
            )

    def test_copies_are_equal_and_apart(self) -> None:
        """Changing a value in place does not change its copy, nor the other way round."""
        serializer = self.serializer()
        for value in self._values():
            (original,) = self._fresh([value])
            copied = serializer.copy(original)
            self._check([copied], [value], "a copy")
            self.change_in_place(original)
            self._check([copied], [value], "a copy whose original was changed")
            (original,) = self._fresh([value])
            self.change_in_place(serializer.copy(original))
            self._check([original], [value], "a value whose copy was changed")

    def test_values_that_are_read_twice_are_apart(self) -> None:
        """Values that are decoded twice from the same bytes share nothing that can be changed."""
        serializer, values = self.serializer(), self._values()
        data = serializer.encode_many(values)
        first, second = (serializer.decode_many(data, len(values)) for _ in range(2))
        for value in first:
            self.change_in_place(value)
        self._check(second, values, "values that were read twice, of which one was changed")

    # -- the snapshot

    def test_the_description_is_plain_and_stable(self) -> None:
        """The stored description is data for msgpack, and the same after use and from every instance."""
        serializer, values = self.serializer(), self._values()
        before = msgspec.msgpack.encode(serializer.describe())
        serializer.decode_many(serializer.encode_many(values), len(values))
        for one in (serializer, self.serializer()):
            assert msgspec.msgpack.decode(before) == msgspec.msgpack.decode(
                msgspec.msgpack.encode(one.describe())
            ), f"{serializer.name} describes itself in another way than before"
        assert {"kind", "version"} <= serializer.describe().keys()

    def test_the_rules_of_planning_are_kept(self) -> None:
        """The serializer passes the checks before a job: its classes are importable, nothing is pickled."""
        SerializerRegistry().register(self.serializer(), "the serializer under test")

    def test_the_snapshot_makes_a_serializer_that_reads(self) -> None:
        """A serializer restored from the stored snapshot reads the values, as after a restart."""
        serializer, values = self.serializer(), self._values()
        data = serializer.encode_many(values)
        stored = snapshot_to_bytes(serializer.snapshot())
        assert stored == snapshot_to_bytes(self.serializer().snapshot()), "two snapshots of it differ"
        restored = snapshot_from_bytes(stored).restore_serializer_for(self.serializer())
        self._check(restored.decode_stored(data, len(values)), values, "the restored serializer")

    def test_the_same_serializer_reads_as_is(self) -> None:
        """The stored description of the same serializer gets the verdict "as is", without migration."""
        serializer = self.serializer()
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(serializer.describe()))
        assert judge(stored, self.serializer()) == AsIs()
        described = stored_snapshot(stored, serializer)
        assert snapshot_to_bytes(described) == snapshot_to_bytes(serializer.snapshot())

    def test_instances_read_each_other(self) -> None:
        """Any instance decodes what another instance has encoded."""
        one, other, values = self.serializer(), self.serializer(), self._values()
        self._check(other.decode_many(one.encode_many(values), len(values)), values, "another instance")
        self._check(one.decode_many(other.encode_many(values), len(values)), values, "the first instance")

    # -- threads and processes

    def test_threads_share_one_instance(self) -> None:
        """Several threads may encode and decode with one instance, as background snapshots do."""
        serializer, values, together = self.serializer(), self._values(), Barrier(_THREADS)

        def work(seed: int) -> None:
            chance = random.Random(seed)
            together.wait()
            for _ in range(_ROUNDS):
                batch = [chance.choice(values) for _ in range(8)]
                found = serializer.decode_many(serializer.encode_many(batch), len(batch))
                self._check(found, batch, "one of several threads")

        with _switching_often(), ThreadPoolExecutor(_THREADS) as threads:
            for done in [threads.submit(work, seed) for seed in range(_THREADS)]:
                done.result()

    def test_it_works_where_it_is_shipped_to(self) -> None:
        """A shipped serializer decodes in another process, encodes for this one, and is described alike."""
        serializer, values = self.serializer(), self._values()
        why = shipping_error(serializer)
        assert why is None, f"{serializer.name} cannot be shipped to workers: {why}"
        batch, description = other_process().rewritten(serializer, values)
        self._check(serializer.decode_many(batch, len(values)), values, "another process")
        assert description == msgspec.msgpack.decode(msgspec.msgpack.encode(serializer.describe()))

    # -- damage

    def test_damaged_bytes_are_a_storage_error_or_other_values(self) -> None:
        """Damaged bytes raise StorageError or give the right number of values, and never anything else."""
        serializer, values = self.serializer(), self._values()
        data, count = serializer.encode_many(values), len(values)
        for damaged in (*cut_short(data), *with_a_flipped_bit(data), data + b"\0", data * 2):
            self._read_damaged(serializer, damaged, count)
        for wrong in (0, count - 1, count + 1):
            self._read_damaged(serializer, data, wrong)

    def test_sizes_that_are_a_lie_take_no_memory(self) -> None:
        """A damaged length does not make the serializer allocate memory of that size."""
        serializer, values = self.serializer(), self._values()
        data, count = serializer.encode_many(values), len(values)
        limit = _MEMORY_MAX + 64 * len(data)
        self.read(serializer, data, count)  # what is imported or cached by the first use does not count
        with _traced_memory():
            for damaged, number in [*((one, count) for one in with_large_sizes(data)), (data, COUNT_LIE)]:
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                self._read_damaged(serializer, damaged, number)
                taken = tracemalloc.get_traced_memory()[1] - before
                assert taken <= limit, (
                    f"reading {len(damaged)} damaged bytes as {number} values of {serializer.name} took "
                    f"{taken} bytes of memory; compare sizes with what is there before anything is made"
                )

    # -- what the tests share

    def _values(self) -> list[T]:
        values = list(self.values())
        assert values, "values() gave none; expected at least one"
        return values

    def _fresh(self, values: Sequence[T]) -> list[T]:
        serializer = self.serializer()
        return serializer.decode_many(serializer.encode_many(values), len(values))

    def _check(self, found: list[T], expected: Sequence[T], what: str) -> None:
        check_same(found, list(expected), what, self.same)

    def _refuses(self, serializer: TypeSerializer[T], values: list[T]) -> bool:
        try:
            serializer.encode_checked(values)
        except UsageError:
            return True
        return False

    def _read_damaged(self, serializer: TypeSerializer[T], data: bytes, count: int) -> None:
        try:
            found = self.read(serializer, data, count)
        except StorageError:
            return
        except Exception as error:
            raise AssertionError(
                f"{len(data)} damaged bytes as {count} values of {serializer.name}: {type(error).__name__} "
                f"({error}); expected a StorageError"
            ) from error
        assert len(found) == count, f"damaged bytes were read as {len(found)} values; expected {count}"


class _Unknown:
    """A class of values that no serializer can encode."""


def _for_all_lists(strategy: SearchStrategy[T], check: Callable[[list[T]], None]) -> None:
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    quiet = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    quiet(given(st.lists(strategy, max_size=5))(check))()


@contextmanager
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def _traced_memory() -> Iterator[None]:
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        yield
    finally:
        if ours:
            tracemalloc.stop()
