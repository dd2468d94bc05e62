"""What displays say of a job: its events, as facts and sentences, and the phrases of the progress line."""

from __future__ import annotations

from typing import Final, Protocol, TypedDict

from headgate.display.progress_status import ErrorFacts, JobProgress, error_line

END_EVENTS: Final = frozenset({"finished", "failed", "cancelled"})  # a job's last event is one of these


class Facts(TypedDict, total=False):
    """The values that an event carries; `docs/cli-output.md` lists those of each event."""

    time_ms: int
    job: str | None
    text: str
    gang: int
    slots: int
    attempt: int
    checkpoint: int | None
    checkpoints: int
    took_ms: int
    uri: str
    restart_in_ms: int
    restarts: int
    error: ErrorFacts | None
    duration_ms: int
    records_in: int | None
    records_skipped: int
    records_in_attempt: int | None
    records_per_second: float | None
    read_share: float | None
    to_go_ms: int | None
    longest_step_ms: float
    operator: str
    kind: str
    line: str
    times: int
    since: int | None


class Display(Protocol):
    """Shows a job's events to people or scripts; called by one thread."""

    def show(self, event: str, facts: Facts) -> None:
        """Show one event of the job, with its facts; `docs/cli-output.md` lists events and their facts."""


def sentence(event: str, facts: Facts) -> str | None:
    """Return a sentence for people about an event; None for one that needs no line of its own.

    Example:
        >>> sentence("submitted", {"gang": 1, "slots": 2})
        'asked for 2 workers'
        >>> sentence("running", {"attempt": 1})
        'running, attempt 1'
    """
    match event:
        case "submitted":
            return f"asked for {facts['slots']} worker{'s' if facts['slots'] != 1 else ''}"
        case "deploying" if facts["checkpoint"] is not None:
            return f"restoring checkpoint {facts['checkpoint']}, attempt {facts['attempt']}"
        case "running":
            return f"running, attempt {facts['attempt']}"
        case "savepoint":
            return f"savepoint {facts['uri']} after {facts['took_ms'] / 1000:.1f} s"
        case "rescaled":
            return f"goes on with {facts['slots']} worker{'s' if facts['slots'] != 1 else ''}"
        case "restarting":
            wait = facts["restart_in_ms"] / 1000
            why = "" if facts["error"] is None else error_line(facts["error"])
            return f"attempt {facts['attempt']} failed, restarting in {wait:.1f} s: {why}"
        case "same-failure":
            return facts["text"]
        case "note":
            # The rest may be a traceback, which the end of the job shows.
            return facts["text"].strip().partition("\n")[0]
        case "finished" | "failed" | "cancelled":
            return f"{event} after {facts['duration_ms'] / 1000:.1f} s: {_totals_text(facts)}"
    return None


def phrases(status: JobProgress, now_ms: int, width: int | None = None) -> list[str]:
    """Return the state of a running job as short phrases, such as ``restarts 0``, for a progress line.

    Phrases are left out until all fit into `width`, with two spaces between; state, restarts and attempt
    stay. `now_ms` is by the monotonic clock; `width` None: nothing is left out.
    """
    rate = status.rate(now_ms)
    kept = {"state": status.state}
    if status.records is not None:
        kept["rate"] = f"{'-' if rate is None else f'{rate:,.0f}'} records/s"
        kept["records"] = f"{status.records:,} records in"
    if (reading := status.reading.text()) is not None:
        kept["reading"] = reading
    if status.checkpoint is not None:
        age = max(0, now_ms - status.checkpoint_at_ms) / 1000
        kept["checkpoint"] = f"checkpoint {status.checkpoint}"
        kept["age"] = f"({age:.1f} s ago, took {status.checkpoint_took_ms} ms)"
    kept["restarts"] = f"restarts {status.restarts}"
    if status.attempt:
        kept["attempt"] = f"attempt {status.attempt}"
    if status.skipped:
        kept["skipped"] = f"{status.skipped:,} bad records skipped"
    for less in ("age", "records", "checkpoint", "rate", "reading", "skipped"):
        if width is None or sum(map(len, kept.values())) + 2 * (len(kept) - 1) <= width:
            break
        kept.pop(less, None)
    if "age" in kept:
        kept["checkpoint"] += f" {kept.pop('age')}"
    return list(kept.values())


def _totals_text(facts: Facts) -> str:
    records = "" if facts["records_in"] is None else f"{facts['records_in']:,} records in, "
    skipped = f", {facts['records_skipped']:,} bad records skipped" if facts["records_skipped"] else ""
    return f"{records}checkpoints {facts['checkpoints']}, restarts {facts['restarts']}{skipped}"
