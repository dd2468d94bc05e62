"""What is measured of a RocksDB database: its properties, those of its families, counts of its statistics."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from headgate.metrics import of_rocksdb as r

STATISTICS: Final = "rocksdb.options-statistics"
"""The property with all counts as text; RocksDB has none for a single one."""
COUNTS: Final = {
    r.CACHE_HITS: "rocksdb.block.cache.hit",
    r.CACHE_MISSES: "rocksdb.block.cache.miss",
    r.FILTERED: "rocksdb.bloom.filter.useful",
    r.COMPACTION_READ: "rocksdb.compact.read.bytes",
    r.COMPACTION_WRITTEN: "rocksdb.compact.write.bytes",
    r.STALLED: "rocksdb.stall.micros",
}
"""Metric -> the name of its count in this text."""


class HasProperties(Protocol):
    """A column family of an open database."""

    def number(self, name: str) -> int:
        """Return a property that is a number; 0 if there is none now."""

    def text(self, name: str) -> str:
        """Return a property that is text; empty if there is none now."""


def measured(stores: Collection[HasProperties], *, counted: bool) -> dict[str, int]:
    """Return the metrics of one database, whose families are `stores`, by name of the series. It takes some
    50 microseconds, and where the database was opened with statistics (`counted`) 400 more.
    """
    if not stores:
        return {}
    first = next(iter(stores))
    found = {
        metric.at(): metric.merged(store.number(metric.flink[0]) for store in stores)
        for metric in r.OF_FAMILIES
    }
    found |= {metric.at(): first.number(metric.flink[0]) for metric in r.OF_DATABASES}
    return {**found, **counts_in(first.text(STATISTICS))} if counted else found


def counts_in(text: str) -> dict[str, int]:
    r"""Return the counts in RocksDB's text of statistics, by name of the series.

    Example:
        >>> counts_in("rocksdb.block.cache.miss COUNT : 7\nrocksdb.block.cache.hit COUNT : 12\n")
        {'headgate_rocksdb_block_cache_hits_total': 12, 'headgate_rocksdb_block_cache_misses_total': 7}
    """
    lines, found = "\n" + text, {}
    for metric, name in COUNTS.items():
        _, there, rest = lines.partition(f"\n{name} COUNT : ")
        number, _, _ = rest.partition("\n")
        if there and number.isdigit():
            found[metric.at()] = int(number)
    return found
