"""Values as Arrow record batches and back, as tables of state hold them, for tests of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headgate.common.plain_data import Description
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.stored_values import close_batch, open_batch
from headgate.serde.evolution.judging_types import reader_for
from headgate.serde.serializer import TypeSerializer


def to_arrow(serializer: TypeSerializer[Any], values: Sequence[Any], name: str = "value") -> Any:
    """Values as an Arrow record batch of one or two columns."""
    column = ArrowColumn(name, serializer.describe())
    plain = open_batch(column.stored, serializer.encode_checked(values), len(values))
    return pa.RecordBatch.from_arrays(column.arrays(plain), schema=pa.schema(column.fields))


def from_arrow(
    batch: Any, stored: Description, serializer: TypeSerializer[Any], name: str = "value"
) -> list[Any]:
    """The values of :func:`to_arrow`, as a serializer's type declares them."""
    column = ArrowColumn(name, stored)
    plain = column.values({field: batch.column(field) for field in batch.schema.names})
    return reader_for(stored, serializer)(close_batch(stored, plain), len(plain))
