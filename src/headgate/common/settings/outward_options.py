"""Options for what a job tells the outside: the form of its log lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import (
    Choice,
    ConfigOption,
    Duration,
    OptionalKind,
    optional_text,
)


class LogFormat(StrEnum):
    """The form of log lines: for people, or one JSON object each."""

    TEXT = "text"
    JSON = "json"


LOGS_FORMAT: Final[ConfigOption[LogFormat | None]] = ConfigOption(
    "headgate.logs.format",
    OptionalKind(Choice(LogFormat), word="auto"),
    None,
    "How driver and workers write the log: text for people, or json, one object per line, with job, attempt, "
    "checkpoint, subtask and exception as fields; auto is json with `headgate run --json`, and else text.",
)
OTLP_ENDPOINT: Final = optional_text(
    "headgate.otlp.endpoint",
    "URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318, to which the driver sends "
    "metrics, traces of checkpoints and recoveries, and its log; needs headgate[otlp]; none: none is.",
)
OTLP_HEADERS: Final = optional_text(
    "headgate.otlp.headers",
    "Headers of the requests to the collector, a secret: name=value pairs with commas between.",
)
OTLP_INTERVAL: Final = ConfigOption(
    "headgate.otlp.interval", Duration(100), 10_000, "Time between two requests to the collector."
)
