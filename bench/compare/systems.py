"""The systems of the comparison: how each is started, what it reads, and what it guarantees."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bench.compare import headgate_job
from bench.compare.answers import schema_of
from bench.compare.entries import Entry, Lacking, Query
from bench.compare.events import JSON, PARALLELISM, PARTS, SEQUENCE, TABLES, EventSet, sequence_files
from bench.compare.orders import Order, TableFiles
from bench.machine import ROOT, import_path
from bench.peers import environments as e
from headgate.nexmark import SCHEMAS

_PROGRAMS: Final = ROOT / "bench" / "peers"
_ORDERS: Final = ROOT / "bench" / "compare"


@dataclass(frozen=True, slots=True)
class System:
    """One engine, in one way to run it.

    Attributes:
        key: on the command line.
        title: in the table.
        layout: of the events it reads.
        entry: what it is asked, of a query.
        arguments: after the interpreter, before the file with the order.
        notes: what a reader must know of its numbers.
        peer: the environment it needs; None for the project's own.
        closed_only: whether its answer ends with the last closed window.
    """

    key: str
    title: str
    layout: str
    entry: Callable[[Query], Entry]
    arguments: tuple[str, ...]
    notes: str
    peer: str | None = None
    closed_only: bool = False

    @property
    def format(self) -> str:
        """The format of its files."""
        return "json" if self.layout == JSON else "parquet"

    def lacking(self, query: Query) -> Lacking | None:
        """Why it is not asked a query; None if it is."""
        entry = self.entry(query)
        return entry if isinstance(entry, Lacking) else None

    def command(self, install: bool) -> tuple[list[str], dict[str, str]]:
        """The command without its order, and variables of the environment.

        Raises:
            AbsentError: it is not installed, and cannot be or is not to be.
        """
        if self.peer is None:
            return [sys.executable, *self.arguments], import_path()
        python, variables = e.interpreter(self.peer, install)
        return [python, *self.arguments], {**variables, "PYTHONPATH": str(_ORDERS)}

    def order(self, query: Query, events: EventSet, answer: pa.Table, work: Path, out: Path | None) -> Order:
        """What its program is told, given the right answer."""
        entry = self.entry(query)
        assert isinstance(entry, str)
        files = events.layout(self.layout)
        tables = {
            name: TableFiles(str(files.directory / TABLES[name]), _columns(SCHEMAS[TABLES[name]]))
            for name in query.tables
        }
        total = 0
        if query.counted is not None:
            total = pc.sum(answer[query.counted].cast(pa.int64())).as_py() or 0
        batches = PARALLELISM if sequence_files(events.count) >= 4 * PARALLELISM else 1
        return Order(
            query=query.name,
            text=entry,
            format=self.format,
            tables=tables,
            columns=_columns(schema_of(query)),
            timed=query.timed,
            work=str(work),
            out=None if out is None else str(out),
            files_per_batch=batches,
            rows=answer.num_rows,
            counted=query.counted,
            total=total,
            wait_s=events.wait_s,
            updating=query.updating,
            key=query.key,
        )


def _columns(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, sql_type(field.type)) for field in schema]


def sql_type(kind: pa.DataType) -> str:
    """The word for a type in an order.

    Example:
        >>> sql_type(pa.decimal128(23, 3)), sql_type(pa.timestamp("us", tz="UTC")), sql_type(pa.int64())
        ('decimal(23,3)', 'timestamp', 'bigint')
    """
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {pa.int64(): "bigint", pa.string(): "string", pa.float64(): "double"}[kind]


def _of_headgate(query: Query) -> Entry:
    return "" if headgate_job.has(query.name) else Lacking("Headgate does not have this query yet")


def _of_headgate_json(query: Query) -> Entry:
    # Only to compare with engines that read JSON; what these are not asked needs no second run.
    if isinstance(query.bytewax, Lacking) and isinstance(query.pathway, Lacking):
        return Lacking("no engine in this table reads JSON for this query", cannot=False)
    return _of_headgate(query)


def _of_headgate_rocksdb(query: Query) -> Entry:
    if not query.has_state:
        return Lacking("the query has no state", cannot=False)
    return _of_headgate(query)


def _of_flink_json(query: Query) -> Entry:
    # Elsewhere its Parquet says more; these are the jobs whose users read JSON lines.
    if query.name in _FROM_JSON:
        return query.flink
    return Lacking("Flink is measured from Parquet on this query", cannot=False)


_FROM_JSON: Final = ("J3", "J3-py", "J4", "J4-py")
_HEADGATE: Final = ("-m", "bench.compare.headgate_job")
HEADGATE: Final = System(
    "headgate",
    "Headgate",
    PARTS,
    _of_headgate,
    _HEADGATE,
    "exactly once, aligned checkpoints every second, two workers; state on the heap, J2's in Python; the "
    "sink adds up a checksum of every column",
)
HEADGATE_JSON: Final = System(
    "headgate-json",
    "Headgate, from JSON",
    JSON,
    _of_headgate_json,
    _HEADGATE,
    "as above, reading the JSON lines that Bytewax, Pathway and Flink from JSON read; their ratios are to "
    "this one",
)
HEADGATE_ROCKSDB: Final = System(
    "headgate-rocksdb",
    "Headgate, RocksDB",
    PARTS,
    _of_headgate_rocksdb,
    (*_HEADGATE, headgate_job.ROCKSDB),
    "as the first, with state in RocksDB, which checkpoints store as its changed files",
)
FLINK: Final = System(
    "flink",
    "Flink SQL (PyFlink)",
    PARTS,
    lambda query: query.flink,
    (str(_PROGRAMS / "flink_query.py"),),
    "exactly once, checkpoints every second, two slots in one JVM; state on the heap; measured into its "
    "blackhole",
    e.FLINK,
)
FLINK_JSON: Final = System(
    "flink-json",
    "Flink SQL, from JSON",
    JSON,
    _of_flink_json,
    (str(_PROGRAMS / "flink_query.py"),),
    "as above, reading the JSON lines",
    e.FLINK,
)
SPARK: Final = System(
    "spark",
    "Spark Structured Streaming",
    SEQUENCE,
    lambda query: query.spark,
    (str(_PROGRAMS / "spark_query.py"),),
    "exactly once per micro-batch of about half a million events, local[2]; state in RocksDB with its "
    "changelog; measured into its noop sink; windows that the last watermark has not closed are not in its "
    "answer",
    e.SPARK_ALONE,
    closed_only=True,
)
BYTEWAX: Final = System(
    "bytewax",
    "Bytewax",
    JSON,
    lambda query: query.bytewax,
    (str(_PROGRAMS / "bytewax_query.py"),),
    "at least once into sinks, recovery snapshots every second, two processes; reads JSON lines (it has no "
    "Parquet); its windows wait for 2,000,000 events' time, as its two readers do not wait for each other",
    e.BYTEWAX,
)
PATHWAY: Final = System(
    "pathway",
    "Pathway",
    JSON,
    lambda query: query.pathway,
    (str(_PROGRAMS / "pathway_query.py"),),
    "at least once (exactly once is not in its free edition), persistence every second, two threads; reads "
    "JSON lines (it has no Parquet); sends changes of its tables per commit, so J2 has no row for each bid; "
    "runs until the answer is complete",
    e.PATHWAY,
)
ALL: Final = (HEADGATE, HEADGATE_JSON, HEADGATE_ROCKSDB, FLINK, FLINK_JSON, SPARK, BYTEWAX, PATHWAY)
SYSTEMS: Final = {system.key: system for system in ALL}
"""Key -> system, in the order of the table."""


def base_of(system: System, query: Query) -> System:
    """The run of Headgate that a system's ratio is to: the one that reads the same format."""
    return HEADGATE_JSON if system.format == "json" and HEADGATE_JSON.lacking(query) is None else HEADGATE
