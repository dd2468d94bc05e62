"""Event times that are missing or cannot be meant fail the job, with operator, column and record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from operator_samples import context, opened, rows

from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.errors import UsageError
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.worker.operators.timestamps import TimestampsOperator
from headgate.runtime.worker.operators.unlikely_times import YEAR_9999


def stamped(selector: Any = "at") -> TimestampsOperator:
    """An operator that takes event time from a field."""
    operator = TimestampsOperator(context(), WatermarkStrategy(selector))
    opened(operator)
    return operator


def column(*times: int | None) -> ArrowBatch:
    """A batch of columns."""
    return ArrowBatch(pa.record_batch({"user": ["ada"] * len(times), "at": pa.array(times, pa.int64())}))


def test_a_time_in_the_year_9999_names_its_record() -> None:
    """It would make every other record late; so would microseconds that are taken for ms."""
    stamped().process(column(1, YEAR_9999 - 1))
    with pytest.raises(UsageError, match=rf"'op'.*column 'at' of .*ada.*event time {YEAR_9999} ms.*filter"):
        stamped().process(column(1, YEAR_9999))
    with pytest.raises(UsageError, match=r"column 'at' of \{'at': 1700000000000000\}"):
        stamped().process(rows([{"at": 1}, {"at": 1_700_000_000_000_000}]))
    with pytest.raises(UsageError, match="the timestamp of 253402300799999"):
        stamped(lambda at: at).process(rows([253_402_300_799_999]))


def test_a_missing_time_names_its_record() -> None:
    """The first of them."""
    with pytest.raises(UsageError, match=r"'op'.*'at' has 1 records without a timestamp, the first .*'ada'"):
        stamped().process(column(1, None, 2))
