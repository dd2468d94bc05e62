"""The conformance suite for upgrades of serializers, as tests that a class inherits."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Generic
from zlib import crc32

import pytest
from typing_extensions import TypeVar

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.common.errors import InternalError, UsageError
from headgate.common.plain_data import mappings_in
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import Buffer, TypeSerializer, TypeSerializerSnapshot
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured
from headgate.state.backend import KeyedBackend
from headgate.state.backends import HASHMAP, ROCKSDB, backends_for
from headgate.state.stored import blob_format as blobs
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.testing.suites.stored_values import StoredValues, Verdict
from headgate.testing.suites.value_checks import check_same, same, snapshot_blob

T = TypeVar("T", default=Any)

_MEMORY: Final = 8 << 20
_VERDICTS: Final[dict[type[Compatibility], Verdict]] = {
    AsIs: Verdict.AS_IS,
    AfterMigration: Verdict.AFTER_MIGRATION,
    Reconfigured: Verdict.RECONFIGURED,
    Incompatible: Verdict.INCOMPATIBLE,
}
STATE: Final = "state"
"""Name of the one state of the tests; its keys are the numbers of the stored values."""

MAP_KEY: Final = "entry"


class SerializerUpgradeSuite(ABC, Generic[T]):
    """Tests that a new serializer reads, or refuses, the values that an older version has stored.

    Inherit from it under a name that pytest collects, once for each older version that checkpoints may still
    hold. Its stored values are best kept in a file, as that version will be gone one day.

    Example:
        >>> import headgate as hg
        >>> class TestIntsBecomeFloats(SerializerUpgradeSuite):
        ...     def stored(self):
        ...         return StoredValues.written_by(hg.serializer_for(int), [1, 2])
        ...     def serializer(self):
        ...         return hg.serializer_for(float)
        ...     def verdict(self):
        ...         return Verdict.AFTER_MIGRATION
        ...     def values(self):
        ...         return [1.0, 2.0]
        >>> TestIntsBecomeFloats().test_stored_values_are_read_or_refused()
    """

    @abstractmethod
    def stored(self) -> StoredValues:
        """Return the values that the older version has stored, best read by `StoredValues.from_file`."""

    @abstractmethod
    def serializer(self) -> TypeSerializer[T]:
        """Return a new instance of the present serializer at each call."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Return the verdict that the present serializer must give on the stored values."""

    def values(self) -> Sequence[T]:
        """Return what the present program must get for each stored value, in order; () if incompatible."""
        return ()

    def same(self, left: T, right: T) -> bool:
        """Return whether a decoded value counts as equal to the expected one; by default by :func:`same`."""
        return same(left, right)

    def test_the_verdict_is_the_expected_one(self) -> None:
        """The present serializer gives the expected verdict on the stored description of the values."""
        judged = judge(self.stored().description, self.serializer())
        assert _VERDICTS[type(judged)] is self.verdict(), f"{judged}; expected {self.verdict()}"

    def test_stored_values_are_read_or_refused(self) -> None:
        """Stored values are read as :meth:`values` gives them; incompatible ones raise UsageError."""
        stored, serializer = self.stored(), self.serializer()
        if self.verdict() is Verdict.INCOMPATIBLE:
            with pytest.raises(UsageError):
                reader_for(stored.description, serializer)
            return
        found = reader_for(stored.description, serializer)(stored.batch, stored.count)
        check_same(found, self._expected(), "values of the older version", self.same)

    @pytest.mark.parametrize("backend", [HASHMAP, ROCKSDB])
    def test_ss7_a_restored_job_goes_on_or_does_not_start(self, backend: str, tmp_path: Path) -> None:
        """In value state, and for a user's own serializer in list and map state, stored values are restored,
        changed, stored and restored again; incompatible ones raise UsageError with the state's name.
        """
        if backend == ROCKSDB and importlib.util.find_spec("rocksdict") is None:
            pytest.skip("the package rocksdict is not installed")
        backends = backends_for(backend, _MEMORY, str(tmp_path))

        def opened(kind: str) -> closing[KeyedBackend]:
            return closing(backends.open(_declared(kind, self.serializer()), (0, 0), 1))

        stored = self.stored()
        for kind in _kinds_of(stored):
            blob = _blob_of(stored, kind)
            if self.verdict() is Verdict.INCOMPATIBLE:
                with opened(kind) as made, pytest.raises(UsageError, match=f"state '{STATE}'"):
                    made.restore([blob])
                continue
            with opened(kind) as made:
                made.restore([blob])
                blob = self._changed_and_stored(made, kind)
            with opened(kind) as made:
                made.restore([blob])
                self._check(made, kind, [self._expected()[-1], *self._expected()[1:]])

    def _changed_and_stored(self, backend: KeyedBackend, kind: str) -> bytes:
        self._check(backend, kind, self._expected())
        backend.bind(0)
        _replace(backend.handles[STATE], kind, self._expected()[-1])
        backend.store()
        blob = snapshot_blob(backend.snapshot_sync())
        sections = {section.name: section for section in blobs.read_header(blobs.BytesBlob(blob))[0].sections}
        described = mappings_in(sections[STATE].schema, "of")[-1]
        judged = judge(described, self.serializer())
        assert not isinstance(judged, AfterMigration | Incompatible), (
            f"a {kind} state that was restored is stored in a format that the present serializer does not "
            f"write: {judged}"
        )
        return blob

    def _check(self, backend: KeyedBackend, kind: str, expected: list[T]) -> None:
        found: list[T] = []
        for key in range(len(expected)):
            backend.bind(key)
            found += _held(backend.handles[STATE], kind)
            backend.store()
        check_same(found, expected, f"restored {kind} state", self.same)

    def _expected(self) -> list[T]:
        values, count = list(self.values()), self.stored().count
        assert len(values) == count, f"values() gave {len(values)}, and {count} are stored; give each of them"
        return values


class _Verbatim(TypeSerializer[int]):
    """Encodes the numbers 0, 1, ... as the stored batch, so that it can be put into a state blob."""

    immutable = True

    def __init__(self, stored: StoredValues) -> None:
        self._stored = stored

    def encode_many(self, values: Sequence[int]) -> bytes:
        if list(values) != list(range(self._stored.count)):
            raise InternalError(f"{values!r:.80} do not number the stored values; please report this")
        return self._stored.batch

    def decode_many(self, data: Buffer, count: int) -> list[int]:
        raise InternalError("stored values are not read as their numbers; please report this")

    def snapshot(self) -> TypeSerializerSnapshot[int]:
        raise InternalError("stored values have the snapshot of their writer; please report this")


def _kinds_of(stored: StoredValues) -> list[str]:
    # Only a user's own serializer stores lists and maps value by value.
    if stored.description["kind"] != "custom":
        return [StateKind.VALUE]
    return [StateKind.VALUE, StateKind.LIST, StateKind.MAP]


def _blob_of(stored: StoredValues, kind: str) -> bytes:
    """Return a subtask's state blob, of one key group, in which key n holds the stored value n."""
    verbatim, numbers = _Verbatim(stored), list(range(stored.count))
    texts, of = serializer_for(str), [stored.description]
    if kind == StateKind.MAP:
        of = [texts.describe(), stored.description]
        values = MapSerializer(texts, verbatim).encode_many([{MAP_KEY: n} for n in numbers])
    elif kind == StateKind.LIST:
        values = ListSerializer(verbatim).encode_many([[n] for n in numbers])
    else:
        values = verbatim.encode_many(numbers)
    chunk = blobs.chunk_bytes(KEY_SERIALIZER.encode_many(numbers), values)
    chunks = [blobs.Chunk(0, 0, len(chunk), stored.count, crc32(chunk))]
    sections = [blobs.Section(STATE, {"kind": kind, "of": of}, chunks)]
    header = blobs.Header(1, 0, 0, KEY_SERIALIZER.describe(), sections, len(chunk))
    return blobs.preamble_and_header(header) + chunk


def _declared(kind: str, serializer: TypeSerializer[T]) -> dict[str, StateDescriptor]:
    if kind == StateKind.MAP:
        parts = StateDescriptor(STATE, kind, (str, Any), lambda: None, serializers=(None, serializer))
    else:
        parts = StateDescriptor(STATE, kind, (Any,), lambda: None, serializers=(serializer,))
    return {STATE: parts}


def _held(handle: Any, kind: str) -> list[Any]:
    if kind == StateKind.VALUE:
        return [handle.value]
    return handle.get() if kind == StateKind.LIST else [value for _, value in handle.items()]


def _replace(handle: Any, kind: str, value: T) -> None:
    if kind == StateKind.VALUE:
        handle.value = value
    elif kind == StateKind.LIST:
        handle.update([value])
    else:
        handle.put(MAP_KEY, value)
