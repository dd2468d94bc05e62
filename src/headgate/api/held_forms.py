"""Decides how a held record is stored: a bad record is often not of the type that the program declares.

A record that is of that type is stored in the field `typed`. Another one is stored in the field `other`: as
plain data or, if it is an instance of a declared class, as the values of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.api.held_states import DICT_OF_ROW, FIELDS, PLAIN
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.records.row import Row
from headgate.serde.codecs.type_codec import Field, FormSerializer, Record
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer

_UNSET: Final = object()
"""Stands for a field without a value, and cannot be stored."""

Times = tuple[int | None, int | None, int]
"""Event time and watermark of a record (None: it has none), and when it came by the wall clock, in ms."""


class HeldForms:
    """Makes stored records of type `kept` of an operator's records, and back. `entries` serializes a map of
    such records; `holder` names the operator in messages.
    """

    def __init__(self, kept: Any, declared: Hint, entries: TypeSerializer[Any], holder: str) -> None:
        self._kept, self._entries, self._holder = kept, entries, holder
        self._classes = dict(_record_classes(declared))

    def stored(self, record: Any, times: Times) -> Any:
        """Return what to store of a record; UsageError: no form of it can be stored."""
        row = isinstance(record, Row)
        plain, form = (record.as_dict(), DICT_OF_ROW) if row else (record, PLAIN)
        typed = self._kept([plain], None, form, *times)
        # Each record is checked, as one that does not fit would fail all checkpoints from now on.
        if self._fits(typed):
            return typed
        other = self._kept([], plain, form, *times)
        if self._fits(other):
            return other
        declared = self._classes.get(type(record))
        if declared is not None:
            values = {field.name: getattr(record, field.name, _UNSET) for field in declared.fields}
            fields = self._kept([], [declared.names[0], values], FIELDS, *times)
            if self._fits(fields):
                return fields
        kind = type(record).__qualname__
        raise UsageError(
            f"{self._holder}, which holds records of a key, is to keep a {kind} that state cannot "
            f"hold; annotate the function that makes it to return {kind}, and its fields with the types that "
            "they have, make dicts of plain values, or use hg.quarantine without hold"
        )

    def record_in(self, entry: Any) -> Any:
        """Return the record of an entry as the function gets it."""
        plain = entry.typed[0] if entry.typed else entry.other
        if entry.form == DICT_OF_ROW:
            return Row.of(**plain)
        return plain if entry.form == PLAIN else self._made(*plain)

    def _fits(self, kept: Any) -> bool:
        try:
            self._entries.encode_checked([{0: kept}])
        except UsageError:
            return False
        return True

    def _made(self, name: str, values: dict[str, Any]) -> Any:
        for record in self._classes.values():
            if name in record.names:
                return record.build([self._value_of(field, values) for field in record.fields])
        raise UsageError(
            f"{self._holder} holds a record of class {name}, which the program does not declare any more as "
            "the type of its records; declare it, until the record is released"
        )

    def _value_of(self, field: Field, values: dict[str, Any]) -> Any:
        found = next((name for name in (field.name, *field.former) if name in values), None)
        if found is not None:
            return values[found]
        if field.default is not None:
            return field.default()
        raise UsageError(
            f"{self._holder} holds a record without a value of its field {field.name!r}; give the field a "
            "default"
        )


def _record_classes(declared: Hint) -> Iterator[tuple[type, Record]]:
    """Yield the classes with fields that records of the type `declared` may be instances of, not dicts."""
    serializer = serializer_for(declared)
    if isinstance(serializer, FormSerializer):
        for form in (serializer.form, *serializer.form.inner):
            if form.record is not None:
                for cls in form.classes - {dict}:
                    yield cls, form.record
