"""Options of restarts after a failure."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final

from headgate.common.settings.config_option import (
    Choice,
    ConfigOption,
    Duration,
    Integer,
    Number,
    OptionalKind,
)
from headgate.common.time import HOURS, MINUTES, SECONDS


class RestartStrategyType(StrEnum):
    """Who decides whether and when a failed job starts again."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class SameFailureAction(Enum):
    """`restart-strategy.same-failure-limit.action`."""

    REPORT = "report"
    FAIL = "fail"


RESTART_STRATEGY: Final = ConfigOption[RestartStrategyType | None](
    "restart-strategy.type",
    OptionalKind(Choice(RestartStrategyType), word="unset"),  # "none" is one of the strategies
    None,
    "Who decides on restarts; unset means exponential-delay when checkpoints are on, and none otherwise.",
)
FIXED_DELAY_ATTEMPTS: Final = ConfigOption(
    "restart-strategy.fixed-delay.attempts",
    Integer(1),
    1,
    "How often the job is started again before it fails for good.",
)
FIXED_DELAY_DELAY: Final = ConfigOption(
    "restart-strategy.fixed-delay.delay",
    Duration(),
    1 * SECONDS,
    "Time between a failure and the restart.",
)
FAILURE_RATE_MAX: Final = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    Integer(1),
    1,
    "How many failures within the interval are still answered by a restart.",
)
FAILURE_RATE_INTERVAL: Final = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval",
    Duration(low_ms=1),
    1 * MINUTES,
    "Time over which failures are counted.",
)
FAILURE_RATE_DELAY: Final = ConfigOption(
    "restart-strategy.failure-rate.delay",
    Duration(),
    1 * SECONDS,
    "Time between a failure and the restart.",
)
EXPONENTIAL_INITIAL_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    Duration(low_ms=1),
    1 * SECONDS,
    "Time between the first failure and its restart.",
)
EXPONENTIAL_MAX_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff",
    Duration(low_ms=1),
    1 * MINUTES,
    "Longest time between a failure and its restart.",
)
EXPONENTIAL_MULTIPLIER: Final = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    Number(1.0),
    1.5,
    "Factor by which the time grows with every failure.",
)
EXPONENTIAL_JITTER: Final = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    Number(0.0, 1.0),
    0.1,
    "Share of the time that is added or taken away at random.",
)
EXPONENTIAL_RESET_THRESHOLD: Final = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    Duration(low_ms=1),
    1 * HOURS,
    "After running this long without a failure the time starts again at the initial backoff.",
)
EXPONENTIAL_ATTEMPTS: Final = ConfigOption[int | None](
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    OptionalKind(Integer(1)),
    None,
    "How many restarts are made before the time is reset; none is no limit.",
)

SAME_FAILURE_ACTION: Final = ConfigOption(
    "restart-strategy.same-failure-limit.action",
    Choice(SameFailureAction),
    SameFailureAction.REPORT,
    "What follows when the same failure (operator, exception, line of the program) came three times since "
    "the same checkpoint: report says so and goes on as the restart strategy has it; fail ends the job.",
)
