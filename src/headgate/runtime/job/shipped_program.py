"""The program as the driver ships it to the workers: the plan with the user's functions, and settings.

It is pickled by cloudpickle, which records and state never are, and sent only after the authenticated
handshake. User code in an isolated namespace is pickled with that namespace's own copy of cloudpickle.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.common.ids import EdgeId
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.graph.physical import PhysicalPlan
from headgate.serde.shipping.shipping_pickler import shipping_pickler

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a job that its workers need; sizes are in bytes, other units end the names."""

    step_target_ms: int = 10  # desired duration of a step of the worker's loop
    mark_interval_ms: int = 100  # how long an epoch of marks lasts
    failing_records: tuple[int, float] = (1_000, 0.01)  # how many may fail between checkpoints: number, share
    eager: bool = False  # whether corrections are sent after each batch, too
    buffer_timeout_ms: int = 10  # how long output may be buffered before it is sent
    credit_initial: int = 4  # frames in flight per channel
    frame_size_max: int = 64 * 1024 * 1024  # bytes of the largest frame accepted from a peer
    inline_size_max: int = 20 * 1024  # snapshots up to this many bytes travel in the acknowledgement
    exactly_once: bool = True  # whether channels wait for each other's barriers
    unaligned: bool = False  # whether barriers may overtake records
    state_backend: str = "hashmap"  # where keyed state lives, "hashmap" or "rocksdb"
    rocksdb_memory_bytes: int = 256 * 1024 * 1024  # shared by all RocksDB states of a worker
    rocksdb_local_dir: str | None = None  # folder on a local disk for RocksDB's files, or None
    rocksdb_timers: bool = True  # whether timers are in RocksDB too
    rocksdb_eager_migration: bool = False  # whether values of older types are rewritten before processing
    rocksdb_windows_bytes: int = 64 * 1024 * 1024  # what a subtask holds of windows before it stores them
    rocksdb_statistics: bool = False  # whether RocksDB counts hits and misses of its cache, and the like
    incremental: bool = False  # whether checkpoints of RocksDB states store only files that are new
    changelog: bool = False  # whether checkpoints store only changes of state since a base
    changelog_materialize_ms: int = 10 * 60 * 1000  # how often a new base (all state) is written
    local_backup: bool = False  # whether copies of stored files are kept on the local disk
    local_backup_dir: str | None = None  # folder for these copies, or None
    recover_from_local: bool = False  # whether a restore reads these copies
    in_flight_bytes_max: int = 1024 * 1024 * 1024  # overtaken records of one subtask in one checkpoint
    ignore_unclaimed: bool = False  # whether restored state that the program does not declare is skipped
    memory_state_max: int | None = None  # bytes of one state in the driver's memory; None: not kept there


@dataclass(frozen=True, slots=True)
class Program:
    """A job as its driver ships it to the workers; `record_types`: type of the records by edge, if known."""

    job: str  # the job's id
    plan: PhysicalPlan  # what runs
    settings: WorkerSettings  # how it runs
    record_types: Mapping[EdgeId, Any]  # edge id -> type of its records, where known

    def to_bytes(self, code: UserCode = SAME_INTERPRETER) -> bytes:
        return shipped(self, code)


def shipped(thing: T, code: UserCode = SAME_INTERPRETER) -> bytes:
    """Return an object of the program pickled for another process; :func:`received` unpickles it there.
    `code` finds the classes of user code in this process. Raises what pickling raises.
    """
    buffer = io.BytesIO()
    code.call(lambda: shipping_pickler(code.pickler().Pickler)(buffer).dump(thing))
    return buffer.getvalue()


def program_from_bytes(data: bytes, code: UserCode = SAME_INTERPRETER) -> Program:
    """Unpickle the program that :meth:`Program.to_bytes` pickled; the caller has authenticated the driver."""
    program: Program = received(data, code)
    return program


def received(data: bytes, code: UserCode = SAME_INTERPRETER) -> Any:
    """Unpickle the object that :func:`shipped` pickled; the caller has authenticated the sender."""
    return code.load(data)
