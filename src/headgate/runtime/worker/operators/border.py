"""What a user's functions have made, looked at before it leaves their chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.worker.operators.operator_contract import R, Receiver


class Border(Generic[R]):
    """Stands before a receiver of the framework's; see `common.ports.UserCode.refuse_leaving`.

    `receiver`: takes what is not refused; `refuse`: raises where a record must not leave.
    """

    def __init__(self, receiver: Receiver, refuse: Callable[[Iterable[R]], None]) -> None:
        self._receiver, self._refuse = receiver, refuse
        self.watermark, self.idle, self.end_of_data = receiver.watermark, receiver.idle, receiver.end_of_data

    def process(self, batch: Batch) -> None:
        """See `operators.base.Receiver`."""
        if isinstance(batch, RowBatch):  # columns are Arrow's, which every copy reads
            self._refuse(batch.records)
        self._receiver.process(batch)
