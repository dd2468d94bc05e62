"""Event time by a column that JSON lines do not have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from mini_jobs import environment

import headgate as hg
from headgate.connectors.files import json_source


def test_event_time_of_no_column_names_the_columns(tmp_path: Path) -> None:
    """Also if a table narrows the source: the job's own error, not one of the program's code."""
    (tmp_path / "x.jsonl").write_bytes(b'{"a":1,"b":"x"}\n')
    source = json_source(tmp_path, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    stream = environment(1).from_source(source, uid="in").with_event_time("ts")
    with pytest.raises(hg.UsageError, match="names column 'ts', but the records have"):
        stream.to_table().select("a").collect()
