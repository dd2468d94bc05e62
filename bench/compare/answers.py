"""The right answers, by DuckDB from the same files, and fingerprints by which large results are compared.

A fingerprint is the number of rows and the sum of a 64-bit hash of each row: it does not depend on the order
of rows, and needs no sorting of results that are larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.json as pj

from bench.compare.entries import Query
from headgate.nexmark import ANSWERS as NEXMARK
from headgate.nexmark import BIDS, Dataset
from headgate.relational.changes import CHANGE

_TIME: Final = pa.timestamp("us", tz="UTC")
_INT: Final = pa.int64()
GOING: Final = (1, 3)
"""The kinds of changes by which a row goes."""
CANAL: Final = "canal-json"
"""The folder of changes in that format."""

_VIEWS: Final = """
    CREATE VIEW bid AS SELECT * REPLACE (epoch_us("dateTime") AS "dateTime") FROM bids;
    CREATE VIEW sliding AS
        SELECT auction, pane - slide * 2000000 AS starttime, sum(n)::BIGINT AS number FROM (
            SELECT auction, "dateTime" - "dateTime" % 2000000 AS pane, count(*) AS n FROM bid GROUP BY ALL
        ) CROSS JOIN range(5) AS slides(slide) GROUP BY ALL;
"""

_JOBS = {
    "J1": (
        pa.schema([BIDS.field(0), BIDS.field(1), pa.field("price", pa.float64()), *list(BIDS)[3:6]]),
        """SELECT auction, bidder, price::DOUBLE * 0.908::DOUBLE AS price, channel, url, "dateTime"
        FROM bid WHERE auction % 123 = 0""",
    ),
    "J2": (
        pa.schema({"auction": _INT, "number": _INT}),
        "SELECT auction, row_number() OVER (PARTITION BY auction) AS number FROM bid",
    ),
    "J3": (
        pa.schema({"auction": _INT, "starttime": _TIME, "number": _INT, "highest": _INT}),
        """SELECT auction, "dateTime" - "dateTime" % 10000000 AS starttime, count(*) AS number,
        max(price) AS highest FROM bid GROUP BY ALL""",
    ),
    "J4": (
        pa.schema({"starttime": _TIME, "auction": _INT, "number": _INT}),
        """SELECT starttime, auction, number FROM sliding
        QUALIFY row_number() OVER (PARTITION BY starttime ORDER BY number DESC, auction DESC) = 1""",
    ),
}

_JOBS |= {f"{name}-py": _JOBS[name] for name in ("J3", "J4")}

_WITH_WINDOW_END: Final = {
    "q5": """SELECT auction, number AS num, starttime + 10000000 AS window_end FROM sliding
        QUALIFY number = max(number) OVER (PARTITION BY starttime)""",
}
"""Answers of queries whose columns do not tell the window of a row."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two equal results have in common, whatever the order of their rows.

    Attributes:
        rows: how many.
        hashes: the sum of their hashes.
    """

    rows: int
    hashes: int


def schema_of(query: Query) -> pa.Schema:
    """The columns of a query's answer."""
    return _JOBS[query.name][0] if query.name in _JOBS else NEXMARK[query.name][1]


def answer(query: Query, dataset: Dataset) -> pa.Table:
    """All rows of the right answer."""
    if query.name not in _JOBS:
        return NEXMARK[query.name][0](dataset)
    schema, sql = _JOBS[query.name]
    return _of_bids(dataset, sql).cast(schema)


def closed_answer(query: Query, dataset: Dataset, found: pa.Table, watermark_us: int) -> pa.Table:
    """The rows of an answer whose windows end at or before a watermark.

    Args:
        query: one with windows.
        dataset: what it was asked of.
        found: its answer.
        watermark_us: since 1970.
    """
    if query.name in _WITH_WINDOW_END:
        rows = _of_bids(
            dataset, f"SELECT * FROM ({_WITH_WINDOW_END[query.name]}) WHERE window_end <= {watermark_us}"
        )
        return rows.drop(["window_end"]).cast(schema_of(query))
    numbers = pa.schema(
        [pa.field(f.name, _INT if pa.types.is_timestamp(f.type) else f.type) for f in found.schema]
    )
    with duckdb.connect() as connection:
        connection.register("found", found.cast(numbers))
        rows = connection.sql(
            f"SELECT * FROM found WHERE {query.window_end} <= {watermark_us}"
        ).to_arrow_table()
    return rows.cast(schema_of(query))


def fingerprint(rows: pa.Table | pa.RecordBatchReader) -> Fingerprint:
    """The fingerprint of rows; of changes, that of the rows which are left at their end."""
    columns = ", ".join(f'"{name}"' for name in rows.schema.names if name != CHANGE)
    sign = f'CASE WHEN "{CHANGE}" IN {GOING} THEN -1 ELSE 1 END' if CHANGE in rows.schema.names else "1"
    with duckdb.connect() as connection:
        connection.register("found", rows)
        sums = f"SELECT sum({sign}), sum({sign} * hash({columns})::HUGEINT) FROM found"
        found = connection.sql(sums).fetchall()[0]
    return Fingerprint(int(found[0] or 0), int(found[1] or 0))


def written(folder: Path, schema: pa.Schema, updating: bool = False) -> pa.RecordBatchReader:
    """What an engine wrote, in the columns of an answer: Parquet, or JSON lines with times in microseconds.

    With `updating` these are changes, with Headgate's column for their kinds last; rows that were written
    without one came. In a folder called "canal-json" they are in that format, in which Flink writes changes.

    Columns are matched by their order in Parquet, and by name in JSON. Files whose names begin with "." or
    "_" are skipped.
    """
    paths = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and _is_data(path.relative_to(folder))
    ]
    batches = (batch for path in paths if path.stat().st_size for batch in _batches(path, schema))
    if not updating:
        return pa.RecordBatchReader.from_batches(schema, (_cast(batch, schema) for batch in batches))
    whole = schema.append(pa.field(CHANGE, pa.int8()))
    changes = (_cast(_as_changes(batch), whole) for batch in batches)
    return pa.RecordBatchReader.from_batches(whole, changes)


def _as_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with a last column for the kind of change."""
    if CHANGE in batch.schema.names:
        return batch
    return batch.append_column(CHANGE, pa.nulls(batch.num_rows, pa.int8()).fill_null(0))


def _is_data(path: Path) -> bool:
    return not any(part[0] in "._" for part in path.parts)


def _batches(path: Path, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    if path.parent.name == CANAL:
        return _canal(path, schema)
    if path.suffix != ".json":
        return pads.dataset(path, format="parquet").to_batches()
    kept = {pa.types.is_integer, pa.types.is_string, pa.types.is_floating}
    plain = [
        field if any(test(field.type) for test in kept) else field.with_type(_json_type(field.type))
        for field in schema
    ]
    return pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=pa.schema(plain))).to_batches()


def _canal(path: Path, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    """Changes in lines {"data": [row], "type": "INSERT" or "DELETE"}."""
    texts = [f.with_type(pa.string()) if pa.types.is_timestamp(f.type) else f for f in schema]
    line = pa.schema({"data": pa.list_(pa.struct(texts)), "type": pa.string()})
    found = pj.read_json(path, parse_options=pj.ParseOptions(explicit_schema=line))
    for batch in found.to_batches():
        rows = pa.RecordBatch.from_struct_array(batch["data"].flatten())
        going = pc.equal(batch["type"], "DELETE")
        yield rows.append_column(
            CHANGE, pc.if_else(going, pa.scalar(GOING[-1], pa.int8()), pa.scalar(0, pa.int8()))
        )


def _json_type(kind: pa.DataType) -> pa.DataType:
    return _INT if pa.types.is_timestamp(kind) else pa.string()


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_bids(dataset: Dataset, sql: str) -> Any:
    with duckdb.connect() as connection:
        connection.read_parquet([str(path) for path in dataset.paths("bids")]).create_view("bids")
        connection.execute(_VIEWS)
        return connection.sql(sql).to_arrow_table()
