"""Options for what a job tells the outside: the form of its log lines."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import (
    Choice,
    ConfigOption,
    Duration,
    OptionalKind,
    Text,
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
    "metrics, traces of checkpoints and recoveries, and its log; needs headgate[otlp]; none: nothing is "
    "sent.",
)
OTLP_HEADERS: Final = optional_text(
    "headgate.otlp.headers",
    "Headers of the requests to the collector, a secret: name=value pairs with commas between.",
)
OTLP_INTERVAL: Final = ConfigOption(
    "headgate.otlp.interval", Duration(100), 10_000, "Time between two requests to the collector."
)
LINEAGE_URL: Final = optional_text(
    "headgate.openlineage.url",
    "URL of a server that takes OpenLineage's events over HTTP, to which the driver tells what the job reads "
    "and writes, and how its run goes; needs headgate[openlineage]; none: nothing is sent.",
)
LINEAGE_TOKEN: Final = optional_text(
    "headgate.openlineage.token", "The server's API key, a secret, sent as bearer token."
)
LINEAGE_CONFIG: Final = optional_text(
    "headgate.openlineage.config",
    "Instead of a URL, a file for OpenLineage's client (openlineage.yml), which says how events are sent.",
)
LINEAGE_NAMESPACE: Final = ConfigOption(
    "headgate.openlineage.namespace", Text(), "headgate", "Namespace of the job in the events."
)
LINEAGE_JOB_NAME: Final = optional_text(
    "headgate.openlineage.job-name", "Name of the job in the events; none takes the job's own."
)
LINEAGE_DATASETS: Final = optional_text(
    "headgate.openlineage.datasets",
    "What sources and sinks read and write, where they cannot say it themselves: uid=URI pairs with commas "
    "between, such as orders=kafka://broker:9092/orders.",
)
LINEAGE_INTERVAL: Final = ConfigOption(
    "headgate.openlineage.interval",
    Duration(100),
    300_000,
    "Least time between two events that say that the job runs; they come with checkpoints.",
)
