"""Keys as RocksDB holds them: equal keys are one, key groups are in order, nothing is lost."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.state.rocksdb.key_bytes import group_of, key_of, storage_key, storage_keys

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")

scalars = st.one_of(
    st.integers(-3, 3),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.uuids(),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC, BERLIN, NEW_YORK]), allow_imaginary=True),
)
keys = st.one_of(scalars, st.tuples(scalars, scalars), st.tuples(scalars, st.tuples(scalars)))


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(keys, keys)
def test_bytes_are_equal_exactly_where_keys_are(one: Any, two: Any) -> None:
    """Two keys share their bytes if and only if a dict would take them for one."""
    assert (storage_key(one, 128) == storage_key(two, 128)) == (one == two)
    back = key_of(storage_key(one, 128))
    assert back == one
    assert storage_key(back, 128) == storage_key(one, 128)
    assert group_of(storage_key(one, 128)) == key_group(one, 128)


SAME_INSTANT = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
IN_FOLD = dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)
IN_GAP = dt.datetime(2024, 3, 31, 2, 30, tzinfo=BERLIN)
FIRST = dt.datetime(1, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))
LAST = dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(-dt.timedelta(hours=5)))


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        (1, True, True),
        (1, 1.0, True),
        (0.0, -0.0, True),
        (2**70, float(2**70), True),
        (1, "1", False),
        ("a", b"a", False),
        ((1, "a"), (True, "a"), True),
        ((1, 2), (1, (2,)), False),
        (SAME_INSTANT, SAME_INSTANT.astimezone(BERLIN), True),
        (IN_FOLD, IN_FOLD.replace(fold=1), True),
        (IN_GAP, IN_GAP.replace(hour=3), False),
        (FIRST, FIRST.replace(hour=2, tzinfo=dt.timezone(dt.timedelta(hours=6))), True),
        (LAST, LAST.replace(hour=22, tzinfo=dt.timezone(-dt.timedelta(hours=6))), True),
        (SAME_INSTANT.replace(tzinfo=None), SAME_INSTANT, False),
        (dt.date(2024, 6, 1), dt.datetime(2024, 6, 1), False),
        (uuid.UUID(int=1), 1, False),
    ],
)
def test_equal_keys_are_one_key(one: Any, two: Any, equal: bool) -> None:
    """Numbers across types, zeros, instants across zones; text and bytes stay apart."""
    assert (one == two) is equal
    assert (storage_key(one, 128) == storage_key(two, 128)) is equal


def test_the_layout_is_group_length_key() -> None:
    """Two bytes of key group and four of length, big-endian: the bytes never change."""
    assert storage_key("flink", 128).hex() == f"{key_group('flink', 128):04x}" + "00000006" + "a5666c696e6b"
    assert storage_keys(["a", 1, (1, "x")], 128) == [storage_key(k, 128) for k in ("a", 1, (1, "x"))]
    assert storage_keys([], 128) == []


@pytest.mark.parametrize("key", [None, float("nan"), [1], (1, None)])
def test_what_is_no_key_is_refused(key: Any) -> None:
    """The same values are refused as by key groups."""
    with pytest.raises(UsageError, match="a key is"):
        storage_key(key, 128)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\1\0\0\0\2a", b"\0\1\0\0\0\1\xc1"])
def test_damaged_keys_are_storage_errors(data: bytes) -> None:
    """Bytes that are no key are told and not guessed at."""
    with pytest.raises(StorageError, match="a key stored in RocksDB does not decode"):
        key_of(data)
