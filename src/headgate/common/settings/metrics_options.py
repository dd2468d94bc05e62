"""Options for metrics: where they are told to others."""

from __future__ import annotations

from typing import Final

from headgate.common.settings.config_option import ConfigOption, Integer, OptionalKind, Text

METRICS_PORT: Final[ConfigOption[int | None]] = ConfigOption(
    "metrics.prometheus.port",
    OptionalKind(Integer(0, 65_535)),
    None,
    "Port on which the driver tells its metrics to Prometheus without the job's secret; 0 takes a free one; "
    "none: there is no such port.",
)
METRICS_BIND_ADDRESS: Final = ConfigOption(
    "metrics.prometheus.bind-address",
    Text(),
    "127.0.0.1",
    "Address of that port; whoever reaches it can read the job's metrics, and nothing else.",
)
