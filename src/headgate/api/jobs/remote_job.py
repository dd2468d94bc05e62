"""Handle of a job in another process: found by its name, with the same requests as a job of this process. It
talks to the endpoint of the job's driver; `docs/control.md` describes what goes over the wire.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from typing_extensions import override

from headgate.api.checking.arguments import check_seconds
from headgate.api.jobs.executor_contract import JobStatus
from headgate.api.jobs.job_handle import CANCEL_WAIT_S, JobRequests
from headgate.common import errors
from headgate.common.decoders import converter
from headgate.common.errors import HeadgateError, InternalError, OperatingError, UsageError
from headgate.common.files.durable import clock
from headgate.common.files.job_files import JobFile, KnownJob, keeps_checkpoints, known_jobs
from headgate.common.keys.key_text import key_text
from headgate.common.plain_data import Json

ANSWER_WAIT_S: Final = 20.0  # how long the driver may take for an answer that it gives at once
POLL_S: Final = 10.0  # how long one request waits for an outcome
END_POLL_S: Final = 0.02  # how often to look whether a driver that ends its job is gone
TRACES_WAIT_S: Final = 10  # how long to wait for traced records that have not come where they were sent
WHY_S: Final = 3  # how long the workers' loops are sampled for what holds the job up
NAMED_MAX: Final = 10
TERMINAL: Final = frozenset({"finished", "failed", "cancelled"})

Answer: TypeAlias = dict[str, Any]  # plain values, as the endpoint's pages in `docs/control.md` describe them

_job_status: Final = converter(JobStatus)


class RemoteJob(JobRequests):
    """Handle of a running job of this user, in another process or this one; :func:`connect` gives one.

    Paths of savepoints are paths of the driver's machine.

    Args:
        job: its id, its name, or the beginning of its id.

    Raises:
        UsageError: there is no such job, or several; the message names the running jobs.
        OperatingError: the job's driver died.
    """

    def __init__(self, job: str) -> None:
        found = find_job(job, known_jobs())
        self._file: JobFile = found.file
        self.name, self.job_id = found.file.name, found.file.job_id
        if found.exited:
            raise OperatingError(
                f"job {self.name!r} ({self.job_id}) is gone: its driver, process {found.file.pid}, died "
                "without a word; start it again from its last checkpoint"
            )

    @property
    def done(self) -> bool:
        """Whether the job has ended, or its driver died; OperatingError if a live driver does not answer."""
        try:
            return self.status().state in TERMINAL
        except OperatingError:
            if self._still_there():
                raise
            return True

    def status(self) -> JobStatus:
        """Return the job's status now; OperatingError if its driver does not answer, as when it has ended."""
        return _job_status(self._ask("GET", "/v1/job"))

    def checkpoints(self) -> Answer:
        """Return the job's checkpoint history as a dict: `job` (its id), `job_name`, and `checkpoints`, the
        records that ``headgate checkpoints --json`` prints. OperatingError: the driver does not answer.
        """
        return self._ask("GET", "/v1/checkpoints")

    def plan(self) -> Answer:
        """Return the running plan as a dict with `vertices` and `edges`; OperatingError: no answer."""
        return self._ask("GET", "/v1/plan")

    def snapshot(self) -> Answer:
        """Return the status with the rates of each operator in the last seconds, and what holds the job up,
        as a dict: the fields of ``GET /v1/snapshot`` in `docs/page.md`. OperatingError: no answer.
        """
        return self._ask("GET", "/v1/snapshot")

    def why(self, seconds: int = WHY_S) -> Answer:
        """Return what holds the job up, as a dict: the fields of ``GET /v1/why`` in `docs/why.md`.

        The workers' loops are sampled first, for so many seconds; 0: they are not. A sampling that somebody
        else has begun is left alone. OperatingError: the job's driver does not answer.
        """
        if seconds > 0:
            if not self._ask("GET", "/v1/profile")["runs"]:
                self._ask("POST", "/v1/profile", {"seconds": seconds})
            clock.sleep(seconds)
        return self._ask("GET", "/v1/why")

    def trace(self, every: int = 1_000, seconds: int = 5) -> Answer:
        """Follow one record in `every` on its way through the job, for so many seconds; return the ways and
        times, as a dict: the fields of ``GET /v1/traces`` in `docs/trace.md`.

        A tracing that somebody else has begun ends. Records that are still on their way then are waited for,
        ten seconds at most.

        Raises:
            UsageError: `every` or `seconds` is out of its range.
            OperatingError: the job's driver does not answer.
        """
        begun = self._ask("POST", "/v1/traces", {"every": every, "seconds": seconds})
        # Workers hear of it by one heartbeat, and send by another what they have found.
        clock.sleep(seconds + 0.5 + 2 * begun["heartbeat_ms"] / 1000)
        until = clock.monotonic() + TRACES_WAIT_S
        while not _whole(found := self._ask("GET", "/v1/traces")) and clock.monotonic() < until:
            clock.sleep(0.5)
        return found

    def log_level(self, level: str, logger: str = "") -> str:
        """Change how much the job logs, in its driver and workers, until it ends; return what is set now.

        Args:
            level: "debug", "info", "warning", "error", or "unset": as it was before.
            logger: which one, with those below it; "": all.

        Raises:
            UsageError: there is no such level.
            OperatingError: the job's driver does not answer.
        """
        return str(self._request("log-level", {"level": level, "logger": logger}, None))

    def logs(
        self, process: str | None = None, level: str | None = None, text: str = "", limit: int | str = 200
    ) -> Answer:
        """Return the newest log lines of driver and workers, as a dict: the fields of ``GET /v1/logs``.

        Args:
            process: "driver", "workers", or one such as "worker-0"; None: all.
            level: the least one: "debug", "info", "warning" or "error"; None: all.
            text: what message, logger or uid contains, in upper or lower case.
            limit: most lines.

        Raises:
            UsageError: one of these cannot be asked for.
            OperatingError: the job's driver does not answer.
        """
        given = {"process": process, "level": level, "text": text, "limit": str(limit)}
        return self._ask("GET", f"/v1/logs?{urlencode({name: each for name, each in given.items() if each})}")

    def report(self, sampling_s: int = 2) -> Answer:
        """Return all that the driver knows of the job, without secrets, as a dict: the parts that ``headgate
        report`` writes. The workers' loops are sampled first, as by :meth:`why`. OperatingError: no answer.
        """
        with suppress(OperatingError):
            self.why(sampling_s)
        return self._ask("GET", "/v1/report")

    def __repr__(self) -> str:
        return f"<RemoteJob {self.name!r} ({self.job_id})>"

    def cancel(self, timeout_s: float | None = CANCEL_WAIT_S) -> None:
        """End the job now, without a savepoint, and wait for its end; a job that has ended is left alone.

        Args:
            timeout_s: how long to wait; 0: not at all; None: until it has ended.

        Raises:
            PlanError: `timeout_s` is below 0; the job is not cancelled.
            TimeoutError: the job has not ended yet, but will.
            OperatingError: the job's driver is there and does not answer.
        """
        check_seconds("cancel", timeout_s, zero=True)
        try:
            if timeout_s == 0:
                self._ask("POST", "/v1/cancel", {})
            else:
                self.cancelled(timeout_s)
        except OperatingError:
            if self._still_there():
                raise

    def cancelled(self, timeout_s: float | None = None) -> str:
        """Cancel the job, wait for its end, and return its last state, such as "cancelled".

        Raises:
            TimeoutError: it has not ended within `timeout_s` (None: wait as long as it takes).
            OperatingError: the job's driver does not answer, as when the job has ended.
        """
        return str(self._request("cancel", {}, timeout_s))

    def look(self, uid: str, state: str, key: Hashable) -> Answer:
        """Return the value of a keyed state for a key, as of a moment that `docs/queryable-state.md` tells.

        Args:
            uid: of the operator.
            state: name of the state.
            key: as ``key_by()`` made it of a record.

        Returns:
            a dict: ``value``, as far as JSON can say it (else None, and ``in_json`` is false), and ``text``.

        Raises:
            UsageError: there is no such operator or state, or the key cannot be one.
            NoEntryError: nothing is stored under the key.
            OperatingError: the job does not run at present, or did not answer in time.
        """
        path = f"/v1/state/{quote(uid, safe='')}/{quote(state, safe='')}"
        return self._ask("GET", f"{path}?{urlencode({'key': key_text(key)})}")

    @override
    def _request(self, what: str, arguments: Mapping[str, Json], timeout_s: float | None) -> Json:
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        operation = self._ask("POST", f"/v1/{what}", arguments)
        while operation["state"] == "running":
            left = POLL_S if until is None else min(POLL_S, until - clock.monotonic())
            if left < 0:
                raise TimeoutError(
                    f"the {what} of job {self.name!r} goes on after {timeout_s:g} s of waiting"
                )
            path = f"/v1/operations/{operation['operation']}?wait_ms={int(left * 1000)}"
            operation = self._ask("GET", path)
        if operation["state"] == "failed":
            raise _error(operation["error"])
        result: Json = operation["result"]
        return result

    @override
    def _await_end(self, until: float) -> None:
        while (self._still_there() or keeps_checkpoints(self._file)) and clock.monotonic() < until:
            clock.sleep(END_POLL_S)

    def _ask(self, method: str, path: str, arguments: Mapping[str, Json] | None = None) -> Answer:
        body = None if arguments is None else json.dumps(arguments)
        headers = {"Authorization": f"Bearer {self._file.secret}", "Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unheard(error) from None
        finally:
            connection.close()
        try:
            found: Answer = json.loads(data)
        except ValueError:
            raise OperatingError(
                f"job {self.name!r} answered with HTTP status {status} and no JSON; ask again, or look into "
                "the driver's log"
            ) from None
        if status >= 400:
            raise _error(found["error"])
        return found

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._file.address)
        host, port = parts.hostname or "", parts.port
        wait_s = POLL_S + ANSWER_WAIT_S
        if self._file.certificate is None:
            return http.client.HTTPConnection(host, port, timeout=wait_s)
        context = ssl.create_default_context(cadata=self._file.certificate)
        # This very certificate is expected, whoever signed it and whatever name it is for.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        return http.client.HTTPSConnection(host, port, timeout=wait_s, context=context)

    def _unheard(self, error: Exception) -> OperatingError:
        if self._still_there():
            return OperatingError(
                f"job {self.name!r} does not answer at {self._file.address} ({error}); its driver, process "
                f"{self._file.pid} on {self._file.host}, may be overloaded or stopped"
            )
        return OperatingError(
            f"job {self.name!r} ({self.job_id}) has ended, or its driver died, before it answered; look into "
            "the driver's log"
        )

    def _still_there(self) -> bool:
        return any(job.file.job_id == self.job_id and not job.exited for job in known_jobs())


def connect(job: str) -> RemoteJob:
    """Return a handle of a running job of this user on this machine, in whatever process it runs.

    Args:
        job: its id, its name, or the beginning of its id.

    Raises:
        UsageError: there is no such job, or several; the message names the running jobs.
        OperatingError: the job's driver died.
    """
    return RemoteJob(job)


def find_job(job: str, known: Sequence[KnownJob]) -> KnownJob:
    """Return the job of `known` whose id or name is `job`, or whose id begins with `job`. Running jobs come
    first, then the last whose driver died. UsageError, naming running jobs, if none or several of them fit.
    """
    running = [each for each in known if not each.exited]
    for group in (running, [each for each in known if each.exited]):
        for meant in (
            [each for each in group if each.file.job_id == job],
            [each for each in group if each.file.name == job],
            [each for each in group if job and each.file.job_id.startswith(job)],
        ):
            if len(meant) > 1 and group is running:
                raise UsageError(f"{job!r} can be any of several jobs; give one of {_named(meant)}")
            if meant:
                return meant[-1]
    there = f"running are {_named(running)}" if running else "no job of yours is running on this machine"
    raise UsageError(f"there is no job {job!r}; {there}")


def _named(jobs: Sequence[KnownJob]) -> str:
    names = [f"{each.file.job_id} ({each.file.name!r})" for each in jobs[-NAMED_MAX:]]
    more = f" and {len(jobs) - NAMED_MAX} more" if len(jobs) > NAMED_MAX else ""
    return ", ".join(names) + more


def _error(facts: Mapping[str, str]) -> HeadgateError:
    kind = getattr(errors, facts.get("kind", ""), OperatingError)
    usual = isinstance(kind, type) and issubclass(kind, HeadgateError)
    if not usual or kind in (InternalError, errors.UserFunctionError):
        kind = OperatingError
    made: HeadgateError = kind(facts.get("message", "the job told no reason"))
    return made


def _whole(traces: Answer) -> bool:
    visits = (visit for way in traces["ways"] for visit in way["visits"])
    return all(exchange["came"] for visit in visits for exchange in visit["sent"])
