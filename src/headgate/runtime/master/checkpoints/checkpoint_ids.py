"""Reserves ids of checkpoints, so that no two drivers of a job use the same id.

The log has ids of completed checkpoints only, and grants each driver that claims it the next `IDS_AHEAD` ids
(`checkpoint.store.store_contract`). Once half of them are used, more are reserved in the background.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import IDS_AHEAD, CommitPermit
from headgate.common.errors import OperatingError
from headgate.common.ids import CheckpointId
from headgate.common.ports import Background

_LOG: Final = logging.getLogger("headgate.checkpoints")


class CheckpointIds:
    """Reserves checkpoint ids in the log, so that no two drivers use one; without a log it does nothing."""

    def __init__(
        self,
        service: CheckpointService | None,
        permit: CommitPermit | None,
        background: Background,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._service, self._permit = service, permit
        self._background, self._post = background, post
        self._end: int | None = None
        self._reserving = False

    def require(self, checkpoint: int) -> None:
        """Raise OperatingError unless this id is reserved; reserve more, in time, in the background."""
        if self._service is None or self._permit is None:
            return
        if self._end is None:
            self._end = checkpoint + IDS_AHEAD
        if checkpoint + IDS_AHEAD // 2 >= self._end and not self._reserving:
            self._reserve(self._service, self._permit, checkpoint + IDS_AHEAD)
        if checkpoint >= self._end:
            raise OperatingError(
                f"id {checkpoint} is not reserved yet in the store of completed checkpoints, and another "
                "driver might use it again; see the log for why"
            )

    def _reserve(self, service: CheckpointService, permit: CommitPermit, end: int) -> None:
        self._reserving = True

        def done(_: None, error: BaseException | None) -> None:
            self._post(lambda: self._reserved(end, error))

        self._background.submit(lambda: service.reserve_ids(permit, CheckpointId(end)), done)

    def _reserved(self, end: int, error: BaseException | None) -> None:
        self._reserving = False
        if error is None:
            self._end = end
        else:
            # The next completion of a checkpoint meets the same, and decides what follows.
            _LOG.warning("ids of checkpoints below %d could not be reserved: %s", end, error)
