"""The telemetry of a running job: what its events and its log say goes to a collector of OpenTelemetry."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headgate.common.errors import ConfigError, HeadgateError, UserFunctionError
from headgate.common.masking import shown_url
from headgate.common.plain_data import Json
from headgate.common.ports import Clock
from headgate.common.process.heard_logs import heard
from headgate.common.process.kept_lines import LogLine
from headgate.common.process.log_lines import JsonFormatter, LoggedJob, facts_of
from headgate.common.process.outward_queue import OutwardQueue
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus
from headgate.runtime.driver.metrics.job_metrics import Family
from headgate.runtime.driver.telemetry.job_traces import Recoveries, Stretch, checkpoint_stretch
from headgate.runtime.job.listener import JobListener

if TYPE_CHECKING:
    from headgate.runtime.driver.telemetry.otlp_client import OtlpClient

ITEMS_MAX: Final = 2_000
"""So many checkpoints, recoveries and lines of the log wait at most to be sent."""

TIMEOUT_S: Final = 10.0  # how long one request may take, with all tries

_OF_CLIENT: Final = (
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "urllib3.connectionpool",
)
"""The loggers of the client, which logs each failure."""

_Item = CheckpointRecord | Stretch | dict[str, Json]


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """To which collector a job's telemetry goes: its URL, the headers of requests, and how often."""

    endpoint: str
    headers: Mapping[str, str]
    interval_ms: int


def otlp_settings(config: Config) -> OtlpSettings | None:
    """Return where the telemetry of a job goes; None: nowhere. ConfigError: the client is not installed, or
    an option has no form that it could have.
    """
    endpoint = config.get(o.OTLP_ENDPOINT)
    if endpoint is None:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"{o.OTLP_ENDPOINT.key} is {shown_url(endpoint)!r}; expected the URL of a collector such as "
            "'http://127.0.0.1:4318', which takes OTLP over HTTP"
        )
    if importlib.util.find_spec("opentelemetry") is None or not _has_exporter():
        raise ConfigError(
            f"{o.OTLP_ENDPOINT.key} is set, and OpenTelemetry's client is not installed; run: pip install "
            "'headgate[otlp]'"
        )
    headers = {}
    for pair in (config.get(o.OTLP_HEADERS) or "").split(","):
        name, given, value = (part.strip() for part in pair.partition("="))
        if pair.strip() and not (name and given):
            raise ConfigError(
                f"{o.OTLP_HEADERS.key} has a part without a name or without '='; expected name=value pairs "
                "with commas between"
            )
        if name:
            headers[name] = value
    return OtlpSettings(endpoint, headers, config.get(o.OTLP_INTERVAL))


def _has_exporter() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


class Telemetry(JobListener):
    """The job listener that has a job's telemetry sent. Its reports come in the job master's loop, and put
    what they say into a queue; a thread sends that, and asks for metrics, every so often.

    Attributes:
        queue: of what is to be sent; its owner closes it.
    """

    def __init__(self, settings: OtlpSettings, named: LoggedJob, clock: Clock) -> None:
        self._settings, self._named, self._clock = settings, named, clock
        self._began_ms = clock.now_ms()
        self._recoveries, self._seen = Recoveries(), set[int]()
        self._records: Callable[[], Sequence[CheckpointRecord]] = tuple
        self._families: Callable[[], Sequence[Family]] = list
        self._client: OtlpClient | None = None
        every_s = settings.interval_ms / 1000
        self.queue: OutwardQueue[_Item] = OutwardQueue(
            "headgate-otlp",
            f"telemetry for {settings.endpoint}",
            self._send,
            ITEMS_MAX,
            every_s,
            self._over,
            _OF_CLIENT,
            lambda text: named.mask.text(text),
        )

    def open(self, opened: ExitStack) -> None:
        """Hear the driver's log from now on, until `opened` ends."""
        formatter = JsonFormatter()
        put = self.queue.put
        hearing = heard(self._named, logging.NOTSET, lambda record: put(facts_of(formatter, record)))
        opened.enter_context(hearing)

    def begin(
        self,
        records: Callable[[], Sequence[CheckpointRecord]],
        families: Callable[[], Sequence[Family]],
    ) -> None:
        """Send from now on. `records` returns those of the checkpoints, in the job master's loop; `families`
        the metrics, from any thread but that one.
        """
        self._records, self._families = records, families
        self.queue.begin()

    # -- JobListener -------------------------------------------------------------------------------------

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._recoveries.deploying(attempt, checkpoint, self._clock.now_ms())

    def running(self, attempt: int) -> None:
        self._put(self._recoveries.running(attempt, self._clock.now_ms()))

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._ended(checkpoint)

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        self._ended(checkpoint)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        self._ended(None)
        kind = (isinstance(error, UserFunctionError) and error.kind) or type(error).__name__
        self._recoveries.failed(attempt, kind, str(error), self._clock.now_ms())

    def logged(self, slot: int, lines: list[LogLine], left_out: int) -> None:
        text = self._named.mask.text
        for line in lines:
            facts: dict[str, Json] = {name: getattr(line, name) for name in LogLine.__struct_fields__}
            masked = {"message": text(line.message), "exception": line.exception and text(line.exception)}
            self.queue.put({**facts, **masked, "worker": slot})

    def ended(self, state: str) -> None:
        self._ended(None)
        self._put(self._recoveries.ended(self._clock.now_ms()))

    def _ended(self, completed: int | None) -> None:
        # A checkpoint that is stored has not ended before its output is committed, unless its attempt has.
        records = self._records()
        self._seen.intersection_update([record.checkpoint for record in records])  # which are the newest
        for record in records:
            if record.checkpoint in self._seen or record.status is CheckpointStatus.IN_PROGRESS:
                continue
            if record.status is CheckpointStatus.FAILED or completed in (None, record.checkpoint):
                self._seen.add(record.checkpoint)
                self.queue.put(record)

    def _put(self, stretch: Stretch | None) -> None:
        if stretch is not None:
            self.queue.put(stretch)

    # -- in the thread that sends ------------------------------------------------------------------------

    def _send(self, items: list[_Item]) -> None:
        client, now_ns = self._opened(), self._clock.now_ms() * 1_000_000
        lines = [each for each in items if isinstance(each, dict)]
        stretches = [
            checkpoint_stretch(each) if isinstance(each, CheckpointRecord) else each
            for each in items
            if not isinstance(each, dict)
        ]
        signals: list[Callable[[], None]] = []
        if stretches:
            signals.append(lambda: client.send_traces(stretches, self._named.mask))
        if lines:
            signals.append(lambda: client.send_logs(lines, now_ns))
        signals.append(lambda: client.send_metrics(self._families(), now_ns))
        # A collector may take some of the three only.
        self.queue.try_each(signals)

    def _opened(self) -> OtlpClient:
        # Here, because the libraries take as long to load as a small job to begin.
        from headgate.runtime.driver.telemetry.otlp_client import OtlpClient

        if self._client is None:
            self._client = OtlpClient(
                self._settings.endpoint,
                self._settings.headers,
                self._named.name,
                self._named.id or "",
                min(TIMEOUT_S, max(1.0, self._settings.interval_ms / 1000)),
                self._began_ms * 1_000_000,
            )
        return self._client

    def _over(self) -> None:
        if self._client is not None:
            self._client.close()
