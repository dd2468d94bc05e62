"""One memory bound for all RocksDB states of a worker, and the database options that keep to it."""

from __future__ import annotations

from typing import Final

import rocksdict

from headgate.common.errors import ConfigError

LIMIT_MIN: Final = 8 << 20
"""Below 8 MiB the write buffers become so small that RocksDB does little else than flush."""

_WRITE_BUFFER_MAX: Final = 64 << 20
_BLOCK_SIZE: Final = 8 << 10
_BLOOM_BITS: Final = 10
_FILTER_PART: Final = 16 << 10


class RocksMemory:
    """The block cache and the write buffers that all RocksDB states of one worker share.

    Write buffers are charged to the block cache, so `limit_bytes` bounds both together, with the index and
    filter blocks, which live in the cache too. Half of it may be write buffers. The bound is soft: RocksDB
    flushes when it is reached and does not stop the writer. A bound below 8 MiB is a ConfigError. With
    `statistics` databases count what reads find in the cache and the like.
    """

    def __init__(self, limit_bytes: int, *, statistics: bool = False) -> None:
        if limit_bytes < LIMIT_MIN:
            raise ConfigError(
                f"memory for RocksDB is {limit_bytes} bytes; expected at least {LIMIT_MIN} (8 MiB) per worker"
            )
        self.limit_bytes, self.statistics = limit_bytes, statistics
        self._cache = rocksdict.Cache(limit_bytes)
        self._buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
            limit_bytes // 2, False, self._cache
        )

    def database_options(self) -> rocksdict.Options:
        options = rocksdict.Options(raw_mode=True)  # keys and values are bytes that are ours
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_write_buffer_manager(self._buffers)
        # Small enough that a full budget of buffers holds several, so that one flush frees a part.
        options.set_write_buffer_size(min(_WRITE_BUFFER_MAX, self.limit_bytes // 8))
        # An arena block is charged as a whole, also for a state that holds next to nothing.
        options.set_arena_block_size(64 << 10)
        options.set_block_based_table_factory(self._table_options())
        options.set_compression_type(
            rocksdict.DBCompressionType.lz4()
        )  # decompresses faster than a disk reads
        options.set_level_compaction_dynamic_level_bytes(True)  # least space for old versions of values
        options.set_max_background_jobs(2)  # Spark gave the task one core or a few
        options.set_stats_dump_period_sec(0)  # no thread that writes statistics nobody reads
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1 << 20)
        if self.statistics:
            options.enable_statistics()
        return options

    def reading_options(self) -> rocksdict.Options:
        # to read a checkpoint's files, first entry to last
        options = rocksdict.Options(raw_mode=True)
        options.set_block_based_table_factory(self._table_options())
        options.set_stats_dump_period_sec(0)
        return options

    def _table_options(self) -> rocksdict.BlockBasedOptions:
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(self._cache)
        # Filters and indexes grow with the state; outside the cache nothing would bound them.
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        # In parts, as the filter of a whole file of small entries has megabytes. That is more than a
        # shard of the cache holds, and each look into it would read all of it from the file.
        table.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        table.set_metadata_block_size(_FILTER_PART)
        table.set_pin_top_level_index_and_filter(True)
        # A new key is looked up before it is first written: 10 bits spare 99 of 100 such reads.
        table.set_bloom_filter(_BLOOM_BITS, False)
        table.set_block_size(_BLOCK_SIZE)  # half the index of the default 4 KiB; still one read of a disk
        table.set_format_version(5)
        return table
