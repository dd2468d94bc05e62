"""Serves the page of a job that is over from this process, on the loopback address, until it is ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final

import uvicorn

from headgate.common.plain_data import Json
from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings, listening
from headgate.runtime.driver.endpoint.guard import Guard
from headgate.runtime.driver.endpoint.page.kept_routes import kept_application
from headgate.runtime.driver.endpoint.page.page_files import FILES

SECRET_BYTES: Final = 32


def serve_kept(answers: Mapping[str, Json], tell: Callable[[str], None]) -> None:
    """Serve a page by its `answers`, the data by path of request, until Ctrl-C. `tell` gets its address, with
    the secret that requests must show: other users of the machine reach the port, too.
    """
    settings = EndpointSettings("127.0.0.1", 0)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    with listening(settings) as opened:
        app = Guard(kept_application(answers), secret, settings.scheme, FILES)
        config = uvicorn.Config(
            app, ws="none", lifespan="off", loop="asyncio", interface="asgi3", log_config=None,
            log_level="critical", access_log=False, proxy_headers=False, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        tell(f"{settings.reached_at(opened.getsockname()[1])}/#secret={secret}")
        uvicorn.Server(config).run(sockets=[opened])
