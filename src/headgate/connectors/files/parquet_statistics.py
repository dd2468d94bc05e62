"""Says by the statistics of a Parquet file which of its row groups have no row that passes all tests.

Statistics are believed only where they are surely bounds in the order in which the table compares: of the
type that the test is for, of signed numbers, and of other values only from writers known to order them right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.relational.column_tests import ColumnTest, Known

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_CUT_BYTES: Final = 64
"""Length from which a text is not believed to be a bound: writers may have cut it there."""

_MR_WRITER: Final = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_ORDERING_WRITERS: Final = ("parquet-cpp-arrow ", "Polars ")


class RowGroupTests:
    """The tests of one Parquet file that can be made by its statistics; the others count as passed."""

    def __init__(self, file: pq.ParquetFile, tests: Sequence[ColumnTest]) -> None:
        self._metadata = file.metadata
        places = ((test, _leaf(file, test)) for test in tests)
        self._tests = [(test, leaf) for test, leaf in places if leaf is not None]

    def may_pass(self, group: int) -> bool:
        """Return whether a row of row group `group`, from 0, may pass all tests."""
        if not self._tests:
            return True
        chosen = self._metadata.row_group(group)
        return all(
            _may_pass(test, chosen.column(leaf).statistics, chosen.num_rows) for test, leaf in self._tests
        )


def _may_pass(test: ColumnTest, statistics: pq.Statistics | None, rows: int) -> bool:
    if statistics is None:
        return True
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls == rows:
        return test.passes(None)
    if (nulls != 0 and test.passes(None)) or test.comparison == "is not null":
        return True
    if test.comparison == "is null":
        return False
    try:
        bounds = _bounds(statistics)
        return bounds is None or test.may_pass(*bounds)
    except (OverflowError, TypeError, ValueError):  # a bound that Python has no value for
        return True


def _bounds(statistics: pq.Statistics) -> tuple[Known, Known] | None:
    if not statistics.has_min_max:
        return None
    least, greatest = statistics.min, statistics.max
    for bound in (least, greatest):
        raw = bound.encode() if isinstance(bound, str) else bound
        if isinstance(raw, bytes) and len(raw) >= _CUT_BYTES:
            return None
    return least, greatest


def _leaf(file: pq.ParquetFile, test: ColumnTest) -> int | None:
    """Return the place of the test's column among the file's leaf columns; None: it cannot be tested."""
    fields = file.schema_arrow
    places = fields.get_all_field_indices(test.column)
    metadata = file.metadata
    leaves = [each for each in range(metadata.num_columns) if file.schema.column(each).path == test.column]
    if len(places) != 1 or len(leaves) != 1 or not _is_read_as(fields.field(places[0]).type, test.type):
        return None
    ordered = _signed(fields.field(places[0]).type, file.schema.column(leaves[0]).physical_type)
    return leaves[0] if ordered or _orders_all(metadata.created_by or "") else None


def _is_read_as(kind: pa.DataType, wanted: pa.DataType) -> bool:
    import pyarrow as pa

    from headgate.relational.spark_types import normal_type

    # Nanoseconds are rounded when the table reads them.
    rounded = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return not rounded and normal_type(kind) == wanted


def _signed(kind: pa.DataType, physical: str) -> bool:
    import pyarrow as pa

    return physical in ("BOOLEAN", "INT32", "INT64") and not pa.types.is_unsigned_integer(kind)


def _orders_all(writer: str) -> bool:
    """Return whether a program of this name in the file orders all values as they are compared.

    The statistics of older programs compare texts and decimals by signed bytes.
    """
    java = _MR_WRITER.match(writer)
    if java is not None:
        return (int(java[1]), int(java[2])) >= (1, 10)
    return writer.startswith(_ORDERING_WRITERS)
