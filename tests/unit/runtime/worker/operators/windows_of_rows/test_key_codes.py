"""Codes of keys are alike exactly where the keys are one key for state."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.row_batch import RowBatch
from headgate.runtime.worker.operators.windows_of_rows.key_codes import codes_of_keys

NOON = dt.datetime(2024, 5, 1, 12)
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "numbers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small numbers": (pa.int16(), st.integers(-5, 5)),
    "texts": (pa.string(), st.text(max_size=2)),
    "moments": (pa.timestamp("us"), st.integers(0, 9).map(lambda day: NOON + dt.timedelta(days=day))),
    "moments of a zone": (
        pa.timestamp("ms", "UTC"),
        st.integers(0, 9).map(lambda s: NOON.replace(tzinfo=dt.UTC) + dt.timedelta(seconds=s)),
    ),
}


@given(st.data())
@pytest.mark.parametrize("name", COLUMNS)
def test_equal_keys_have_equal_codes(name: str, data: st.DataObject) -> None:
    """And different ones have different codes, all of them from 0 to 2**40."""
    kind, values = COLUMNS[name]
    given_keys = data.draw(st.lists(values, min_size=1))
    batch = ArrowBatch(pa.record_batch({"key": pa.array(given_keys, kind)}))
    keys = batch.keys("key")
    codes = codes_of_keys(batch, "key", keys)
    assert codes is not None
    assert 0 <= codes.min() <= codes.max() < 2**40
    assert [codes.tolist().index(code) for code in codes.tolist()] == [keys.index(key) for key in keys]


@pytest.mark.parametrize("values", [[1.0, 0.0, -0.0], [1, None], [1, "a"]])
def test_keys_that_may_be_several_have_no_codes(values: list[Any]) -> None:
    """Zero and minus zero are equal, and two keys; keys of several types are not told apart here."""
    assert codes_of_keys(RowBatch(values), lambda value: value, values) is None
