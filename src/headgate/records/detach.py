"""Copies of rows, so that no subtask changes a record that another subtask of its process reads.

Between processes records travel as bytes, so each receiver has its own. Within a process they would be the
same objects, and a result would depend on which subtasks share a process. So a record that may be mutable is
copied when it crosses an exchange, also a :class:`Row` of such values; within a chain it is handed over.
"""

from __future__ import annotations

import copy
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from headgate.common.process.process_exceptions import let_pass
from headgate.records.row import Columns, Row
from headgate.records.row_batch import RowBatch
from headgate.serde.codecs.dynamic import SCALARS, DynamicSerializer, NotPlainError
from headgate.serde.codecs.pickled import OwnClasses, decode_rows, encode_rows

_CODEC: Final = DynamicSerializer()


def detached(batch: RowBatch) -> RowBatch:
    """Return `batch` if its records are all scalars, or all tuples or all Rows of scalars; else a deep copy.

    Example:
        >>> shared = RowBatch([("a", 1)])
        >>> detached(shared) is shared
        True
        >>> mutable = RowBatch([{"n": 1}])
        >>> detached(mutable).records[0] is mutable.records[0]
        False
    """
    records = batch.records
    kinds = set(map(type, records))
    if kinds <= SCALARS or (all(issubclass(kind, Row) for kind in kinds) and _unchanging(records)):
        return batch
    if kinds == {tuple} and set(map(type, chain.from_iterable(records))) <= SCALARS:
        return batch
    return RowBatch(_copies(records, kinds), batch.timestamps, batch.watermarks)


def _unchanging(rows: list[Row]) -> bool:
    # scalars only, or views of columns without lists, structs and maps
    held = list(map(attrgetter("_c"), rows))
    views = [issubclass(kind, Columns) for kind in set(map(type, held))]
    if any(views):
        schemas = [columns._batch.schema for columns in set(held)] if all(views) else []
        return all(views) and not any(kind.num_fields for schema in schemas for kind in schema.types)
    return set(map(type, chain.from_iterable(map(Row.values, rows)))) <= SCALARS


def _copies(records: list[Any], kinds: set[type]) -> list[Any]:
    if kinds == {dict} and set(map(type, chain.from_iterable(map(dict.values, records)))) <= SCALARS:
        return list(map(dict.copy, records))
    try:
        return _CODEC.decode_many(_CODEC.encode_many(records), len(records))
    except NotPlainError:
        pass
    try:
        classes = OwnClasses()
        return decode_rows(encode_rows(records, classes), classes)
    except BaseException as error:  # whatever the records' classes do; nothing has happened yet
        let_pass(error)
        return [copy.deepcopy(record) for record in records]
