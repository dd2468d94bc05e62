"""OpenLineage's client for one job: the events of its run, and how they are sent."""

from __future__ import annotations

import importlib.metadata
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

import yaml
from openlineage.client import OpenLineageClient, set_producer
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    datasource_dataset,
    error_message_run,
    job_type_job,
    processing_engine_run,
    schema_dataset,
)

from headgate.runtime.driver.lineage.job_datasets import JobDataset, JobDatasets

PRODUCER: Final = "urn:headgate"  # OpenLineage asks for a URI of what makes the events
TIMEOUT_S: Final = 5.0  # of one request of the transport over HTTP

_QUOTED: Final = re.compile(r"""(['"]).{2,}\1""")
"""More than a single character, such as the name of a tag."""


class Moment(Enum):
    """What an event says of the run; by the names of OpenLineage."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class Happened:
    """What an event of a run says: moment and time, attempt and checkpoint, and of a failure the error."""

    moment: Moment
    time_ms: int
    attempt: int
    checkpoint: int | None = None
    error: tuple[str, str | None] | None = None  # message and traceback


class LineageClient:
    """Sends the events of one run. `config` is that of OpenLineage's client, as in its file.

    The run's id follows from the job's, so that a driver that takes the job over goes on with the same run.
    """

    def __init__(
        self, config: Mapping[str, Any], namespace: str, name: str, job_id: str, datasets: JobDatasets
    ) -> None:
        set_producer(PRODUCER)
        self._client = OpenLineageClient(config=dict(config))
        self._run, self._job_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"headgate:{job_id}")), job_id
        kind = job_type_job.JobTypeJobFacet("BATCH" if datasets.bounded else "STREAMING", "HEADGATE", "JOB")
        facets: dict[str, JobFacet] = {"jobType": kind}
        self._job = Job(namespace, name, facets)
        self._datasets = datasets

    def send(self, what: Happened) -> None:
        """Send an event; raises whatever the transport does if it is not taken."""
        event = RunEvent(
            eventTime=datetime.fromtimestamp(what.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            producer=PRODUCER,
            run=Run(self._run, self._facets(what)),
            job=self._job,
            eventType=RunState[what.moment.value],
            inputs=[
                InputDataset(each.dataset.namespace, each.dataset.name, facets=_facets(each))
                for each in self._datasets.inputs
            ],
            outputs=[
                OutputDataset(each.dataset.namespace, each.dataset.name, facets=_facets(each))
                for each in self._datasets.outputs
            ],
        )
        self._client.emit(event)

    def close(self) -> None:
        """Wait for what the transport still holds, and end it."""
        self._client.close(TIMEOUT_S)

    def _facets(self, what: Happened) -> dict[str, RunFacet]:
        version = importlib.metadata.version("headgate")
        facets: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(version, "headgate", version),
            "headgate_checkpoint": RunFacet().with_additional_properties(
                jobId=self._job_id, attempt=what.attempt, checkpointId=what.checkpoint
            ),
        }
        if what.error is not None:
            message, trace = what.error
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON", trace)
        return facets


def _facets(dataset: JobDataset) -> dict[str, DatasetFacet]:
    namespace = dataset.dataset.namespace
    facets: dict[str, DatasetFacet] = {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(
            name=namespace, uri="file:///" if namespace == "file" else namespace
        )
    }
    if dataset.columns:
        fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in dataset.columns]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields)
    return facets


def client_config(url: str | None, token: str | None, file: str | None) -> dict[str, Any]:
    """Return the configuration of OpenLineage's client: what its `file` says, or a transport to `url`.
    ValueError: the file holds no configuration; OSError: it cannot be read.
    """
    found: dict[str, Any] = {}
    if file is not None:
        try:
            read = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"it is no YAML: {_problem(error)}") from None
        if not isinstance(read, dict) or not isinstance(read.get("transport"), dict):
            raise ValueError("it has no section 'transport'")
        found = read
    elif url is not None:
        transport: dict[str, Any] = {"type": "http", "url": url, "timeout": TIMEOUT_S, "retry": {"total": 1}}
        if token is not None:
            transport["auth"] = {"type": "api_key", "apiKey": token}
        found = {"transport": transport}
    facets = found.setdefault("facets", {})
    # The folder of a program says nothing of whether git's repository there is the job's.
    facets.setdefault("source_code_location", {"disabled": True})
    return found


def _problem(error: yaml.YAMLError) -> str:
    # Without the text that is quoted in it: the file may hold the key of a server.
    if not isinstance(error, yaml.MarkedYAMLError):
        return type(error).__name__
    where = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
    return _QUOTED.sub("'...'", error.problem or type(error).__name__) + where
