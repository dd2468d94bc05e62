"""An endpoint with a job behind it that remembers what it was asked for, and bytes to and from it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import headgate as hg
from headgate.api.jobs.executor_contract import JobStatus, Then, VertexStatus
from headgate.api.jobs.remote_job import RemoteJob, connect
from headgate.common.files.job_files import JobFile, known_jobs
from headgate.common.settings.config import Config
from headgate.metrics.of_jobs import RESTARTS
from headgate.runtime.driver.endpoint.endpoint_settings import endpoint_settings
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.served import ServedJob
from headgate.runtime.driver.endpoint.serving import Endpoint
from headgate.runtime.driver.metrics.job_metrics import Family, Sample
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.live_state import LiveState

PATIENCE_S = 20
ID = "words-1"


def status_of_sample() -> JobStatus:
    """A status with every field."""
    vertex = VertexStatus("Count", ["count"], 2, 10, 9, 5, 0, None)
    return JobStatus(
        ID, "words", "running", 1, 0, 1, 2, 128, 1_700_000_000_000, 4, 3, 1, 0, [5], 4, 12, None, None, None,
        [vertex],
    )  # fmt: skip


@dataclass
class AskedControl:
    """Implements `api.executor.JobControl`: remembers the wishes, and answers at once or when told."""

    wishes: list[tuple[Any, ...]] = field(default_factory=list)
    held: list[Then] = field(default_factory=list)
    holds: bool = False
    error: hg.HeadgateError | None = None

    def status(self) -> JobStatus:
        return status_of_sample()

    def checkpoint(self, then: Then) -> None:
        self._note(("checkpoint",), then)

    def savepoint(self, target: str | None, format: str, then: Then) -> None:  # noqa: A002
        self._note(("savepoint", target, format), then)

    def stop(self, target: str | None, format: str, drain: bool, then: Then) -> None:  # noqa: A002
        self._note(("stop", target, format, drain), then)

    def rescale(self, parallelism: int, then: Then, from_last: bool = False) -> None:
        self._note(("rescale", parallelism, from_last), then)

    def cancel(self) -> None:
        self.wishes.append(("cancel",))

    def _note(self, wish: tuple[Any, ...], then: Then) -> None:
        self.wishes.append(wish)
        if self.holds:
            self.held.append(then)
        else:
            then(f"file:///{wish[0]}", self.error)


@dataclass
class Answering:
    """A running endpoint."""

    control: AskedControl
    endpoint: Endpoint
    file: JobFile

    @property
    def job(self) -> RemoteJob:
        return connect(ID)

    def says(self, request: bytes) -> bytes:
        """All that comes back on a connection of its own, until the endpoint closes it."""
        with self.connection() as line, suppress(ConnectionError):
            line.sendall(request)
            parts = iter(lambda: line.recv(65536), b"")
            return b"".join(parts)
        return b""

    def asks(
        self, method: str, path: str, body: bytes = b"", **headers: str | None
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON of one request; a header that is None is left out."""
        shown: dict[str, str | None] = {
            "host": urlsplit(self.file.address).netloc,
            "authorization": f"Bearer {self.file.secret}",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in shown.items() if value is not None)
        answer = self.says(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
        top, _, content = answer.partition(b"\r\n\r\n")
        return int(top.split()[1]), json.loads(content)

    def connection(self) -> socket.socket:
        """A new one."""
        parts = urlsplit(self.file.address)
        return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)


@contextmanager
def answering(live: Callable[..., Any] | None = None, **options: Any) -> Iterator[Answering]:
    """An endpoint; the folder of jobs must be the test's own.

    Args:
        live: takes (uid, state, key), gives the value or raises.
        options: more settings, by key.
    """
    control = AskedControl()
    settings = endpoint_settings(Config().with_program({"rest.enabled": True, **options}), by_default=False)
    assert settings is not None
    plan = _plan()
    endpoint = Endpoint(settings)
    job = ServedJob(
        job_id=ID,
        name="words",
        started_ms=1_700_000_000_000,
        control=control,
        live=LiveState(_query(live or _nothing), lambda callback: callback()),
        plan=lambda: plan,
        records=lambda: (),
        metrics=lambda: [Family(RESTARTS, [Sample({}, 3)])],
        post=lambda callback: callback(),
        watch=JobWatch(plan, Config(), JobListener()),
    )
    try:
        endpoint.begin(job)
        (known,) = known_jobs()
        yield Answering(control, endpoint, known.file)
    finally:
        endpoint.close("finished")


def _plan() -> hg.PhysicalPlan:
    env = hg.Environment()
    env.from_collection(["a"], uid="in").map(str).collect_later(uid="out")
    return env.plan()


def _query(live: Callable[..., Any]) -> Callable[..., None]:
    def query(uid: str, state: str, key: Any, then: Then) -> None:
        try:
            value = live(uid, state, key)
        except hg.HeadgateError as error:
            then(None, error)
        else:
            then(value, None)

    return query


def _nothing(uid: str, state: str, key: Any) -> Any:
    raise hg.NoEntryError(f"state {state!r} of operator {uid!r} holds nothing under key {key!r}")
