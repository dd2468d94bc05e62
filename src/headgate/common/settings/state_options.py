"""Options of keyed state while a job runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import (
    Boolean,
    Choice,
    ConfigOption,
    Duration,
    MemorySize,
    OptionalKind,
    Text,
)


class StateBackendType(StrEnum):
    """Where keyed state lives between checkpoints."""

    HASHMAP = "hashmap"
    """Python objects: fastest, bounded by memory."""
    ROCKSDB = "rocksdb"
    """RocksDB on the worker's local disk."""


class TimerService(StrEnum):
    """Where timers live beside state in RocksDB."""

    HEAP = "heap"
    """In memory, all of them."""
    ROCKSDB = "rocksdb"
    """In RocksDB, and only the next ones in memory too."""


class StateMigration(StrEnum):
    """When stored values become values of the types that the program declares now."""

    LAZY = "lazy"
    """When they are read, and beside the processing."""
    EAGER = "eager"
    """All of them, before processing begins."""


STATE_BACKEND: Final = ConfigOption(
    "state.backend.type",
    Choice(StateBackendType),
    StateBackendType.HASHMAP,
    "Where keyed state lives: as Python objects, or in RocksDB on each worker's local disk.",
)
ROCKSDB_MEMORY: Final = ConfigOption(
    "state.backend.rocksdb.memory.fixed-per-slot",
    MemorySize(low_bytes=8 * 1024 * 1024),
    256 * 1024 * 1024,
    "Memory that all RocksDB states of one worker share for blocks and write buffers.",
)
ROCKSDB_LOCAL_DIR: Final = ConfigOption[str | None](
    "state.backend.rocksdb.localdir",
    OptionalKind(Text()),
    None,
    "Folder on a local disk of each worker for RocksDB's files; none is the folder for temporary files.",
)
ROCKSDB_TIMERS: Final = ConfigOption(
    "state.backend.rocksdb.timer-service.factory",
    Choice(TimerService),
    TimerService.ROCKSDB,
    "Where timers live when state is in RocksDB, without a changelog: in memory, or in RocksDB as well.",
)
ROCKSDB_MIGRATION: Final = ConfigOption(
    "state.backend.rocksdb.migration",
    Choice(StateMigration),
    StateMigration.LAZY,
    "When values in RocksDB's files that are of an older type are rewritten: beside the processing, or all "
    "of them before it begins.",
)
CHANGELOG: Final = ConfigOption(
    "state.changelog.enabled",
    Boolean(),
    False,
    "Whether a checkpoint of keyed state holds what changed since the last complete one, behind a base that "
    "is written now and then: short checkpoints for a longer restore.",
)
CHANGELOG_MATERIALIZE_INTERVAL: Final = ConfigOption(
    "state.changelog.periodic-materialize.interval",
    Duration(low_ms=1),
    10 * 60 * 1000,
    "With a changelog, after how long a checkpoint holds everything and the log begins anew.",
)
