"""Decodes JSON lines to structs of a schema's fields, where they surely mean what Arrow's reader reads.

msgspec is several times as fast as Arrow's reader. What it cannot decide is left to Arrow: `decode` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from headgate.common.decoders import json_decoder
from headgate.connectors.files.json_certain import names_are_single
from headgate.connectors.files.json_decoder import UNREADABLE, Records

if TYPE_CHECKING:
    from typing_extensions import TypeForm

_LESSONS_MAX: Final = 16
_OTHERS_MAX: Final = 64
_SAMPLE: Final = 16
_NAMEABLE: Final = re.compile(r'[^"\\\x00-\x1f]*')


def is_nameable(name: str) -> bool:
    """Return whether msgspec's structs can have a field that is called so in JSON."""
    return _NAMEABLE.fullmatch(name) is not None


class RowDecoder:
    """Decodes blocks of lines to structs with an attribute for each field of `kinds`; see :func:`values_of`.

    It learns from the lines which fields may be missing, and which other members there are. Those are
    decoded, too: then the number of all members tells whether a name came twice.

    Arguments:
        kinds: name of a field -> type that msgspec decodes; its values may be null.
    """

    def __init__(self, kinds: Mapping[str, TypeForm[Any]]) -> None:
        self._kinds = kinds
        self._others: list[str] = []
        self._optional: set[str] = set()  # names that were missing in a line
        self._lessons, self._taught = 0, False
        self._read: Callable[[bytes], Records] | None = None
        self._read_members = json_decoder(dict[str, Any]).decode_lines

    def decode(self, data: bytes) -> Records | None:
        """Return the structs of a block of lines; None: Arrow has to read it.
        It is not certain that each line is one record.
        """
        learned = not self._taught and self._learn(data)
        rows = self._decoded(data)
        if rows is None and not learned and self._learn(data):
            rows = self._decoded(data)
        return rows if rows and self._names_are_single(data, rows) else None

    def decode_again(self, data: bytes) -> Records:
        """Return the structs of lines that were all decoded before, in whatever blocks."""
        kinds = self._kinds.items()
        return _decoder_of(tuple((name, kind | None, True) for name, kind in kinds))(data)

    def values(self, rows: Records, at: int) -> list[Any]:
        """Return the values of field number `at` in structs of `decode`; None if it is null or missing."""
        values = values_of(rows, at)
        return [None if value is UNSET else value for value in values] if self._optional else values

    def _decoded(self, data: bytes) -> Records | None:
        if self._read is None:
            self._read = self._new_decoder()
        try:
            return self._read(data)
        except UNREADABLE:
            return None

    def _learn(self, data: bytes) -> bool:
        """Return whether the lines have members that were not known, or lack some that none lacked before."""
        if self._lessons == _LESSONS_MAX:
            return False
        self._lessons += 1
        try:
            found = self._read_members(data)
        except UNREADABLE:
            return False
        before = len(self._others), len(self._optional)
        if found:
            self._taught = True
            self._note(found)
        if before == (len(self._others), len(self._optional)):
            return False
        self._read = None
        return True

    def _note(self, found: Sequence[Mapping[str, Any]]) -> None:
        for line in found[:_SAMPLE]:
            flat = [name for name, value in line.items() if not isinstance(value, dict | list)]
            known = {*self._kinds, *self._others}
            new = [name for name in flat if name not in known and is_nameable(name)]
            self._others += new[: _OTHERS_MAX - len(self._others)]
        everywhere = set(found[0]).intersection(*found)
        self._optional.update({*self._kinds, *self._others} - everywhere)

    def _new_decoder(self) -> Callable[[bytes], Records]:
        kinds: dict[str, Any] = {name: kind | None for name, kind in self._kinds.items()}
        kinds.update(dict.fromkeys(self._others, Any))
        return _decoder_of(tuple((name, kind, name in self._optional) for name, kind in kinds.items()))

    def _names_are_single(self, data: bytes, rows: Records) -> bool:
        number = [
            len(rows) - _missing(rows, at) if name in self._optional else len(rows)
            for at, name in enumerate([*self._kinds, *self._others])
        ]
        return names_are_single(data, dict(zip(self._kinds, number)), sum(number[len(self._kinds) :]))


@lru_cache(maxsize=64)
def _decoder_of(members: tuple[tuple[str, Any, bool], ...]) -> Callable[[bytes], Records]:
    """Return a decoder of lines to structs of these members: name, type, whether it may be missing.
    There is one for all files of a directory.
    """
    fields: list[Any] = []
    for at, (_, kind, optional) in enumerate(members):
        fields.append((f"f{at}", kind | UnsetType, UNSET) if optional else (f"f{at}", kind))
    names = {f"f{at}": name for at, (name, _, _) in enumerate(members)}
    struct = msgspec.defstruct("Line", fields, rename=names, kw_only=True, gc=False)
    return json_decoder(struct).decode_lines


def values_of(rows: Records, at: int) -> list[Any]:
    """Return the values of field number `at` in structs of a `RowDecoder`; UNSET where it is missing."""
    return _getter(at)(rows)


def _missing(rows: Records, at: int) -> int:
    return [*map(type, values_of(rows, at))].count(UnsetType)


@lru_cache(maxsize=1024)
def _getter(at: int) -> Callable[[Records], list[Any]]:
    # The interpreter remembers where an attribute is that the code names: a third of the time of `getattr`.
    return eval(f"lambda rows: [row.f{at} for row in rows]")  # type: ignore[no-any-return]  # noqa: S307
