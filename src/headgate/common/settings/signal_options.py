"""Options for signals to the driver's process."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import ConfigOption, Duration, choice
from headgate.common.time import MINUTES


class OnSigterm(StrEnum):
    """What becomes of a job whose driver's process gets SIGTERM."""

    CANCEL = "cancel"
    SAVEPOINT = "savepoint"


ON_SIGTERM: Final = choice(
    "headgate.on-sigterm",
    OnSigterm.CANCEL,
    "What SIGTERM to the driver's process does to its job: cancel it, or stop it with a savepoint in "
    "execution.checkpointing.savepoint-dir, from which it can go on; with high availability it is left to a "
    "next driver instead.",
)
ON_SIGTERM_TIMEOUT: Final = ConfigOption(
    "headgate.on-sigterm.timeout",
    Duration(low_ms=1),
    10 * MINUTES,
    "How long a job may take to stop with a savepoint after SIGTERM; then it is cancelled.",
)
