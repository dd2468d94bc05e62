"""Metrics of RocksDB databases, in which operators keep their state."""

from __future__ import annotations

from typing import Final

from headgate.metrics.metric import Kind, Merge, Metric


def _of_rocksdb(name: str, unit: str, text: str, flink: str, merge: Merge = Merge.SUM) -> Metric:
    return Metric(f"headgate_rocksdb_{name}", Kind.GAUGE, unit, text, merge, flink=(flink,), unknown=-1)


MEMTABLE_BYTES: Final = _of_rocksdb(
    "memtable_bytes",
    "bytes",
    "Bytes of the operator's state that RocksDB keeps in memory and has not written to a file.",
    "rocksdb.cur-size-all-mem-tables",
)
SST_BYTES: Final = _of_rocksdb(
    "sst_bytes", "bytes", "Bytes of RocksDB's files of the operator's state.", "rocksdb.total-sst-files-size"
)
ENTRIES: Final = _of_rocksdb(
    "entries", "entries", "Entries of the operator's state; an estimate.", "rocksdb.estimate-num-keys"
)
COMPACTION_BYTES: Final = _of_rocksdb(
    "compaction_pending_bytes",
    "bytes",
    "Bytes that RocksDB has to rewrite before its files are in order again; an estimate.",
    "rocksdb.estimate-pending-compaction-bytes",
)
STOPPED: Final = _of_rocksdb(
    "stopped_databases",
    "databases",
    "Databases that accept no more until files are rewritten: the operator is held up.",
    "rocksdb.is-write-stopped",
)
CACHE_BYTES: Final = _of_rocksdb(
    "block_cache_bytes",
    "bytes",
    "Bytes in the cache of blocks, which all databases of a worker share.",
    "rocksdb.block-cache-usage",
    Merge.MAX,
)
RUNNING: Final = _of_rocksdb(
    "running_compactions",
    "compactions",
    "Compactions of RocksDB's files that run now, in the background.",
    "rocksdb.num-running-compactions",
)
WRITE_LIMIT: Final = _of_rocksdb(
    "delayed_write_limit_bytes",
    "bytes",
    "Bytes a second to which RocksDB slows writes down, as files are not rewritten fast enough; 0: no limit.",
    "rocksdb.actual-delayed-write-rate",
    Merge.MAX,
)
BACKGROUND_ERRORS: Final = _of_rocksdb(
    "background_errors",
    "errors",
    "Flushes and compactions that have failed since the database was opened.",
    "rocksdb.background-errors",
)


def _counted(name: str, unit: str, text: str, flink: str, per_unit: int = 1) -> Metric:
    text = f"{text}; only with `state.backend.rocksdb.statistics`."
    kind, full = Kind.COUNTER, f"headgate_rocksdb_{name}_total"
    return Metric(full, kind, unit, text, flink=(flink,), per_unit=per_unit, unknown=-1)


CACHE_HITS: Final = _counted(
    "block_cache_hits",
    "hits",
    "Blocks of RocksDB's files that reads have found in the cache",
    "rocksdb.block_cache_hit",
)
CACHE_MISSES: Final = _counted(
    "block_cache_misses",
    "misses",
    "Blocks that were not in the cache, and were read from a file",
    "rocksdb.block_cache_miss",
)
FILTERED: Final = _counted(
    "filtered_reads",
    "reads",
    "Looks into a file that were spared, as its filter knew that the key is not there",
    "rocksdb.bloom_filter_useful",
)
COMPACTION_READ: Final = _counted(
    "compaction_read_bytes", "bytes", "Bytes that compactions have read", "rocksdb.compact_read_bytes"
)
COMPACTION_WRITTEN: Final = _counted(
    "compaction_written_bytes", "bytes", "Bytes that compactions have written", "rocksdb.compact_write_bytes"
)
STALLED: Final = _counted(
    "stalled_seconds",
    "seconds",
    "Time for which writes have waited for flushes and compactions",
    "rocksdb.stall_micros",
    1_000_000,
)

OF_FAMILIES: Final = (MEMTABLE_BYTES, SST_BYTES, ENTRIES, COMPACTION_BYTES)
"""Properties that each column family of a database has; the first of a metric's Flink names is RocksDB's."""
OF_DATABASES: Final = (STOPPED, CACHE_BYTES, RUNNING, WRITE_LIMIT, BACKGROUND_ERRORS)
"""Properties that a database has once, whichever of its families is asked."""
OF_STATISTICS: Final = (CACHE_HITS, CACHE_MISSES, FILTERED, COMPACTION_READ, COMPACTION_WRITTEN, STALLED)
"""Counts that a database keeps only where it was opened with statistics."""
OF_ROCKSDB: Final = (*OF_FAMILIES, *OF_DATABASES, *OF_STATISTICS)
