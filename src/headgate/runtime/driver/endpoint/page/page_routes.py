"""The routes of the page: its files, and the data that only it shows. The data needs the job's secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.api.jobs.executor_contract import JobControl
from headgate.common.decoders import UNDECODABLE, json_decoder
from headgate.common.errors import UsageError
from headgate.common.plain_data import Json
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.runtime.driver.endpoint.page.checkpoint_facts import facts_of, subtasks_of
from headgate.runtime.driver.endpoint.page.event_streams import STREAMS_MAX, EventResponse, EventStreams
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.page.log_route import wanted_lines
from headgate.runtime.driver.endpoint.page.page_files import FILES, page_file
from headgate.runtime.driver.endpoint.page.why_answer import why_facts

FULL: Final = {
    "error": {
        "kind": "OperatingError",
        "message": f"{STREAMS_MAX} pages get events already; ask /v1/snapshot every five seconds instead",
    }
}


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request to sample the stacks of the workers."""

    seconds: Annotated[int, msgspec.Meta(ge=1, le=60)] = 10


_WANTED: Final = json_decoder(Wanted)

Recorded = Callable[[], Sequence[CheckpointRecord]]


def page_routes(watch: JobWatch, control: JobControl, recorded: Recorded) -> list[Route]:
    """Return the routes of the page of the job that `watch` remembers and `control` controls; `recorded`
    returns the records of its newest checkpoints, from any thread but the job master's.
    """
    routes = _PageRoutes(watch, control, recorded)
    table = {
        "/v1/events": routes.events,
        "/v1/snapshot": routes.snapshot,
        "/v1/subtasks": routes.subtasks,
        "/v1/why": routes.why,
        "/v1/history": routes.history,
        "/v1/failures": routes.failures,
        "/v1/output": routes.output,
        "/v1/logs": routes.logs,
        "/v1/config": routes.config,
        "/v1/profile": routes.profile,
        "/v1/checkpoint-times": routes.checkpoint_times,
        "/v1/checkpoint-times/{id:int}": routes.checkpoint_subtasks,
        **dict.fromkeys(FILES, page_file),
    }
    found = [Route(path, handler, methods=["GET"]) for path, handler in table.items()]
    return [*found, Route("/v1/profile", routes.begin_profile, methods=["POST"])]


class _PageRoutes:
    def __init__(self, watch: JobWatch, control: JobControl, recorded: Recorded) -> None:
        self._watch, self._control, self._recorded = watch, control, recorded
        self._streams = EventStreams(watch, self._snapshot)

    async def events(self, request: Request) -> Response | EventResponse:
        if self._streams.full:
            return Response(msgspec.json.encode(FULL), 503, {"retry-after": "5"}, "application/json")
        return EventResponse(self._streams)

    async def snapshot(self, request: Request) -> Response:
        return _answer(await run_in_threadpool(self._snapshot))

    async def subtasks(self, request: Request) -> Response:
        return await self._facts(self._watch.subtasks)

    async def why(self, request: Request) -> Response:
        return await self._facts(lambda: why_facts(self._watch, self._control.status()))

    async def history(self, request: Request) -> Response:
        return await self._facts(self._watch.history)

    async def failures(self, request: Request) -> Response:
        return await self._facts(self._watch.story)

    async def output(self, request: Request) -> Response:
        return await self._facts(self._watch.output)

    async def logs(self, request: Request) -> Response:
        wanted = wanted_lines(request.query_params)
        return await self._facts(lambda: self._watch.logs.facts(wanted))

    async def config(self, request: Request) -> Response:
        return await self._facts(lambda: {"options": self._watch.settings.facts()})

    async def profile(self, request: Request) -> Response:
        profiles = self._watch.profiles
        if profiles is None:
            raise HTTPException(404)
        return await self._facts(profiles.found)

    async def begin_profile(self, request: Request) -> Response:
        profiles = self._watch.profiles
        if profiles is None:
            raise HTTPException(404)
        try:
            wanted = _WANTED.decode(await request.body())
        except UNDECODABLE as error:
            raise UsageError(f"the request is not as expected: {error}") from None
        profiles.begin(wanted.seconds)
        return await self._facts(profiles.found)

    async def checkpoint_times(self, request: Request) -> Response:
        return await self._facts(lambda: {"checkpoints": [facts_of(each) for each in self._recorded()]})

    async def checkpoint_subtasks(self, request: Request) -> Response:
        wanted = request.path_params["id"]
        found = [each for each in await run_in_threadpool(self._recorded) if each.checkpoint == wanted]
        if not found:
            raise HTTPException(404)
        return await self._facts(lambda: subtasks_of(found[-1]))

    async def _facts(self, make: Callable[[], dict[str, Json]]) -> Response:
        return _answer(await run_in_threadpool(lambda: _body(make(), self._watch)))

    def _snapshot(self) -> bytes:
        return _body(self._watch.snapshot(self._control.status()), self._watch)


def facts_answer(facts: dict[str, Json], watch: JobWatch) -> Response:
    """Return the answer with these facts of the job of `watch`, without its secrets."""
    return _answer(_body(facts, watch))


def _body(facts: dict[str, Json], watch: JobWatch) -> bytes:
    try:
        body = msgspec.json.encode(facts)
    except UnicodeEncodeError:  # half a character, as names of files may have; JSON has a form for it
        body = json.dumps(facts).encode()
    return watch.settings.masked(body)


def _answer(body: bytes) -> Response:
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(body, 200, headers, "application/json")
