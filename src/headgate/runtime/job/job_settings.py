"""The job master's settings, resolved from the configuration once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.storage.uris import scheme_of
from headgate.common.settings import options as o
from headgate.common.settings.config import Config, effective_restart_strategy
from headgate.common.settings.options import SAME_FAILURE_ACTION, SameFailureAction
from headgate.core import restart_strategies
from headgate.core.alignment.settings import AlignmentSettings
from headgate.core.checkpoint.requests import CheckpointSettings
from headgate.core.checkpoint.retention import (
    NEVER_RETAIN,
    RETAIN_ALWAYS,
    RETAIN_ON_CANCELLATION,
    RETAIN_ON_FAILURE,
)
from headgate.runtime.job.shipped_program import WorkerSettings


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of one job for its job master; `common.settings.options` explains each option."""

    checkpoints: CheckpointSettings
    alignment: AlignmentSettings
    storage: str | None  # URI of the checkpoint directory; None: they are off, or in the driver's memory
    savepoint_dir: str | None  # default directory of savepoints
    fallback_to_older: bool  # whether a restore skips a damaged checkpoint and takes an older one
    older_snapshot: o.OlderSnapshot  # what to do when sinks committed output after the restored snapshot
    restart: restart_strategies.RestartSpec
    same_failure: SameFailureAction  # what to do when the same failure repeats
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int  # after which a worker without heartbeats counts as lost
    lease_ms: int  # after which a worker that lost its driver exits
    redeploy_timeout_ms: int  # how long workers may take to become idle before a redeployment
    rescale_timeout_ms: int  # how long a rescaled job may take until it runs
    worker: WorkerSettings


_RETENTION: Final = {
    None: RETAIN_ALWAYS,
    o.ExternalizedRetention.RETAIN_ON_CANCELLATION: RETAIN_ON_CANCELLATION,
    o.ExternalizedRetention.DELETE_ON_CANCELLATION: RETAIN_ON_FAILURE,
    o.ExternalizedRetention.NO_EXTERNALIZED_CHECKPOINTS: NEVER_RETAIN,
}


def job_settings(config: Config) -> JobSettings:
    """Return the settings of a job for its job master and workers, from a validated configuration."""
    get = config.get
    interval = get(o.CHECKPOINTING_INTERVAL)
    alignment = AlignmentSettings(
        exactly_once=get(o.CHECKPOINTING_MODE) is o.CheckpointingMode.EXACTLY_ONCE,
        unaligned=get(o.UNALIGNED),
        timeout_ms=get(o.ALIGNED_TIMEOUT),
    )
    return JobSettings(
        checkpoints=CheckpointSettings(
            interval_ms=interval,
            min_pause_ms=get(o.CHECKPOINTING_MIN_PAUSE),
            max_concurrent=get(o.CHECKPOINTING_MAX_CONCURRENT),
            timeout_ms=get(o.CHECKPOINTING_TIMEOUT),
            tolerable_failures=get(o.CHECKPOINTING_TOLERABLE_FAILURES),
            num_retained=get(o.CHECKPOINTING_NUM_RETAINED),
            retention=_RETENTION[get(o.EXTERNALIZED_RETENTION)],
        ),
        alignment=alignment,
        storage=get(o.CHECKPOINTING_DIR) if interval is not None else None,
        savepoint_dir=get(o.SAVEPOINT_DIR),
        fallback_to_older=get(o.FALLBACK_TO_OLDER),
        older_snapshot=get(o.OLDER_SNAPSHOT),
        restart=_restart(config),
        same_failure=get(SAME_FAILURE_ACTION),
        heartbeat_interval_ms=get(o.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=get(o.HEARTBEAT_TIMEOUT),
        lease_ms=get(o.LEASE),
        redeploy_timeout_ms=get(o.REDEPLOY_TIMEOUT),
        rescale_timeout_ms=get(o.RESCALE_TIMEOUT),
        worker=_worker(config, alignment),
    )


def _worker(config: Config, alignment: AlignmentSettings) -> WorkerSettings:
    get, backup, storage = config.get, config.get(o.LOCAL_BACKUP), config.get(o.CHECKPOINTING_DIR)
    in_memory = storage is not None and scheme_of(storage) == "memory"
    return WorkerSettings(
        step_target_ms=get(o.STEP_TARGET),
        mark_interval_ms=get(o.MARK_INTERVAL),
        failing_records=(get(o.QUARANTINE_RECORDS), get(o.QUARANTINE_SHARE)),
        eager=get(o.CHANGELOG_EMISSION) is o.ChangelogEmission.EAGER,
        buffer_timeout_ms=get(o.BUFFER_TIMEOUT),
        credit_initial=get(o.CREDIT_INITIAL),
        frame_size_max=get(o.FRAME_SIZE_MAX),
        inline_size_max=get(o.DATA_INLINE_THRESHOLD),
        ignore_unclaimed=get(o.IGNORE_UNCLAIMED_STATE),
        exactly_once=alignment.exactly_once,
        unaligned=alignment.unaligned,
        in_flight_bytes_max=get(o.IN_FLIGHT_SIZE_MAX),
        state_backend=get(o.STATE_BACKEND).value,
        rocksdb_memory_bytes=get(o.ROCKSDB_MEMORY),
        rocksdb_local_dir=get(o.ROCKSDB_LOCAL_DIR),
        rocksdb_timers=get(o.ROCKSDB_TIMERS) is o.TimerService.ROCKSDB,
        rocksdb_eager_migration=get(o.ROCKSDB_MIGRATION) is o.StateMigration.EAGER,
        rocksdb_windows_bytes=get(o.WINDOWS_MEMORY),
        rocksdb_statistics=get(o.ROCKSDB_STATISTICS),
        incremental=get(o.INCREMENTAL),
        changelog=get(o.CHANGELOG),
        changelog_materialize_ms=get(o.CHANGELOG_MATERIALIZE_INTERVAL),
        local_backup=get(o.RECOVER_FROM_LOCAL) if backup is None else backup,
        local_backup_dir=get(o.LOCAL_BACKUP_DIR),
        recover_from_local=get(o.RECOVER_FROM_LOCAL),
        memory_state_max=get(o.MEMORY_STATE_MAX) if in_memory else None,
    )


def _restart(config: Config) -> restart_strategies.RestartSpec:
    get, kind = config.get, effective_restart_strategy(config)
    if kind is o.RestartStrategyType.FIXED_DELAY:
        return restart_strategies.FixedDelay(get(o.FIXED_DELAY_ATTEMPTS), get(o.FIXED_DELAY_DELAY))
    if kind is o.RestartStrategyType.FAILURE_RATE:
        return restart_strategies.FailureRate(
            get(o.FAILURE_RATE_MAX), get(o.FAILURE_RATE_INTERVAL), get(o.FAILURE_RATE_DELAY)
        )
    if kind is o.RestartStrategyType.EXPONENTIAL_DELAY:
        return restart_strategies.ExponentialDelay(
            initial_ms=get(o.EXPONENTIAL_INITIAL_BACKOFF),
            max_ms=get(o.EXPONENTIAL_MAX_BACKOFF),
            multiplier=get(o.EXPONENTIAL_MULTIPLIER),
            jitter=get(o.EXPONENTIAL_JITTER),
            reset_after_ms=get(o.EXPONENTIAL_RESET_THRESHOLD),
            attempts=get(o.EXPONENTIAL_ATTEMPTS),
        )
    return restart_strategies.NoRestart()
