"""What one round of telemetry sends to a collector that does not take all of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headgate.common.errors import ConfigError
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.outward_queue import close_together
from headgate.common.process.system import SystemClock
from headgate.common.settings.config import Config
from headgate.runtime.driver.telemetry.job_traces import Stretch
from headgate.runtime.driver.telemetry.telemetry import OtlpSettings, Telemetry, otlp_settings

PATIENCE_S = 10


class Collector:
    """Stands for the client: notes what is sent, and takes none of the signals in `refused`."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.got = refused, list[str]()

    def send_traces(self, *_: Any) -> None:
        self._take("traces")

    def send_logs(self, *_: Any) -> None:
        self._take("log lines")

    def send_metrics(self, *_: Any) -> None:
        self._take("metrics")

    def close(self) -> None:
        """Nothing."""

    def _take(self, what: str) -> None:
        self.got.append(what)
        if what in self.refused:
            raise OSError(f"it did not take {what}")


def telemetry(collector: Collector) -> Telemetry:
    """With a recovery and a line of the log to be sent, by rounds of which the first has not begun."""
    told = Telemetry(OtlpSettings("http://127.0.0.1:9", {}, 3_600_000), LoggedJob("told"), SystemClock())
    told._client = collector  # type: ignore[assignment]
    told.queue.put(Stretch("recovery", 0, 1, {}))
    told.queue.put({"message": "a line", "level": "INFO", "time_ms": 1})
    return told


def test_a_signal_that_is_refused_keeps_no_other_back(caplog: pytest.LogCaptureFixture) -> None:
    """Such as by a collector without traces; the first refusal is warned of, and the next round is sent."""
    collector = Collector("traces", "log lines")
    told = telemetry(collector)
    told.queue._deliver()
    assert collector.got == ["traces", "log lines", "metrics"]
    assert not told.queue.failing
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == ["it did not take traces"]
    told.queue.begin()
    close_together([told.queue], PATIENCE_S)
    assert collector.got[3:] == ["metrics"]


def test_a_collector_that_takes_nothing_is_not_waited_for() -> None:
    """It fails if all that was sent is refused, even where one of the three has nothing to send."""
    collector = Collector("metrics")
    told = telemetry(collector)
    told.queue._items.clear()
    told.queue._deliver()
    assert collector.got == ["metrics"]
    assert told.queue.failing


def test_a_login_is_in_no_refusal() -> None:
    """Of a URL without a scheme."""
    config = Config().with_program({"headgate.otlp.endpoint": "ada:planted@collector:4318"})
    with pytest.raises(ConfigError, match=re.escape("is '******@collector:4318'; expected the URL")):
        otlp_settings(config)
