"""Values of several types in one column family: the first byte of each is the number of its type. So what an
earlier program wrote need not be rewritten before processing: readers of its types are kept as long as
needed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description
from headgate.serde.codecs.singles import Singles
from headgate.serde.evolution.older_shapes import Reader
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Reconfigured, compare
from headgate.state.stored.blob_format import Section
from headgate.state.stored.value_readers import Target, value_reader, value_verdict

NUMBERS: Final = 256
"""Types that one byte can number."""


class Older(msgspec.Struct, frozen=True):
    """A type that an earlier program declared for a state, and that some stored values may still have."""

    number: int  # first byte of the values
    schema: Description
    changes: tuple[str, ...] = ()  # what reading them as the newest type does to them, in words


class StoredVersions(msgspec.Struct, frozen=True):
    """The types of the values in a checkpoint's column family: number `current`, and older ones."""

    current: int = 0
    older: tuple[Older, ...] = ()


class _Known(NamedTuple):
    schema: Description
    changes: tuple[str, ...]
    read: Reader


class Versions:
    """The types of the values in one column family: the declared one, and those of values still to be
    rewritten. A layout has one: it encodes in the declared type, number `current`, and decodes every known
    type as that.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        # Replaced and never changed: a snapshot in the background may hold it.
        self._older: dict[int, _Known] = {}
        self._singles = Singles(target.serializer)
        self._use(0)

    def _use(self, number: int) -> None:
        self.current, self.prefix = number, bytes((number,))

    @classmethod
    def restored(cls, name: str, target: Target, schema: Description, stored: StoredVersions) -> Versions:
        """Return the types of the values in a restored column family, all of them readable as the declared
        type. `schema`: the newest type in the checkpoint; `stored`: its number, and older types. UsageError:
        a type does not fit, or all 256 numbers are taken. It may reconfigure a serializer that the program
        gave.
        """
        made = cls(name, target)
        # The newest first: where a serializer is reconfigured, it is by what it has to follow.
        types = {stored.current: schema} | {older.number: older.schema for older in stored.older}
        readers = {number: value_reader(Section(name, each, []), target) for number, each in types.items()}
        verdicts = {number: value_verdict(each, target) for number, each in types.items()}
        # After all verdicts, as each may have reconfigured the declared serializer.
        same = [n for n, each in types.items() if isinstance(compare(each, target.schema), AsIs)]
        for older in stored.older:
            if older.number not in same:
                _check_way(name, older, verdicts[stored.current], verdicts[older.number])
        made._use(same[0] if same else _free_number(name, types))
        made._older = {
            number: _Known(each, _changes(verdicts[number]), readers[number])
            for number, each in types.items()
            if number != made.current
        }
        return made

    @property
    def older(self) -> bool:
        return bool(self._older)

    def encode(self, values: Sequence[Any]) -> list[bytes]:
        """Return for each value its type's number and the encoded value, as stored bytes; types are not
        checked.
        """
        # Batches are what other shapes and versions of a type are read from.
        prefix = self.prefix
        return [prefix + data for data in self._singles.encode(values)]

    def encode_checked(self, values: Sequence[Any]) -> list[bytes]:
        try:
            self.target.serializer.encode_checked(values)
            return self.encode(values)
        except UsageError as error:
            raise UsageError(f"state {self.name!r} cannot be stored: {error}") from None

    def decode(self, stored: Sequence[bytes]) -> list[Any]:
        """Return the values in stored bytes of any known types, as values of the declared type, in the same
        order. StorageError: one is damaged or of no known type; UsageError: an older value does not convert.
        """
        if self._older or not all(data.startswith(self.prefix) for data in stored):
            return [self.decode_one(data) for data in stored]
        return self._singles.decode([data[1:] for data in stored])

    def decode_one(self, data: bytes) -> Any:
        """Return the value in stored bytes of any type, as of the declared type; StorageError: damaged."""
        prefix = data[:1]
        if prefix == self.prefix:
            return self._singles.decode((data[1:],))[0]
        known = self._older.get(prefix[0]) if prefix else None
        if known is None:
            raise self.unknown(prefix)
        return known.read(memoryview(data)[1:], 1)[0]

    def unknown(self, prefix: bytes) -> StorageError:
        known = ", ".join(map(str, sorted([self.current, *self._older])))
        return StorageError(
            f"a stored value begins with byte {prefix[0] if prefix else None}, and the types of its state "
            f"have numbers {known}; it is damaged"
        )

    def renumbered(self, others: Versions) -> dict[bytes, bytes]:
        """Add the types of `others`, whose stored values are copied here, to the older types of this column
        family. Return which first byte replaces that of each copied value; UsageError: over 256 types.
        """
        numbers = {others.prefix: self.prefix}
        for number, known in others._older.items():
            numbers[bytes((number,))] = bytes((self._add(known),))
        return numbers

    def _add(self, known: _Known) -> int:
        for number, mine in self._older.items():
            if isinstance(compare(known.schema, mine.schema), AsIs):
                return number
        number = _free_number(self.name, {self.current, *self._older})
        self._older = self._older | {number: known}
        return number

    def forget_older(self) -> None:
        """Drop the older types; the caller has rewritten all their values."""
        self._older = {}

    def at_snapshot(self) -> Versions:
        return copy.copy(self)

    def stored(self) -> StoredVersions:
        older = (Older(n, dict(known.schema), known.changes) for n, known in self._older.items())
        return StoredVersions(self.current, tuple(older))


def decoded(versions: Versions, where: str, data: bytes) -> Any:
    """Return the value, as of the declared type, in the stored bytes `data` of one entry. Errors name the
    state: StorageError, with `where` (the key or its group): damaged; UsageError: it does not convert.
    """
    try:
        return versions.decode_one(data)
    except StorageError as error:
        raise StorageError(f"state {versions.name!r}, {where}: {error}") from None
    except UsageError as error:
        raise UsageError(f"state {versions.name!r} of the checkpoint cannot be read: {error}") from None


def _free_number(name: str, taken: Iterable[int]) -> int:
    used = set(taken)
    number = next((number for number in range(NUMBERS) if number not in used), None)
    if number is None:
        raise UsageError(
            f"state {name!r} of the checkpoint holds values of {len(used)} types; let the program that took "
            "it run until its log says that they are rewritten, and change the type then"
        )
    return number


def _changes(verdict: Compatibility) -> tuple[str, ...]:
    return verdict.changes if isinstance(verdict, AfterMigration | Reconfigured) else ()


def _of_fields(changes: Iterable[str]) -> set[str]:
    # without those of a field's type (": int became float")
    return {change for change in changes if change.rpartition(": ")[2].startswith("field ")}


def _check_way(name: str, older: Older, newest: Compatibility, direct: Compatibility) -> None:
    # A field that was renamed twice, or removed and came back, would read as an added or a kept one.
    steps, at_once = _of_fields({*older.changes, *_changes(newest)}), _of_fields(_changes(direct))
    if isinstance(direct, AfterMigration) and at_once != steps:
        lost = sorted(steps ^ at_once)
        raise UsageError(
            f"state {name!r} of the checkpoint holds values that were not rewritten yet to the type that its "
            f"program declared, and this one would read them in another way ({'; '.join(lost)}); let that "
            "program run until its log says that they are rewritten, and change the type then"
        )
