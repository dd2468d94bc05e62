"""The answer to GET /metrics, in the format that the request wants."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headgate.runtime.driver.endpoint.served import ServedJob
from headgate.runtime.driver.metrics.prometheus_text import OPEN_METRICS, PROMETHEUS, wants_open_metrics


async def told(job: ServedJob, request: Request) -> Response:
    """Return a job's metrics in the format that the request wants."""
    opened = wants_open_metrics(request.headers.get("accept", ""))
    text = await run_in_threadpool(lambda: job.metrics_text(open_metrics=opened))
    kind = OPEN_METRICS if opened else PROMETHEUS
    return Response(text, headers={"cache-control": "no-store", "content-type": kind})
