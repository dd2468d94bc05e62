"""Settings of barrier alignment, from which the job master makes the barrier of each checkpoint.

mode             unaligned   savepoint   timeout   barrier
at-least-once    any         any         any       AT_LEAST_ONCE
exactly-once     off         any         any       ALIGNED, for good
exactly-once     on          yes         any       ALIGNED, for good
exactly-once     on          no          0         UNALIGNED
exactly-once     on          no          above 0   ALIGNED until it is older than the timeout
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.common.errors import ConfigError
from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder


@dataclass(frozen=True, slots=True)
class AlignmentSettings:
    """How a job's barriers travel; :meth:`barrier` makes one. ConfigError: unaligned without exactly-once."""

    exactly_once: bool = True  # channels wait for each other's barriers at all
    unaligned: bool = False  # barriers may overtake records
    timeout_ms: int = 0  # age above which a checkpoint that aligns overtakes; 0: from the start

    def __post_init__(self) -> None:
        if self.unaligned and not self.exactly_once:
            raise ConfigError(
                "unaligned checkpoints are on and the mode is at-least-once, which never waits; expected one "
                "of them, so choose exactly-once or turn unaligned checkpoints off"
            )
        if self.timeout_ms < 0:
            raise ConfigError(f"the aligned checkpoint timeout is {self.timeout_ms} ms; expected at least 0")

    def barrier(
        self, checkpoint: int, trigger_ms: int, savepoint: SavepointOrder | None = None, completed: int = 0
    ) -> Barrier:
        """Return the barrier that sources emit for `checkpoint`, triggered at `trigger_ms` (wall clock).

        `completed` is the newest complete checkpoint, 0 for none; `savepoint` has the options of a savepoint.

        Example:
            >>> AlignmentSettings(unaligned=True).barrier(7, 1000).alignment
            <Alignment.UNALIGNED: 'unaligned'>
            >>> AlignmentSettings(unaligned=True, timeout_ms=500).barrier(7, 1000).timeout_ms
            500
        """
        alignment, timeout_ms = self._options(savepoint is not None)
        return Barrier(checkpoint, trigger_ms, alignment, timeout_ms, savepoint, completed)

    def _options(self, savepoint: bool) -> tuple[Alignment, int | None]:
        if not self.exactly_once:
            return Alignment.AT_LEAST_ONCE, None
        if savepoint or not self.unaligned:
            return Alignment.ALIGNED, None
        if self.timeout_ms == 0:
            return Alignment.UNALIGNED, None
        return Alignment.ALIGNED, self.timeout_ms
