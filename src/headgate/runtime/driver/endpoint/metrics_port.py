"""A port of its own for metrics, which Prometheus may read without the job's secret; off by default."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings, listening
from headgate.runtime.driver.endpoint.served import ServedJob

if TYPE_CHECKING:
    import uvicorn

_LOG: Final = logging.getLogger("headgate.endpoint")


class MetricsPort:
    """Listens once created (else ConfigError), and answers after :meth:`begin`, to GET /metrics alone."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings, self._socket = settings, listening(settings, o.METRICS_BIND_ADDRESS, o.METRICS_PORT)
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._closing = threading.Event()

    @property
    def address(self) -> str:
        return f"{self._settings.reached_at(self._socket.getsockname()[1])}/metrics"

    def begin(self, job: ServedJob) -> None:
        """Answer from now on with the metrics of `job`, in a thread of its own."""
        _LOG.info("metrics are at %s", self.address)
        self._thread = threading.Thread(target=self._run, args=(job,), name="headgate-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port, without waiting; a second call does nothing."""
        self._closing.set()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is None:
            self._socket.close()

    def _run(self, job: ServedJob) -> None:
        try:
            with self._socket:
                # Here, because the libraries take as long to load as a small job to begin.
                from headgate.runtime.driver.endpoint.metrics_app import metrics_server

                self._server = metrics_server(job, self._settings, self._socket)
                if not self._closing.is_set():
                    self._server.run(sockets=[self._socket])
        except Exception:
            _LOG.warning("the port for metrics stopped; the job goes on without it", exc_info=True)


def opened_port(config: Config, opened: ExitStack) -> MetricsPort | None:
    """Return a port for metrics, which `opened` closes; None: the configuration wants none. ConfigError:
    nothing can listen there.
    """
    port = config.get(o.METRICS_PORT)
    if port is None:
        return None
    made = MetricsPort(EndpointSettings(config.get(o.METRICS_BIND_ADDRESS), port))
    opened.callback(made.close)
    return made
