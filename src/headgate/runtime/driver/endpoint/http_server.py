"""The endpoint's HTTP server (uvicorn), with limits for clients that are slow or open many connections."""

from __future__ import annotations

import asyncio
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from headgate.runtime.driver.endpoint.app import application
from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings
from headgate.runtime.driver.endpoint.guard import Guard
from headgate.runtime.driver.endpoint.health import HEALTH
from headgate.runtime.driver.endpoint.listening_sockets import AT_A_TIME, Connections, ListeningSocket, Peer
from headgate.runtime.driver.endpoint.operations import Operations
from headgate.runtime.driver.endpoint.page.page_files import FILES
from headgate.runtime.driver.endpoint.served import ServedJob

HEAD_WAIT_S: Final = 5.0  # how long a request's head may take to arrive, and before it the TLS handshake
HEAD_BYTES_MAX: Final = 16 * 1024
CONNECTIONS_MAX: Final = 256


class PatientProtocol(H11Protocol):
    """HTTP on one connection, which is closed unless the next request's head arrives within `head_wait_s`.

    Uvicorn's own time limit begins only after the first answer, and a single byte ends it.
    """

    head_wait_s: float = HEAD_WAIT_S
    clients: Connections
    _peer: Peer = ()
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = transport.get_extra_info("peername")
        self.clients.ready(self._peer)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self._expect_nothing()
            self.clients.heard(self._peer)

    def on_response_complete(self) -> None:
        self.clients.answered(self._peer)
        self._expect_head()
        super().on_response_complete()

    def _expect_head(self) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(self.head_wait_s, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class PatientServer(uvicorn.Server):
    """A uvicorn server that also closes connections of `clients` whose TLS handshake takes too long."""

    def __init__(self, config: uvicorn.Config, clients: Connections) -> None:
        super().__init__(config)
        self._clients = clients

    async def on_tick(self, counter: int) -> bool:
        self._clients.cut_late()
        return await super().on_tick(counter)


def server_of(
    job: ServedJob,
    operations: Operations,
    secret: str,
    settings: EndpointSettings,
    listening: ListeningSocket,
) -> uvicorn.Server:
    """Return the HTTP server of a job's endpoint, not started; the endpoint's thread calls and runs it. It
    serves `job`, and requires `secret` as Bearer token but for the page's files. `listening` is the socket to
    run it on; its limit of connections (`listening.clients`) is set here.
    """
    app = Guard(application(job, operations), secret, settings.scheme, {*FILES, *HEALTH})
    return server_for(app, settings, listening)


def server_for(app: Guard, settings: EndpointSettings, listening: ListeningSocket) -> uvicorn.Server:
    """Return an HTTP server of `app`, not started, to be run on the socket `listening`."""
    clients = listening.clients = Connections(CONNECTIONS_MAX, HEAD_WAIT_S)
    config = uvicorn.Config(
        app,
        http=type("ConnectionProtocol", (PatientProtocol,), {"clients": clients}),
        backlog=AT_A_TIME,
        ws="none",
        lifespan="off",
        loop="asyncio",
        interface="asgi3",
        log_config=None,  # logging is the program's affair
        log_level="critical",  # bad requests of unknown senders are not worth a log line each
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_graceful_shutdown=2,
        ssl_certfile=settings.certfile,
        ssl_keyfile=settings.keyfile,
    )
    return PatientServer(config, clients)
