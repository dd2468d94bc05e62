"""The requests that have a job trace records, and tell what was found."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.runtime.driver.endpoint.page.page_routes import facts_answer
from headgate.runtime.driver.endpoint.request_bodies import decoded
from headgate.runtime.driver.endpoint.served import ServedJob


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request: trace one record in `every`, for so many seconds."""

    every: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 1_000
    seconds: Annotated[int, msgspec.Meta(ge=1, le=60)] = 5


def trace_routes(job: ServedJob) -> list[Route]:
    """Return the routes of `job`."""
    traces = job.traces

    async def answer() -> Response:
        if traces is None:
            raise HTTPException(404)
        found = traces.found
        return await run_in_threadpool(lambda: facts_answer(found(job.plan()), job.watch))

    async def found(_: Request) -> Response:
        return await answer()

    async def begin(request: Request) -> Response:
        wanted = decoded(await request.body(), Wanted)
        if traces is None:
            raise HTTPException(404)
        traces.begin(wanted.every, wanted.seconds)
        return await answer()

    table = {"GET": found, "POST": begin}
    return [Route("/v1/traces", handler, methods=[method]) for method, handler in table.items()]
