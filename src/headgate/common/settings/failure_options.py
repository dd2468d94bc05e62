"""The options of failures that are always the same; the other options of restarts are in `options.py`."""

from __future__ import annotations

from enum import Enum
from typing import Final

from headgate.common.settings.config_option import Choice, ConfigOption


class SameFailureAction(Enum):
    """`restart-strategy.same-failure-limit.action`."""

    REPORT = "report"
    FAIL = "fail"


SAME_FAILURE_ACTION: Final = ConfigOption(
    "restart-strategy.same-failure-limit.action",
    Choice(SameFailureAction),
    SameFailureAction.REPORT,
    "What follows when the same failure (operator, exception, line of the program) came three times since "
    "the same checkpoint: report says so and goes on as the restart strategy has it; fail ends the job.",
)
