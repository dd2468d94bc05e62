"""Finds the kept page of a job in a checkpoint storage, and serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headgate.checkpoint.history_file import History, KeptHistory, find_histories, plain, read_history
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Json
from headgate.runtime.driver.endpoint.page.kept_page import DRIVER, INSIDE, METRICS, kept_answers
from headgate.runtime.driver.endpoint.page.log_book import chosen
from headgate.runtime.driver.endpoint.page.log_route import wanted_lines

_PARTS: Final = {
    "why": "/v1/why",
    "status": "/v1/snapshot",
    "plan": "/v1/plan",
    "configuration": "/v1/config",
    "failures": "/v1/failures",
    "subtasks": "/v1/subtasks",
    "history": "/v1/history",
    "output": "/v1/output",
    "logs": "/v1/logs",
    "metrics": METRICS,
}
"""The parts of a report that the page has, too, and where it asks for them."""

Tell = Callable[[str, str, str], None]  # takes the job's name and id, and the address of its page


def show_kept(uri: str, job: str | None, tell: Tell) -> None:
    """Serve the page of a job whose checkpoints are at `uri` (a checkpoint directory, or a job's folder),
    until Ctrl-C; `job` is its id or the beginning, None the one that wrote last. `tell` is called once.
    UsageError: no such job, or several; StorageError: there is no page, or it is damaged.
    """
    from headgate.runtime.driver.endpoint.kept_server import serve_kept

    history, answers = _read(uri, job)
    serve_kept(answers, lambda url: tell(history.job_name, history.job, url))


def kept_why(uri: str, job: str | None) -> dict[str, Json]:
    """Return the last answer to what held a job up, of the page that :func:`show_kept` shows, with the moment
    `time_ms` at which it was kept, in ms since 1970. Raises as :func:`show_kept` does.
    """
    history, answers = _read(uri, job)
    status, found = answers["/v1/snapshot"], answers.get("/v1/why")
    assert isinstance(status, dict)
    if not isinstance(found, dict):
        raise StorageError(f"the page of job {history.job!r} was kept by a version that did not say why")
    return {**found, "time_ms": status["time_ms"]}


def kept_logs(uri: str, job: str | None, wanted: Mapping[str, str]) -> dict[str, Json]:
    """Return the log lines that were kept of a job, as ``GET /v1/logs`` gives them; `wanted` has the
    parameters of that request. Raises as :func:`show_kept` does, and UsageError for parameters.
    """
    asked = wanted_lines(wanted)
    history, answers = _read(uri, job)
    found = answers.get("/v1/logs")
    if not isinstance(found, dict) or not isinstance(found.get("lines"), list):
        raise StorageError(f"the page of job {history.job!r} has no log lines: an older version kept it")
    kept = found["lines"]
    assert isinstance(kept, list)
    return {**found, **chosen([line for line in kept if isinstance(line, dict)], asked)}


def kept_report(uri: str, job: str | None) -> dict[str, Json]:
    """Return the parts of a report, by name, of a job whose checkpoints are at `uri`; arguments and errors
    are those of :func:`show_kept`.
    """
    history, answers = _read(uri, job)
    driver = answers.get(DRIVER)
    known = driver if isinstance(driver, dict) else {}
    return {
        **{name: answers[path] for name, path in _PARTS.items() if answers.get(path) is not None},
        **{name: known[name] for name in ("versions", "machine", "warnings") if name in known},
        "checkpoints": plain(history),
    }


def _read(uri: str, job: str | None) -> tuple[History, dict[str, Json]]:
    kept = _chosen(find_histories(uri), job)
    name = kept.name.removesuffix("history/checkpoints.json") + INSIDE
    where = kept.disk.describe(name)
    try:
        data = kept.disk.read(name)
    except FileNotFoundError:
        raise StorageError(
            f"{where} does not exist: the page of job {kept.job!r} was not kept, or its "
            "checkpoints were begun a moment ago; "
            f"`headgate checkpoints {uri}` shows its checkpoints"
        ) from None
    history = read_history(kept)
    return history, kept_answers(data, where, history.records)


def _chosen(found: list[KeptHistory], job: str | None) -> KeptHistory:
    if job is None:
        return found[0]
    meant = [each for each in found if each.job == job] or [
        each for each in found if each.job.startswith(job)
    ]
    if len(meant) != 1:
        there = ", ".join(each.job for each in found[:10])
        raise UsageError(f"{len(meant)} of the jobs there begin with {job!r}; there are {there}")
    return meant[0]
