"""Options for what a job tells the outside: the form of its log lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import Choice, ConfigOption, OptionalKind


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
