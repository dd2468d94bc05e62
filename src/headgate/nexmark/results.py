"""Reads what a job has written for a query, so that it can be compared with the reference answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headgate.common.errors import InternalError
from headgate.nexmark.reference import ANSWERS, ordered
from headgate.relational.changes import CHANGE, Change


def result_files(query: str, folder: Path) -> ds.Dataset:
    """Return the Parquet files in a folder with the columns of the query's answer.

    Columns that the names of folders have, as in ``dt=2015-07-15/``, are taken from there, as text.

    Arguments:
        query: such as "q10"; KeyError if `ANSWERS` does not have it.
        folder: where the job's sink has written; files whose names begin with ``_`` or ``.`` are not read.
    """
    schema = ANSWERS[query][1]
    # With the types of the columns: by itself Arrow would take a folder 07 for a number.
    folders = ds.partitioning(schema, flavor="hive")
    return ds.dataset(folder, format="parquet", partitioning=folders, schema=schema)


def net_rows(changes: pa.Table) -> pa.Table:
    """Return the rows that are there after all changes: of each row as many as came, less those that went."""
    kinds = changes.column(CHANGE).to_numpy()
    adds = np.array([change.adds for change in Change])[kinds]
    names = [name for name in changes.column_names if name != CHANGE]
    weighted = changes.select(names).append_column("weight", pa.array(np.where(adds, 1, -1)))
    found = weighted.group_by(names).aggregate([("weight", "sum")])
    counts = found.column("weight_sum").to_numpy()
    if (counts < 0).any():
        raise InternalError(f"{int((counts < 0).sum()):,} rows of a result left that had not come")
    return found.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def read_result(query: str, folder: Path) -> pa.Table:
    """Return all rows of `result_files`, ordered as the query's answer is."""
    schema = ANSWERS[query][1]
    files = result_files(query, folder)
    if not any(CHANGE in pq.read_schema(path).names for path in files.files[:1]):
        return ordered(files.to_table())
    changes = ds.dataset(
        folder, format="parquet", schema=schema.append(pa.field(CHANGE, pa.int8()))
    ).to_table()
    return ordered(net_rows(changes).select(schema.names))
