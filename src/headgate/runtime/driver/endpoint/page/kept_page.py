"""Keeps the page of a job: its last answers, in a file beside the history of the job's checkpoints.

`<job>/history/page.json` is written each minute and at the end, so that a job can be looked at when it has
ended, or its driver has died. It serves people only: no job reads it, it has no secret, it can be deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from headgate.api.jobs.executor_contract import JobControl
from headgate.checkpoint.layout import job_folder
from headgate.common.decoders import UNDECODABLE, json_decoder
from headgate.common.errors import HeadgateError, StorageError
from headgate.common.ids import JobId
from headgate.common.plain_data import Json
from headgate.common.ports import Disk
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.this_process import machine, versions
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.runtime.driver.endpoint.page.checkpoint_facts import facts_of, subtasks_of
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.page.plan_facts import plan_facts
from headgate.runtime.driver.endpoint.page.why_answer import why_facts

INSIDE: Final = "history/page.json"
DRIVER: Final = "/v1/driver"
METRICS: Final = "/v1/metrics"
"""What is kept for reports only, and no page asks for."""

FORMAT_VERSION: Final = 1
EVERY_S: Final = 60.0
CLOSE_WAIT_S: Final = 5.0  # how long the end of the job waits until its page is written

_LOG: Final = logging.getLogger("headgate.endpoint")


class KeptPage(msgspec.Struct, frozen=True):
    """The content of the file: by the path of a request, what was answered last."""

    answers: dict[str, Json]
    format_version: int = FORMAT_VERSION


_PAGES: Final = json_decoder(KeptPage)


class PageKeeper:
    """Writes the page of one running job to `disk`, in a thread of its own. What fails is logged once: no job
    fails, or waits for long, because of it.
    """

    def __init__(
        self,
        disk: Disk,
        job: JobId,
        control: JobControl,
        watch: JobWatch,
        named: LoggedJob,
        metrics: Callable[[], str],
    ) -> None:
        self._disk, self._job, self._control, self._watch = disk, job, control, watch
        self._named, self._metrics = named, metrics
        self._closing, self._failed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="headgate-page", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Write the page a last time, once the job has ended; wait 5 s at most."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            self._write()
        self._write()

    def _write(self) -> None:
        try:
            body = msgspec.json.encode(KeptPage(self._answers()))
            self._disk.create(f"{job_folder(self._job)}/{INSIDE}", [self._watch.settings.masked(body)])
        except (HeadgateError, OSError, UnicodeEncodeError) as error:
            if not self._failed:
                _LOG.warning("the page of the job could not be kept: %s", error)
            self._failed = True

    def _answers(self) -> dict[str, Json]:
        status, watch = self._control.status(), self._watch
        return {
            "/v1/snapshot": watch.snapshot(status),
            "/v1/why": why_facts(watch, status),
            "/v1/plan": plan_facts(status.name, watch.plan),
            "/v1/history": watch.history(),
            "/v1/subtasks": watch.subtasks(),
            "/v1/failures": watch.story(),
            "/v1/output": watch.output(),
            "/v1/logs": self._named.mask.facts(watch.logs.facts()),
            "/v1/config": {"options": watch.settings.facts()},
            **self._for_reports(),
        }

    def _for_reports(self) -> dict[str, Json]:
        # Only once the job has ended, metrics can be asked for outside of its loop.
        text = self._metrics() if self._watch.state is not None else None
        driver: dict[str, Json] = {
            "versions": versions(),
            "machine": machine(),
            "warnings": list(self._named.warnings),
        }
        mask = self._named.mask
        return {DRIVER: mask.facts(driver), METRICS: mask.facts(text)}


def kept_answers(data: bytes, where: str, records: tuple[CheckpointRecord, ...]) -> dict[str, Json]:
    """Return the answers by path of a kept page: `data` is the file `where`, `records` are of the job's
    checkpoints. StorageError: the file is damaged, or of a version that this program does not read.
    """
    try:
        kept = _PAGES.decode(data)
        status = kept.answers["/v1/snapshot"]
        if not isinstance(status, dict):
            raise TypeError("its status is no object")
    except UNDECODABLE as error:
        raise StorageError(f"{where} is no kept page of a job ({error}); it can be deleted") from None
    if kept.format_version != FORMAT_VERSION:
        raise StorageError(
            f"{where} has format version {kept.format_version}, this program reads {FORMAT_VERSION}; use the "
            "version of Headgate that wrote it"
        )
    story = status.get("story") or kept.answers.get("/v1/failures")
    return {
        **kept.answers,
        "/v1/snapshot": {**status, "over": True, "story": story},
        "/v1/checkpoint-times": {"checkpoints": [facts_of(each) for each in records]},
        **{f"/v1/checkpoint-times/{each.checkpoint}": subtasks_of(each) for each in records},
    }
