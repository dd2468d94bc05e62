"""Reads what a job has written for a query, so that it can be compared with the reference answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from headgate.nexmark.reference import ANSWERS, ordered


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


def read_result(query: str, folder: Path) -> pa.Table:
    """Return all rows of `result_files`, ordered as the query's answer is."""
    return ordered(result_files(query, folder).to_table())
