"""Conditions that partners of a join have to meet besides equal columns: of which pairs they are true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.evaluation import evaluate, first_failing
from headgate.relational.resolved import Typed
from headgate.relational.rules import RowsFailed
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import row_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class Residual:
    """A condition of the columns `pairs` of both sides; null is false."""

    def __init__(self, context: OperatorContext, pairs: pa.Schema, condition: Typed) -> None:
        self._context, self._pairs, self._condition = context, pairs, condition

    def true_of(self, columns: Sequence[pa.Array], times: Int64s | None = None) -> NDArray[np.bool_]:
        """Return of which pairs the condition is true; `times` are event times (ms). A failure of the
        condition names the pair.
        """
        batch = pa.RecordBatch.from_arrays(list(columns), schema=self._pairs)
        try:
            found = pc.fill_null(evaluate(self._condition, batch), False)
        except RowsFailed as failed:
            row = first_failing(self._condition, batch)
            raise row_error(self._context, self._condition, failed, ArrowBatch(batch, times), row) from None
        keep: NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
        return keep
