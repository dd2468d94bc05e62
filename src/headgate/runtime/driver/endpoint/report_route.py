"""The answer from which `headgate report` makes its file: all that the driver knows of the job, masked."""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.common.errors import HeadgateError
from headgate.common.plain_data import Json
from headgate.common.process.this_process import machine, threads, versions
from headgate.runtime.driver.endpoint.page.why_answer import why_facts
from headgate.runtime.driver.endpoint.served import ServedJob


def report_routes(job: ServedJob) -> list[Route]:
    """Return the route of the report of `job`."""

    async def report(_: Request) -> Response:
        found = await run_in_threadpool(lambda: json.dumps(report_of(job)))
        return Response(found, headers={"cache-control": "no-store"}, media_type="application/json")

    return [Route("/v1/report", report, methods=["GET"])]


def report_of(job: ServedJob) -> dict[str, Json]:
    """Return the parts of the report by name, with the job's secrets masked; `missing` says by name why a
    part could not be had.
    """
    watch, found, missing = job.watch, dict[str, Json](), dict[str, Json]()
    parts: dict[str, Callable[[], Json]] = {
        "status": lambda: watch.snapshot(job.control.status()),
        "why": lambda: why_facts(watch, job.control.status()),
        "plan": job.shown_plan,
        "configuration": lambda: {"options": watch.settings.facts()},
        "failures": watch.story,
        "subtasks": watch.subtasks,
        "history": watch.history,
        "output": watch.output,
        "logs": watch.logs.facts,
        "versions": versions,
        "machine": machine,
        "warnings": lambda: list(job.named.warnings),
        "threads": threads,
        "stacks": lambda: None if watch.profiles is None else watch.profiles.found(),
        # Last, as they wait for the job master's loop, which may be why somebody asks for a report.
        "metrics": lambda: job.metrics_text(open_metrics=False),
        "checkpoints": job.checkpoints,
    }
    for name, part in parts.items():
        try:
            found[name] = job.named.mask.facts(part())
        except HeadgateError as error:
            missing[name] = job.named.mask.text(str(error))
        except Exception as error:
            # A report is asked for when something is wrong: what else there is must not be lost by it.
            missing[name] = job.named.mask.text(f"{type(error).__name__}: {error}")
    return {**found, "missing": missing}
