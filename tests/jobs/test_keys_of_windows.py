"""Keys of windows and of their joins that are no ordinary ones: null, NaN and both zeros."""

from __future__ import annotations

from math import nan
from typing import Any

import pyarrow as pa
import pytest
from mini_jobs import environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

SCHEMA = pa.schema({"at": pa.int64(), "share": pa.float64()})
NARROW = pa.schema({"at": pa.int64(), "share": pa.float32()})
Row = dict[str, Any]
WINDOWS = [F.window("at", "1s"), F.session_window("at", "1s")]


def joined(how: str, left: list[Any], right: list[Any], parallelism: int, schema: pa.Schema = SCHEMA) -> Any:
    """The keys of two tables' rows, joined where they are equal."""
    env = environment(parallelism)
    sides = []
    for values in (left, right):
        rows = [{"at": n, "share": value} for n, value in enumerate(values)]
        table = env.from_collection(rows).with_event_time("at").to_table(schema)
        sides.append(table.select(F.window("at", "1s"), "share"))
    return sides[0].join(sides[1], ["window", "share"], how, uid="join").select("share").collect()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("window", WINDOWS)
def test_nan_is_no_key_of_group_by(window: Any, parallelism: int) -> None:
    """A checkpoint could not hold it; the message has the record, its time, and the way out."""
    rows = [{"at": 7, "share": 0.5}, {"at": 8, "share": nan}]
    table = environment(parallelism).from_collection(rows).with_event_time("at").to_table(SCHEMA)
    expected = (
        r"key 'share' is NaN in a record with {'share': nan}, event time .*00:00:00.008 UTC; "
        r"fill it by nanvl\(\) or filter such rows"
    )
    with pytest.raises(hg.UsageError, match=expected):
        table.group_by("share", window).agg(F.count("*").alias("n")).collect()


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_rows_with_null_keys_have_no_partner(how: str) -> None:
    """They are left out where only partners come out."""
    for parallelism in (1, 2):
        assert joined(how, [None, 1.0], [None, 1.0], parallelism) == [{"share": 1.0}]


@pytest.mark.parametrize("schema", [SCHEMA, NARROW])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi"])
def test_both_zeros_are_one_key_of_a_join(how: str, schema: pa.Schema) -> None:
    """As of group_by, and as in Spark."""
    for parallelism in (1, 2):
        assert joined(how, [-0.0], [0.0], parallelism, schema) == [{"share": 0.0}]
