"""Whether a job is well, for whoever watches processes: two questions that need no secret and tell one word.

`/healthz`: the driver's loop answers, so a restart of the driver would help nothing. `/readyz`: all subtasks
run. The answer is 200 or 503.
"""

from __future__ import annotations

from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headgate.common.errors import OperatingError
from headgate.runtime.driver.endpoint.served import ServedJob

HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""The paths, which everybody who can connect may ask."""

_READY: Final = frozenset({"running", "finishing", "finished"})


def health_routes(job: ServedJob) -> list[Route]:
    """Return the two routes for a job."""

    async def state() -> str | None:
        try:
            return (await run_in_threadpool(job.control.status)).state
        except OperatingError:
            return None

    async def healthz(_: Request) -> Response:
        found = await state()
        return _answer("silent" if found is None else "ok", well=found not in (None, "failed"))

    async def readyz(_: Request) -> Response:
        found = await state()
        return _answer(found or "silent", well=found in _READY)

    return [Route("/healthz", healthz, methods=["GET"]), Route("/readyz", readyz, methods=["GET"])]


def _answer(word: str, *, well: bool) -> Response:
    return PlainTextResponse(f"{word}\n", 200 if well else 503, {"cache-control": "no-store"})
