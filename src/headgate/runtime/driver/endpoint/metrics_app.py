"""The HTTP server of a port that tells metrics, and whether the job is well, and nothing else."""

from __future__ import annotations

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings
from headgate.runtime.driver.endpoint.guard import Guard
from headgate.runtime.driver.endpoint.health import health_routes
from headgate.runtime.driver.endpoint.http_server import server_for
from headgate.runtime.driver.endpoint.listening_sockets import ListeningSocket
from headgate.runtime.driver.endpoint.metrics_answer import told
from headgate.runtime.driver.endpoint.served import ServedJob


def metrics_server(job: ServedJob, settings: EndpointSettings, listening: ListeningSocket) -> uvicorn.Server:
    """Return the HTTP server that answers GET /metrics at `listening` without a secret, not started."""

    async def metrics(request: Request) -> Response:
        return await told(job, request)

    app = Starlette(routes=[Route("/metrics", metrics, methods=["GET"]), *health_routes(job)])
    return server_for(Guard(app, None, settings.scheme), settings, listening)
