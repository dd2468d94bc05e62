"""Starts and ends the HTTP endpoint of a job: it listens before the job begins and ends with the job."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.errors import StorageError
from headgate.common.files.job_files import JobFile, PublishedJob, forget_old
from headgate.runtime.driver.endpoint.endpoint_settings import EndpointSettings, listening
from headgate.runtime.driver.endpoint.operations import Operations
from headgate.runtime.driver.endpoint.served import ServedJob

if TYPE_CHECKING:
    import uvicorn

SECRET_BYTES: Final = 32
OUTCOMES_WAIT_S: Final = 2.0  # how long the end of the job waits until clients have fetched outcomes
CLOSE_WAIT_S: Final = 3.0  # how long it waits for answers that are being sent

_LOG: Final = logging.getLogger("headgate.endpoint")


class Endpoint:
    """One job's HTTP endpoint: listens once created (else ConfigError), and answers after :meth:`begin`.
    Requests must show its `secret`.
    """

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings, self._socket = settings, listening(settings)
        self._operations = Operations()
        self.secret = secrets.token_urlsafe(SECRET_BYTES)
        self._published: PublishedJob | None = None
        self._thread: threading.Thread | None = None
        self._job: ServedJob | None = None
        self._server: uvicorn.Server | None = None
        self._closing = threading.Event()

    @property
    def address(self) -> str:
        return self._settings.reached_at(self._socket.getsockname()[1])

    def begin(self, job: ServedJob) -> bool:
        """Write the job's file, by which commands find address and secret, and answer requests from now on.
        If it cannot be written: StorageError if the user set the endpoint on, else warn, and return False.
        """
        try:
            forget_old()
            self._published = PublishedJob(self._file(job))
        except StorageError as error:
            if self._settings.demanded:
                raise
            _LOG.warning("the job runs without an endpoint: %s", error)
            self._socket.close()
            return False
        self._job = job
        self._thread = threading.Thread(target=self._run, args=(job,), name="headgate-endpoint", daemon=True)
        self._thread.start()
        if job.keeper is not None:
            job.keeper.begin()
        return True

    def close(self, state: str | None = None) -> None:
        """Close the endpoint; cancel requests get outcome `state`; a second call does nothing. Waits 2 s at
        most for clients to fetch outcomes, then 3 s for answers that are being sent.
        """
        if self._published is not None:
            self._operations.end("cancel", state)
            self._operations.all_fetched(OUTCOMES_WAIT_S)
            self._published.withdraw()
            self._published = None
        if self._closing.is_set():
            return
        self._closing.set()
        if self._job is not None and self._job.keeper is not None:
            self._job.keeper.close()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is None:
            self._socket.close()
        elif self._operations.any or (self._job is not None and self._job.watch.streams):
            self._thread.join(CLOSE_WAIT_S)

    def _file(self, job: ServedJob) -> JobFile:
        certificate = self._settings.certfile
        return JobFile(
            job_id=job.job_id,
            name=job.name,
            pid=os.getpid(),
            host=socket.gethostname(),
            started_ms=job.started_ms,
            address=self.address,
            secret=self.secret,
            storage=job.storage,
            certificate=None if certificate is None else _leaf(Path(certificate).read_text()),
        )

    def _run(self, job: ServedJob) -> None:
        try:
            with self._socket:
                # Here, because the libraries take as long to load as a small job to begin.
                from headgate.runtime.driver.endpoint.http_server import server_of

                self._server = server_of(job, self._operations, self.secret, self._settings, self._socket)
                if not self._closing.is_set():
                    self._server.run(sockets=[self._socket])
        except Exception:
            _LOG.warning("the endpoint of the job stopped; the job goes on without it", exc_info=True)


def _leaf(text: str) -> str:
    # The endpoint's own certificate, the first in its PEM file, without those of its issuers.
    begin, end = text.index(ssl.PEM_HEADER), text.index(ssl.PEM_FOOTER) + len(ssl.PEM_FOOTER)
    return text[begin:end] + "\n"
