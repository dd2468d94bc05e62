"""Types of NumPy and Arrow, and records of them, each with values that try its edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass
class Reading:
    """A record with an array."""

    sensor: np.int32
    samples: NDArray[np.float64]
    level: float = 0.0


COLUMNS = pa.RecordBatch.from_pylist(
    [{"n": 1, "t": ["a", "b"]}, {"n": None, "t": None}],
    pa.schema([("n", pa.int64()), ("t", pa.list_(pa.string()))], metadata={"made": "here"}),
)

COLUMN_CASES: list[tuple[Any, list[Any]]] = [
    (np.float64, [np.float64(1.5), np.float64("nan")]),
    (np.bool_, [np.bool_(True)]),
    (NDArray[np.int64], [np.arange(6).reshape(2, 3), np.zeros((0, 4), np.int64)]),
    (np.ndarray, [np.array(["ab", "ż"]), np.array([True, False]), np.array(3, "M8[s]")]),
    (dict[str, NDArray[np.float32]], [{"a": np.ones(2, np.float32)}, {}]),
    (pa.RecordBatch, [COLUMNS, COLUMNS.slice(1)]),
    (pa.Table, [pa.Table.from_batches([COLUMNS, COLUMNS])]),
]
