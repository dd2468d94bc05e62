"""The request that changes how much a running job logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.api.jobs.executor_contract import Then
from headgate.common.errors import UsageError
from headgate.common.process.log_levels import Level
from headgate.runtime.driver.endpoint.request_bodies import decoded
from headgate.runtime.driver.endpoint.served import ServedJob


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request: the `level` of `logger` ("" is the root); "unset": the one it had before."""

    level: Level
    logger: Annotated[str, Meta(max_length=256)] = ""


def log_level_route(job: ServedJob, begun: Callable[[str, Callable[[Then], None]], Response]) -> Route:
    """Return the route of `job`; `begun` begins an operation, and answers with it."""

    async def log_level(request: Request) -> Response:
        wanted, set_level = decoded(await request.body(), Wanted), job.set_level
        if set_level is None:
            raise UsageError("the job is over, so nothing of it logs any more")
        level = None if wanted.level is Level.UNSET else wanted.level.value
        levels = set_level(wanted.logger, level)  # first: an operation that is begun must have an outcome
        return begun("log-level", lambda then: then(described(levels), None))

    return Route("/v1/log-level", log_level, methods=["POST"])


def described(levels: dict[str, str]) -> str:
    """Return the levels that are set, for people.

    Example:
        >>> described({"": "debug", "boto3": "error"})
        'all loggers debug, boto3 error'
        >>> described({})
        'all loggers as the program set them'
    """
    named = [f"{name or 'all loggers'} {level}" for name, level in sorted(levels.items())]
    return ", ".join(named) or "all loggers as the program set them"
