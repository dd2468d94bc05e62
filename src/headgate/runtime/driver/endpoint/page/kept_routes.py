"""The routes of the page of a job that is over: its files, and the answers that were kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.common.plain_data import Json
from headgate.runtime.driver.endpoint.page.page_files import FILES, page_file

OVER: Final = "the job is over, so that nothing can be asked of it"


def kept_application(answers: Mapping[str, Json]) -> Starlette:
    """Return the ASGI application that shows a page by its `answers`, the data by path of request."""

    async def answer(request: Request) -> Response:
        found = answers.get(request.url.path)
        if found is None:
            raise HTTPException(404)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(msgspec.json.encode(found), 200, headers, "application/json")

    async def events(_: Request) -> Response:
        body = b"id: 1\nevent: status\ndata: " + msgspec.json.encode(answers["/v1/snapshot"]) + b"\n\n"
        return Response(body, 200, {"cache-control": "no-store"}, "text/event-stream")

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        body = msgspec.json.encode({"error": {"kind": "OperatingError", "message": OVER}})
        return Response(body, error.status_code, media_type="application/json")

    files = [Route(path, page_file, methods=["GET"]) for path in FILES]
    data = [Route("/v1/events", events, methods=["GET"]), Route("/v1/{rest:path}", answer, methods=["GET"])]
    return Starlette(routes=[*files, *data], exception_handlers={HTTPException: refused})
