"""The status of a job at one moment, read from its job master in its loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from headgate.api.jobs.executor_contract import JobStatus, StuckCall, VertexStatus
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.graph.physical import Vertex
from headgate.metrics import metric_table as table
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol.messages import Counters


@runtime_checkable
class HasPages(Protocol):
    """A gang (the workers' launcher) that has web pages about itself, as Spark's; for links in the status."""

    @property
    def links(self) -> Mapping[str, str]:
        """URLs of the gang's web pages, by their names for people."""


def status_of(master: JobMaster, started_ms: int) -> JobStatus:
    """Return the job's present status for `headgate status`; `started_ms`: its start, ms since the epoch."""
    checkpoints, gang = master.checkpoints.coordinator.statistics(), master.ports.gang
    counters = master.counters()
    plan = master.plan
    return JobStatus(
        job_id=master.job,
        name=master.name,
        state=master.state.value,
        attempt=master.attempt,
        restarts=master.restarts,
        generation=master.checkpoints.generation,
        parallelism=plan.slots,
        max_parallelism=plan.max_parallelism,
        started_ms=started_ms,
        checkpoints_triggered=checkpoints.triggered,
        checkpoints_completed=checkpoints.completed,
        checkpoints_failed=checkpoints.failed,
        savepoints_completed=checkpoints.savepoints,
        pending=list(checkpoints.pending),
        latest_checkpoint=checkpoints.latest,
        latest_duration_ms=_duration_ms(master.checkpoints.history.records, checkpoints.latest),
        last_failure=master.last_failure,
        last_checkpoint_failure=checkpoints.last_failure,
        savepoint=master.savepoint,
        vertices=[_vertex(vertex, counters) for vertex in plan.vertices],
        sources=master.sources.reports(),
        links=dict(gang.links) if isinstance(gang, HasPages) else {},
        stuck=[
            StuckCall(still.operator, still.subtask, still.still_ms, still.stack)
            for still in master.standstills()
        ],
        repeating=master.repeating,
    )


def _duration_ms(records: Sequence[CheckpointRecord], latest: int | None) -> int | None:
    return next((record.duration_ms for record in records if record.checkpoint == latest), None)


def _vertex(vertex: Vertex, counters: Sequence[Counters]) -> VertexStatus:
    mine = [each for each in counters if each.vertex == vertex.id]
    mark = table.WATERMARK.merged(each.watermark for each in mine if each.watermark is not None)
    return VertexStatus(
        name=vertex.name,
        uids=[node.known_as for node in vertex.chain],
        parallelism=vertex.parallelism,
        records_in=table.RECORDS_IN.merged(each.records_in for each in mine),
        records_out=table.RECORDS_OUT.merged(each.records_out for each in mine),
        busy_ms=table.BUSY.merged(each.busy_ms for each in mine),
        backpressured_ms=table.BACKPRESSURED.merged(each.backpressured_ms for each in mine),
        watermark=None if mark == table.WATERMARK.unknown else mark,
    )
