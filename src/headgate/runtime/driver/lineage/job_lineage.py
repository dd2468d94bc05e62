"""The lineage of a running job: its events become those of a run in a catalogue of OpenLineage."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.common.errors import ConfigError, HeadgateError, UserFunctionError
from headgate.common.masking import shown_url
from headgate.common.ports import Clock
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.outward_queue import OutwardQueue
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.config_option import ConfigOption
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.driver.lineage.dataset_names import dataset_name
from headgate.runtime.driver.lineage.job_datasets import datasets_of
from headgate.runtime.job.listener import JobListener

if TYPE_CHECKING:
    from headgate.runtime.driver.lineage.lineage_client import LineageClient

EVENTS_MAX: Final = 100
"""So many events wait at most to be sent."""

_LAST: Final = {"finished": "COMPLETE", "failed": "FAIL", "cancelled": "ABORT"}
_OF_CLIENT: Final = (
    "openlineage.client.client",
    "openlineage.client.transport.http",
    "openlineage.client.transport.file",
    "openlineage.client.transport.factory",
    "urllib3.connectionpool",
)
"""The loggers of the client, which logs each failure."""


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """Where the events of a job go, under which name, and the URIs by uid that the settings name."""

    url: str | None
    token: str | None
    file: str | None
    namespace: str
    name: str
    interval_ms: int
    datasets: Mapping[str, Sequence[str]]

    @property
    def target(self) -> str:
        return self.url or f"the transport of {self.file}"


def lineage_settings(config: Config, name: str) -> LineageSettings | None:
    """Return where the events of the job `name` go; None: nowhere. ConfigError: the client is not installed,
    or an option has no form that it could have.
    """
    url, file = config.get(o.LINEAGE_URL), config.get(o.LINEAGE_CONFIG)
    if url is None and file is None:
        return None
    if url is not None and file is not None:
        raise ConfigError(
            f"{o.LINEAGE_URL.key} and {o.LINEAGE_CONFIG.key} are both set; leave one of them out, as the "
            "file says where events go, too"
        )
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"{o.LINEAGE_URL.key} is {shown_url(url)!r}; expected a URL such as 'http://127.0.0.1:5000'"
        )
    if importlib.util.find_spec("openlineage") is None:
        raise ConfigError(
            f"{(o.LINEAGE_CONFIG if url is None else o.LINEAGE_URL).key} is set, and OpenLineage's client is "
            "not installed; run: pip install 'headgate[openlineage]'"
        )
    _check_file(file)
    return LineageSettings(
        url,
        config.get(o.LINEAGE_TOKEN),
        file,
        config.get(o.LINEAGE_NAMESPACE),
        config.get(o.LINEAGE_JOB_NAME) or name,
        config.get(o.LINEAGE_INTERVAL),
        _named(config, o.LINEAGE_DATASETS),
    )


def _check_file(file: str | None) -> None:
    if file is None:
        return
    from headgate.runtime.driver.lineage.lineage_client import client_config

    try:
        client_config(None, None, file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{o.LINEAGE_CONFIG.key} is {file!r}, and {error}; expected the file of OpenLineage's client, "
            "such as openlineage.yml"
        ) from None


def _named(config: Config, option: ConfigOption[str | None]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in (config.get(option) or "").split(","):
        uid, given, uri = (part.strip() for part in pair.partition("="))
        if pair.strip() and not (uid and given and uri):
            raise ConfigError(
                f"{option.key} has the part {shown_url(pair.strip())!r}; expected uid=URI pairs with commas "
                "between, such as orders=kafka://broker:9092/orders"
            )
        if uid:
            _check_uri(option, uri)
            found.setdefault(uid, []).append(uri)
    return found


def _check_uri(option: ConfigOption[str | None], uri: str) -> None:
    try:
        dataset_name(uri)
    except ValueError:
        raise ConfigError(
            f"{option.key} has {shown_url(uri)!r}, which is no URI; expected one such as "
            "kafka://broker:9092/orders, or a path"
        ) from None


@dataclass(frozen=True, slots=True)
class _Event:
    moment: str
    time_ms: int
    attempt: int
    checkpoint: int | None
    error: tuple[str, str | None] | None = None


class JobLineage(JobListener):
    """The job listener that tells a catalogue how the run goes; a restart is the same run. Its reports come
    in the job master's loop, and put events into a queue, which a thread sends.

    Attributes:
        queue: of the events that are to be sent; its owner closes it.
    """

    def __init__(self, settings: LineageSettings, plan: PhysicalPlan, named: LoggedJob, clock: Clock) -> None:
        self._settings, self._plan, self._named, self._clock = settings, plan, named, clock
        self._attempt, self._begun = 0, False
        self._goes_on: Callable[[], bool] = lambda: False
        self._checkpoint: int | None = None
        self._running_ms: int | None = None
        self._error: tuple[str, str | None] | None = None
        self._client: LineageClient | None = None
        self.queue: OutwardQueue[_Event] = OutwardQueue(
            "headgate-lineage",
            f"lineage for {settings.target}",
            self._send,
            EVENTS_MAX,
            ends=self._over,
            quiet=_OF_CLIENT,
            masked=lambda text: named.mask.text(text),
        )

    def begin(self, goes_on: Callable[[], bool]) -> None:
        """Send from now on. `goes_on` returns, in the job master's loop, whether the job has ended in this
        driver only.
        """
        self._goes_on = goes_on
        self.queue.begin()

    # -- JobListener -------------------------------------------------------------------------------------

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._attempt = attempt
        self._checkpoint = checkpoint if checkpoint is not None else self._checkpoint
        if not self._begun:
            self._begun, self._running_ms = True, self._clock.monotonic_ms()
            self._put("START")

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._checkpoint, now_ms = checkpoint, self._clock.monotonic_ms()
        if self._running_ms is not None and now_ms - self._running_ms >= self._settings.interval_ms:
            self._running_ms = now_ms
            self._put("RUNNING")

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        trace = error.traceback_text if isinstance(error, UserFunctionError) else None
        self._error = str(error), trace

    def ended(self, state: str) -> None:
        # The next driver goes on with the same run, which has no end before.
        if self._begun and not self._goes_on():
            self._put(_LAST.get(state, "ABORT"), self._error if state == "failed" else None)

    def _put(self, moment: str, error: tuple[str, str | None] | None = None) -> None:
        self.queue.put(_Event(moment, self._clock.now_ms(), self._attempt, self._checkpoint, error))

    # -- in the thread that sends ------------------------------------------------------------------------

    def _send(self, events: list[_Event]) -> None:
        from headgate.runtime.driver.lineage.lineage_client import Happened, Moment

        client, mask = self._opened(), self._named.mask

        def send(event: _Event) -> None:
            error = None
            if event.error is not None:
                message, trace = event.error
                error = mask.text(message), None if trace is None else mask.text(trace)
            moment = Moment[event.moment]
            client.send(Happened(moment, event.time_ms, event.attempt, event.checkpoint, error))

        self.queue.try_each([partial(send, event) for event in events])

    def _opened(self) -> LineageClient:
        # Here, because the libraries take as long to load as a small job to begin, and columns are read.
        from headgate.runtime.driver.lineage.lineage_client import LineageClient, client_config

        if self._client is None:
            own = self._settings
            datasets = datasets_of(self._plan, own.datasets, self._named.mask)
            config = client_config(own.url, own.token, own.file)
            job = self._named.id or ""
            self._client = LineageClient(config, own.namespace, own.name, job, datasets)
        return self._client

    def _over(self) -> None:
        if self._client is not None:
            self._client.close()
