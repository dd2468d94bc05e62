"""Shows running jobs on the terminal: the list of them, and one in full."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec
from rich.markup import escape

from headgate.api.jobs.executor_contract import JobStatus, StuckCall
from headgate.api.jobs.remote_job import RemoteJob
from headgate.api.source import SourceReport
from headgate.cli.terminal_tables import lines, moment, table
from headgate.common.errors import HeadgateError
from headgate.common.files.job_files import KnownJob
from headgate.common.plain_data import Json
from headgate.common.process.loopback import is_loopback

ASKED_AT_ONCE: Final = 8
_STYLES: Final = {"running": "green", "finished": "green", "failed": "red", "failing": "red", "gone": "red"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A listed job, as its driver answered.
    `state`: that of `status`, or "gone" (the driver died), "silent" (no answer: `remark` says why),
    "elsewhere" (the driver can be asked on its own machine only); `status` is None then.
    """

    job: KnownJob
    state: str
    status: JobStatus | None = None
    remark: str = ""

    def facts(self) -> dict[str, Json]:
        file = self.job.file
        return {
            "job_id": file.job_id,
            "name": file.name,
            "state": self.state,
            "pid": file.pid,
            "host": file.host,
            "address": file.address,
            "started_ms": file.started_ms,
            "remark": self.remark,
            "status": None if self.status is None else msgspec.to_builtins(self.status),
        }


def look(known: Sequence[KnownJob]) -> list[Seen]:
    """Ask the drivers of all known jobs, several at a time; return each job with the answer, in order."""
    if not known:
        return []
    with ThreadPoolExecutor(min(len(known), ASKED_AT_ONCE)) as pool:
        return list(pool.map(_seen, known))


def _seen(job: KnownJob) -> Seen:
    file = job.file
    if job.exited:
        return Seen(job, "gone", remark=f"its driver, process {file.pid}, died without cleaning up")
    # The same address is another process here, which must not get the job's secret.
    if file.host != socket.gethostname() and is_loopback(urlsplit(file.address).hostname or ""):
        return Seen(job, "elsewhere", remark=f"it can be asked on {file.host} only")
    try:
        status = RemoteJob(file.job_id).status()
    except HeadgateError as error:
        return Seen(job, "silent", remark=str(error))
    return Seen(job, status.state, status)


def listed(jobs: Sequence[Seen], color: bool = False) -> str:
    if not jobs:
        return "no job of yours is running"
    made = table(["job", "name", "state", "since (UTC)", ">parallelism", ">restarts", ">checkpoints", ""])
    for seen in jobs:
        status, file = seen.status, seen.job.file
        figures = ["-", "-", "-"]
        if status is not None:
            numbers = (status.parallelism, status.restarts, status.checkpoints_completed)
            figures = [str(number) for number in numbers]
        made.add_row(
            escape(file.job_id),
            escape(file.name),
            _state(seen.state),
            moment(file.started_ms),
            *figures,
            escape(seen.remark),
        )
    return "\n".join(lines(made, color)).rstrip()


def shown(status: JobStatus, color: bool = False) -> str:
    failed = f", {status.checkpoints_failed} failed" if status.checkpoints_failed else ""
    latest = "none yet" if status.latest_checkpoint is None else f"the last is {status.latest_checkpoint}"
    if status.latest_duration_ms is not None:
        latest += f", took {status.latest_duration_ms} ms"
    job, state = f"job {escape(repr(status.name))} ({escape(status.job_id)})", _state(status.state)
    parallelism = f"parallelism {status.parallelism} of {status.max_parallelism}"
    completed = f"{status.checkpoints_completed} completed{failed}, {len(status.pending)} pending; {latest}"
    texts = [
        f"{job} is {state} since {moment(status.started_ms)} UTC",
        f"attempt {status.attempt}, {status.restarts} restarts, {parallelism}",
        f"checkpoints: {completed}; savepoints: {status.savepoints_completed}",
    ]
    remarks = {"last failure": status.last_failure, "last failed checkpoint": status.last_checkpoint_failure}
    texts += [f"{name}: {escape(text)}" for name, text in remarks.items() if text]
    if status.repeating is not None:
        texts.append(f"[yellow]{escape(status.repeating.text)}[/]")
    texts += [f"{name.replace('_', ' ')}: {escape(address)}" for name, address in status.links.items()]
    texts += [_epochs(uid, report) for uid, report in status.sources.items()]
    texts += [_stuck(call) for call in status.stuck]
    made = table(["operators", "uids", ">parallelism", ">records in", ">records out", ">busy", "watermark"])
    for vertex in status.vertices:
        made.add_row(
            escape(vertex.name),
            escape(", ".join(vertex.uids)),
            str(vertex.parallelism),
            f"{vertex.records_in:,}",
            f"{vertex.records_out:,}",
            f"{vertex.busy_ms / 1000:.1f} s",
            "-" if vertex.watermark is None else _watermark(vertex.watermark),
        )
    return "\n".join([*(line for part in texts for line in lines(part, color)), *lines(made, color)]).rstrip()


def _epochs(uid: str, report: SourceReport) -> str:
    text = "no epoch yet"
    if report.epoch is not None:
        text = f"epoch {report.epoch:,} of {report.rows:,} rows ({report.rate_per_s:,.0f} rows/s)"
    if report.latency_ms:
        text += f", {report.latency_ms / 1000:.2f} s from its planning to its checkpoint"
    waiting = f"; waits for {report.waiting}" if report.waiting else ""
    return f"source {escape(repr(uid))}: {text}{escape(waiting)}"


def _stuck(call: StuckCall) -> str:
    where = "".join(f"\n    {line}" for line in call.stack.splitlines())
    busy = f"[yellow]busy for {call.for_ms / 1000:.1f} s without progress[/], in"
    return f"{escape(call.operator)}, subtask {call.subtask}: {busy}{escape(where)}"


def _state(state: str) -> str:
    style = _STYLES.get(state, "yellow")
    return f"[{style}]{escape(state)}[/]"


def _watermark(ms: int) -> str:
    try:
        return moment(ms)
    except (ValueError, OverflowError, OSError):
        return str(ms)  # the end of event time is no date
