"""The HTTP routes of the endpoint. Imported late, in the endpoint's thread: its libraries load slowly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.api.jobs.executor_contract import JobStatus, Then
from headgate.common.errors import HeadgateError, NoEntryError, OperatingError, UsageError
from headgate.common.keys.key_text import key_of_text
from headgate.common.plain_data import Json
from headgate.runtime.driver.endpoint import request_bodies as asked
from headgate.runtime.driver.endpoint.health import health_routes
from headgate.runtime.driver.endpoint.log_level_route import log_level_route
from headgate.runtime.driver.endpoint.metrics_answer import told
from headgate.runtime.driver.endpoint.operations import Operation, Operations, awaited
from headgate.runtime.driver.endpoint.page.page_routes import page_routes
from headgate.runtime.driver.endpoint.page.shown_value import shown_value
from headgate.runtime.driver.endpoint.report_route import report_routes
from headgate.runtime.driver.endpoint.served import ServedJob, error_facts
from headgate.runtime.driver.endpoint.trace_routes import trace_routes

WAIT_MS_MAX: Final = 30_000
STATE_WAIT_MS: Final = 10_000
_STATUS: Final = ((NoEntryError, 404), (UsageError, 400), (OperatingError, 409))

_Handler = Callable[[Request], Awaitable[Response]]


def application(job: ServedJob, operations: Operations) -> Starlette:
    """Return the ASGI application with the endpoint's routes; :class:`Guard` checks each request before."""
    routes = _Routes(job, operations)
    table: list[tuple[str, str, _Handler]] = [
        ("GET", "/v1/job", routes.job),
        ("GET", "/v1/checkpoints", routes.checkpoints),
        ("GET", "/v1/plan", routes.plan),
        ("GET", "/metrics", routes.metrics),
        ("GET", "/v1/operations/{id}", routes.operation),
        ("GET", "/v1/state/{rest:path}", routes.state),
        ("POST", "/v1/checkpoint", routes.checkpoint),
        ("POST", "/v1/savepoint", routes.savepoint),
        ("POST", "/v1/stop", routes.stop),
        ("POST", "/v1/cancel", routes.cancel),
        ("POST", "/v1/rescale", routes.rescale),
    ]
    found = [Route(path, handler, methods=[method]) for method, path, handler in table]
    made = Starlette(
        routes=[
            *found,
            *health_routes(job),
            *report_routes(job),
            *trace_routes(job),
            log_level_route(job, routes.begun),
            *page_routes(job.watch, job.control, job.recorded),
        ],
        exception_handlers={HeadgateError: _failed, HTTPException: _no_route, Exception: _broken},
    )
    made.router.redirect_slashes = False
    return made


class _Routes:
    def __init__(self, job: ServedJob, operations: Operations) -> None:
        self._job, self._operations = job, operations

    async def job(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._job.control.status))

    async def checkpoints(self, request: Request) -> Response:
        return _json(await run_in_threadpool(self._job.checkpoints))

    async def plan(self, request: Request) -> Response:
        return _json(self._job.shown_plan())

    async def metrics(self, request: Request) -> Response:
        return await told(self._job, request)

    async def state(self, request: Request) -> Response:
        # A slash in a uid comes as %2F, which only in the raw path differs from one between two names.
        parts = request.scope["raw_path"].decode("latin-1").split("/")[3:]
        if len(parts) != 2:
            raise HTTPException(404)
        uid, name = (unquote(part) for part in parts)
        if any(part in ("", ".", "..") or "\0" in part for part in (uid, name)):
            raise HTTPException(404)
        text = request.query_params.get("key")
        if text is None:
            raise UsageError("the query has no key; add ?key= with the key as JSON")
        key = key_of_text(text)
        found = await run_in_threadpool(self._job.live.value, uid, name, key, STATE_WAIT_MS)
        return _json(shown_value(found))

    async def operation(self, request: Request) -> Response:
        found = self._operations.find(request.path_params["id"])
        if found is None:
            raise HTTPException(404)
        found.asked = True
        if await awaited(found, _wait_ms(request) / 1000):
            found.fetched = True
        return _json(_outcome(found))

    async def checkpoint(self, request: Request) -> Response:
        asked.decoded(await request.body(), asked.Nothing)
        return self.begun("checkpoint", self._job.control.checkpoint)

    async def savepoint(self, request: Request) -> Response:
        body, control = asked.decoded(await request.body(), asked.Savepoint), self._job.control
        return self.begun("savepoint", lambda then: control.savepoint(body.target, body.format, then))

    async def stop(self, request: Request) -> Response:
        body, control = asked.decoded(await request.body(), asked.Stop), self._job.control
        return self.begun("stop", lambda then: control.stop(body.target, body.format, body.drain, then))

    async def cancel(self, request: Request) -> Response:
        asked.decoded(await request.body(), asked.Nothing)
        # Its outcome is the job's end, which the endpoint itself reports.
        return self.begun("cancel", lambda _: self._job.control.cancel())

    async def rescale(self, request: Request) -> Response:
        body, control = asked.decoded(await request.body(), asked.Rescale), self._job.control
        return self.begun("rescale", lambda then: control.rescale(body.parallelism, then, body.from_last))

    def begun(self, what: str, ask: Callable[[Then], None]) -> Response:
        begun = self._operations.begin(what, ask)
        begun.fetched = begun.outcome.done()
        return _json(_outcome(begun), 202)


def _outcome(operation: Operation) -> dict[str, Json]:
    facts: dict[str, Json] = {"operation": operation.id, "what": operation.what}
    if not operation.outcome.done():
        return {**facts, "state": "running"}
    result, error = operation.outcome.result()
    if error is not None:
        return {**facts, "state": "failed", **error_facts(error)}
    return {**facts, "state": "done", "result": result}


def _wait_ms(request: Request) -> int:
    text = request.query_params.get("wait_ms", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise UsageError(f"wait_ms is {text[:40]!r}; expected a whole number of milliseconds")
    return min(int(text), WAIT_MS_MAX)


def _json(facts: Mapping[str, Json] | JobStatus, status: int = 200) -> Response:
    body = msgspec.json.encode(facts)
    return Response(body, status, {"cache-control": "no-store"}, "application/json")


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, HeadgateError)
    status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
    return _json(error_facts(error), status)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"there is nothing to {request.method} at this path; docs/control.md lists what there is"
    return _json(error_facts(UsageError(text)), error.status_code)


async def _broken(_: Request, error: Exception) -> Response:
    return _json({"error": {"kind": "InternalError", "message": f"{type(error).__name__}: {error}"}}, 500)
