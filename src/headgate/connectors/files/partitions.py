"""Hive-style folders of a files sink: in which folder a record is published, and what its file keeps of it.

A folder is named like `day=2024-05-06/country=FR`, as Spark names and reads them: null and empty text are
`__HIVE_DEFAULT_PARTITION__`, values have Spark's text, times in UTC, and some signs are escaped as in URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.common.plain_data import Plain
from headgate.connectors.fields import fields_of
from headgate.relational.casts import cast_values
from headgate.relational.spark_types import normal_type, text_of

DEFAULT: Final = "__HIVE_DEFAULT_PARTITION__"
"""Value of a folder for null and for empty text."""

_NAME_BYTES_MAX: Final = 255
"""Bytes that a folder's name may have on most disks."""
_ESCAPED: Final = re.compile(r'[\x00-\x1f"#%\'*/:=?\\\x7f{\[\]^]')
"""Signs that Spark escapes in names of folders, and NUL, which no name may have."""

Rows: TypeAlias = list[dict[str, Plain]]
Records: TypeAlias = "Rows | pa.RecordBatch"


def escaped(text: str) -> str:
    """Return a text as it stands in a folder's name: signs that Spark escapes become % and two hex digits.

    Example:
        >>> escaped("2024-05-06 07:00"), escaped("a/b=1%"), escaped("Zürich .. {x}")
        ('2024-05-06 07%3A00', 'a%2Fb%3D1%25', 'Zürich .. %7Bx}')
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


class _Grouped(NamedTuple):
    """Which rows go to which folder: names of folders, and the places of the rows of each, in order."""

    folders: list[str]
    places: list[np.ndarray[tuple[int], np.dtype[np.int64]]]


class Partitions:
    """Divides records by the columns `names`; the columns are in the folders' names, and not in the files."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)

    def split(self, records: list[Plain] | pa.RecordBatch) -> Iterator[tuple[str, Records]]:
        """Yield (folder, records) for each partition that occurs in a batch of records.
        Folders come in the order of their first records, and look like `day=2024-05-06/country=FR`. The
        records are dicts or, for a record batch, a batch, in their order and without the partition columns.

        Raises:
            UsageError: a record lacks a column, has only these columns, or a value that cannot name a folder.
        """
        if isinstance(records, pa.RecordBatch):
            yield from self._of_columns(records)
            return
        rows = [fields_of(record) for record in records]
        columns = [self._column(rows, name) for name in self._names]
        kept = [{name: row[name] for name in row if name not in self._names} for row in rows]
        if not all(kept):
            raise self._no_other(rows[0])
        grouped = self._grouped(columns)
        for folder, places in zip(grouped.folders, grouped.places, strict=True):
            yield folder, [kept[place] for place in places.tolist()]

    def _of_columns(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Records]]:
        names = batch.schema.names
        missing = [name for name in self._names if name not in names]
        if missing:
            raise UsageError(
                f"partition_by has {missing[0]!r}, and the records have {', '.join(names)}; partition by one "
                "of these"
            )
        kept = batch.drop_columns(self._names)
        if not kept.num_columns:
            raise self._no_other(names)
        grouped = self._grouped([batch.column(name) for name in self._names])
        for folder, places in zip(grouped.folders, grouped.places, strict=True):
            yield folder, kept if len(grouped.folders) == 1 else kept.take(pa.array(places))

    def _column(self, rows: Rows, name: str) -> pa.Array:
        for row in rows:
            if name not in row:
                raise UsageError(f"partition_by has {name!r}, and record {row!r:.200} has no such field")
        values = [row[name] for row in rows]
        places: dict[Any, list[int]] = {}
        for place, value in enumerate(values):
            places.setdefault(_kind_of(value), []).append(place)
        if len(places) == 1:
            return _array(name, values)
        # The text of a value must not depend on what else is in the batch: 1 beside 2.5 would be 1.0.
        texts = np.full(len(rows), None, object)
        for some in places.values():
            texts[some] = _texts(name, _array(name, [values[place] for place in some])).to_pylist()
        return pa.array(texts, pa.string())

    def _no_other(self, record: object) -> UsageError:
        return UsageError(
            f"partition_by has every column of {record!r:.200}, so that files would be empty; leave one out"
        )

    def _grouped(self, columns: list[pa.Array]) -> _Grouped:
        # Folders come in the order of their first rows.
        rows = len(columns[0])
        codes = np.zeros(rows, np.int64)
        names = np.full(rows, "", object)
        for name, column in zip(self._names, columns, strict=True):
            texts = _texts(name, column).dictionary_encode()
            folders = [*(_folder(name, text) for text in texts.dictionary.to_pylist()), _folder(name, None)]
            found = texts.indices.fill_null(len(folders) - 1).to_numpy(zero_copy_only=False)
            # Dense codes stay small, whatever the number of columns.
            _, first, codes = np.unique(codes * len(folders) + found, return_index=True, return_inverse=True)
            names = np.array([f"{names[row]}{folders[found[row]]}/" for row in first], object)[codes]
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        return _Grouped([str(names[row])[:-1] for row in first], parts)


def _kind_of(value: object) -> tuple[type, object]:
    # Arrow puts values of equal keys into one type without changing their text.
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else None
    return type(value), exponent


def _array(name: str, values: list[Plain]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise UsageError(
            f"partition_by has {name!r}, and its values are of no type of columns ({problem}); map them to "
            "text"
        ) from problem


def _texts(name: str, column: pa.Array) -> pa.Array:
    kind = normal_type(column.type)
    if kind is None or pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise UsageError(
            f"partition_by has {name!r}, which is {text_of(column.type)}; expected text, numbers, dates, "
            "times or truth values"
        )
    texts = cast_values(column.cast(kind), pa.string(), strict=True)
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _folder(name: str, text: str | None) -> str:
    folder = f"{escaped(name)}={escaped(text) if text else DEFAULT}"
    if len(folder.encode("utf-8", "surrogatepass")) > _NAME_BYTES_MAX:
        raise UsageError(
            f"partition_by has {name!r}, and a record has {text!r:.80} in it, whose folder's name would have "
            f"more than {_NAME_BYTES_MAX} bytes; partition by something shorter"
        )
    return folder
