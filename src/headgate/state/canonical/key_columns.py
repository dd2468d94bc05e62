"""The key columns of a canonical table: typed for keys of the first key's type, bytes for all others.

Keys have no declared type, so the type is taken from the first key of a table. The column of bytes is
always there: another subtask, or the next row, may have a key of another type.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Mapping, Sequence
from itertools import compress
from typing import Final
from uuid import UUID

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.common.keys.key_types import Shape, checked_keys, shape_of
from headgate.common.plain_data import Description, mappings_in, text_in
from headgate.serde.arrow.arrow_columns import RAW, ArrowColumn
from headgate.serde.arrow.arrow_types import codec_of
from headgate.serde.arrow.stored_values import Beyond, close_batch, open_batch
from headgate.serde.codecs.containers import tuple_form
from headgate.serde.codecs.dynamic import DynamicSerializer, to_tagged
from headgate.serde.codecs.primitives import BY_KIND, PRIMITIVES
from headgate.serde.codecs.type_codec import Form, FormSerializer

KEY: Final = "key"
_DYNAMIC: Final = DynamicSerializer()
_ANY: Final = ArrowColumn(KEY, _DYNAMIC.describe())
_ANOTHER: Final = Beyond(None)
"""In place of a key of another type, which becomes null in the typed column."""
_TYPES: Final = frozenset({int, str, bytes, bool, float, dt.datetime, dt.date, UUID})


def _form_of_shape(shape: Shape) -> Form | None:
    if not isinstance(shape, tuple):
        return PRIMITIVES[shape] if shape in _TYPES else None
    parts = [_form_of_shape(part) for part in shape]
    return tuple_form([part for part in parts if part is not None]) if None not in parts else None


def _form_of(stored: Description) -> Form:
    kind = text_in(stored, "kind")
    return tuple_form(list(map(_form_of, mappings_in(stored, "of")))) if kind == "tuple" else BY_KIND[kind]


def _shape_of_form(form: Form) -> Shape:
    if form.description["kind"] == "tuple":
        return tuple(map(_shape_of_form, form.inner))
    (cls,) = form.classes
    return cls


def key_description(key: Hashable) -> Description | None:
    """Return the description of the typed column for keys of this one's type; None: no column can hold them.

    Example:
        >>> key_description(("a", 1))["kind"], key_description(()) is None
        ('tuple', True)
    """
    form = _form_of_shape(shape_of(key))
    return None if form is None or codec_of(form.description) is None else form.description


class KeyColumns:
    """Converts the keys of a canonical table to Arrow columns and back; the writer and the reader have one
    each. Keys of the type `stored` are in column `key` (None: no such column), others as bytes in `key_raw`.
    """

    def __init__(self, stored: Description | None) -> None:
        self._typed = None if stored is None else _TypedKeys(stored)
        self.fields = [*([] if self._typed is None else self._typed.fields), pa.field(KEY + RAW, pa.binary())]

    def arrays(self, keys: Sequence[Hashable]) -> list[pa.Array]:
        typed = None if self._typed is None else self._typed.array(keys)
        left = [True] * len(keys) if typed is None else typed.is_null().to_pylist()
        tagged = _ANY.arrays([to_tagged(key) for key in compress(keys, left)])[0]
        cells = iter(tagged.to_pylist())
        raw = pa.array([next(cells) if one else None for one in left], pa.binary())
        return [raw] if typed is None else [typed, raw]

    def keys(self, columns: Mapping[str, pa.Array]) -> list[Hashable]:
        """Return the keys of rows out of a table's columns, by name; StorageError: a row has none or two."""
        raw = columns[KEY + RAW]
        typed = None if self._typed is None else columns[KEY]
        present = [False] * len(raw) if typed is None else typed.is_valid().to_pylist()
        bytes_ = raw.drop_null()
        if sum(present) + len(bytes_) != len(raw):
            raise StorageError(
                "a table of state has a row with no key, or with two; it was not written by Headgate"
            )
        others = _ANY.values({KEY + RAW: bytes_})
        from_bytes = iter(checked_keys(_DYNAMIC.decode_many(close_batch(_ANY.stored, others), len(others))))
        if self._typed is None or typed is None:
            return list(from_bytes)
        known = iter(self._typed.keys(typed.drop_null()))
        return [next(known) if one else next(from_bytes) for one in present]


class _TypedKeys:
    """Converts keys of the type `stored` to an Arrow column of that type, and back."""

    def __init__(self, stored: Description) -> None:
        form = _form_of(stored)
        self._serializer: FormSerializer[Hashable] = FormSerializer(form)
        self._shape = _shape_of_form(form)
        self._column = ArrowColumn(KEY, form.description)
        self.fields = self._column.fields[:1]

    def array(self, keys: Sequence[Hashable]) -> pa.Array:
        # null where a key is of another type or does not fit
        alike = [shape_of(key) == self._shape for key in keys]
        same = list(compress(keys, alike))
        plain = iter(open_batch(self._column.stored, self._serializer.encode_many(same), len(same)))
        return self._column.arrays([next(plain) if one else _ANOTHER for one in alike])[0]

    def keys(self, typed: pa.Array) -> list[Hashable]:
        plain = self._column.values({KEY: typed})
        return self._serializer.decode_many(close_batch(self._column.stored, plain), len(plain))
