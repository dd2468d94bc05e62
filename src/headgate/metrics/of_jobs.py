"""Metrics of a job as a whole, of its checkpoints, and of the processes of its workers."""

from __future__ import annotations

from typing import Final

from headgate.metrics.metric import Kind, Label, Merge, Metric, Place

STATES: Final = (
    *("created", "starting", "deploying", "running", "recovering", "rescaling", "finishing", "failing"),
    *("cancelling", "finished", "failed", "cancelled"),
)
"""The states of a job, as `headgate status` names them."""

JOB_STATE: Final = Metric(
    "headgate_job_state",
    Kind.GAUGE,
    "state",
    "The state of the job: 1 for that which it is in, 0 for all others.",
    place=Place.JOB,
    labels=(Label("state", STATES),),
    flink=("runningState", "restartingState"),
)
UPTIME: Final = Metric(
    "headgate_job_uptime_seconds",
    Kind.GAUGE,
    "seconds",
    "Time since the driver began with the job.",
    place=Place.JOB,
    flink=("uptime",),
    per_unit=1000,
)
ATTEMPT: Final = Metric(
    "headgate_attempt", Kind.GAUGE, "attempt", "Number of the present deployment, from 1.", place=Place.JOB
)
RESTARTS: Final = Metric(
    "headgate_restarts_total",
    Kind.COUNTER,
    "restarts",
    "Deployments that followed a failure.",
    place=Place.JOB,
    flink=("numRestarts", "fullRestarts"),
)
RESCALES: Final = Metric(
    "headgate_rescales_total",
    Kind.COUNTER,
    "rescales",
    "Changes of the parallelism while the job ran.",
    place=Place.JOB,
    flink=("numRescales",),
)
RECOVERY: Final = Metric(
    "headgate_recovery_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Times from a failure until all subtasks ran again.",
    place=Place.JOB,
    flink=("restartingTime",),
    per_unit=1000,
)
WORKERS: Final = Metric(
    "headgate_workers",
    Kind.GAUGE,
    "workers",
    "Workers that are connected.",
    place=Place.JOB,
    flink=("numRegisteredTaskManagers",),
)
OF_JOBS: Final = (JOB_STATE, UPTIME, ATTEMPT, RESTARTS, RESCALES, RECOVERY, WORKERS)

CHECKPOINTS: Final = Metric(
    "headgate_checkpoints_total",
    Kind.COUNTER,
    "checkpoints",
    "Checkpoints that have ended: complete, or aborted.",
    place=Place.CHECKPOINT,
    labels=(Label("result", ("completed", "failed")),),
    flink=("numberOfCompletedCheckpoints", "numberOfFailedCheckpoints"),
)
SAVEPOINTS: Final = Metric(
    "headgate_savepoints_total",
    Kind.COUNTER,
    "savepoints",
    "Savepoints that were stored.",
    place=Place.CHECKPOINT,
)
CHECKPOINTS_PENDING: Final = Metric(
    "headgate_checkpoints_pending",
    Kind.GAUGE,
    "checkpoints",
    "Checkpoints and savepoints in progress.",
    place=Place.CHECKPOINT,
    flink=("numberOfInProgressCheckpoints",),
)


def _last(name: str, unit: str, text: str, *flink: str, per_unit: int = 1) -> Metric:
    return Metric(
        f"headgate_checkpoint_{name}",
        Kind.GAUGE,
        unit,
        text,
        Merge.MAX,
        Place.CHECKPOINT,
        flink=flink,
        per_unit=per_unit,
    )


LAST_ID: Final = _last(
    "last_id", "checkpoint", "Id of the newest complete checkpoint.", "lastCompletedCheckpointId"
)
LAST_COMPLETED: Final = _last(
    "last_completed_timestamp_seconds",
    "seconds",
    "When the newest complete checkpoint was complete, as seconds since 1970.",
    "lastCheckpointCompletedTimestamp",
    per_unit=1000,
)
LAST_DURATION: Final = _last(
    "last_duration_seconds",
    "seconds",
    "Time of the newest complete checkpoint from its trigger until its output was committed.",
    "lastCheckpointDuration",
    per_unit=1000,
)
LAST_COMMIT: Final = _last(
    "last_commit_seconds",
    "seconds",
    "The part of that time after the checkpoint was stored: sinks commit their output.",
    per_unit=1000,
)
LAST_BYTES: Final = _last(
    "last_full_bytes",
    "bytes",
    "Bytes of all state in the newest complete checkpoint.",
    "lastCheckpointFullSize",
)
LAST_STATE: Final = _last(
    "last_state_bytes",
    "bytes",
    "Bytes of the subtask's state in the newest complete checkpoint.",
    "rocksdb.total-sst-files-size",
)
LAST_WRITTEN: Final = _last(
    "last_written_bytes", "bytes", "Bytes that were written for it anew.", "lastCheckpointSize"
)
LAST_IN_FLIGHT: Final = _last(
    "last_in_flight_bytes",
    "bytes",
    "Bytes of records in flight that were stored with it.",
    "lastCheckpointPersistedData",
)
LAST_START_DELAY: Final = _last(
    "last_start_delay_seconds",
    "seconds",
    "The longest time, among subtasks, from its trigger until the first barrier arrived.",
    "checkpointStartDelayNanos",
    per_unit=1000,
)
LAST_ALIGNMENT: Final = _last(
    "last_alignment_seconds",
    "seconds",
    "The longest time, among subtasks, from the first barrier to the last.",
    "checkpointAlignmentTime",
    per_unit=1000,
)
LAST_SYNC: Final = _last(
    "last_sync_seconds",
    "seconds",
    "The longest time, among subtasks, for which it has held up the loop.",
    per_unit=1_000_000,
)
LAST_ASYNC: Final = _last(
    "last_async_seconds",
    "seconds",
    "The longest time, among subtasks, in which its state was written in the background.",
    per_unit=1000,
)
OF_CHECKPOINTS: Final = (
    *(CHECKPOINTS, SAVEPOINTS, CHECKPOINTS_PENDING, LAST_ID, LAST_COMPLETED, LAST_DURATION, LAST_COMMIT),
    *(
        LAST_BYTES,
        LAST_STATE,
        LAST_WRITTEN,
        LAST_IN_FLIGHT,
        LAST_START_DELAY,
        LAST_ALIGNMENT,
        LAST_SYNC,
        LAST_ASYNC,
    ),
)

RESIDENT_BYTES: Final = Metric(
    "headgate_worker_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Resident memory of the worker's process.",
    place=Place.WORKER,
    flink=("Status.JVM.Memory",),
    unknown=0,
)
CPU: Final = Metric(
    "headgate_worker_cpu_seconds_total",
    Kind.COUNTER,
    "seconds",
    "Time that the worker's process has spent on processors, of all its threads.",
    place=Place.WORKER,
    flink=("Status.JVM.CPU.Time",),
    per_unit=1000,
)
GARBAGE: Final = Metric(
    "headgate_worker_gc_seconds_total",
    Kind.COUNTER,
    "seconds",
    "Time in which Python's garbage collector has held up the worker.",
    place=Place.WORKER,
    flink=("Status.JVM.GarbageCollector",),
    per_unit=1_000_000,
)
OF_WORKERS: Final = (RESIDENT_BYTES, CPU, GARBAGE)
