"""Key hash, key groups and their ranges: golden values, and scalar equal to vectorised."""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import UsageError
from headgate.common.keys import keygroups as kg
from headgate.common.keys import keygroups_vectorised as vec
from headgate.common.keys.key_hashes import key_hash

small = settings(max_examples=60, derandomize=True, deadline=None, database=None)

INT_GOLDENS = (
    "0->593689054->94->2/2; 1->68075478->86->2/2; 2->1085422463->127->3/2; 3->847579505->113->3/2; "
    "4->1889779975->7->0/0; 5->236698494->126->3/2; 6->975490194->18->0/0; 7->1343918321->113->3/2; "
    "8->1822472975->15->0/0; 9->101886131->51->1/1; 10->848998979->67->2/1; 16->383218292->116->3/2; "
    "31->1168509563->123->3/2; 42->1134849565->29->0/0; 99->1219591486->62->1/1; 100->616682048->64->2/1; "
    "127->1931274395->27->0/0; 128->132521001->41->1/0; 255->332370855->39->1/0; 256->1409940790->54->1/1; "
    "1000->3506311->7->0/0; 1024->925986077->29->0/0; 12345->638799361->1->0/0; "
    "65535->1986290322->18->0/0; 1000000->2127295249->17->0/0; -1->1982413648->80->2/1; "
    "-2->1087594050->66->2/1; -100->359108696->88->2/2; 2147483647->1653689534->62->1/1; "
    "-2147483648->1718298732->108->3/2; 123456789->1088346449->81->2/1"
)

WARSAW = ZoneInfo("Europe/Warsaw")
OTHER_GOLDENS: list[tuple[Any, int]] = [
    # FROZEN: written once by the scalar form; a change here breaks every stored checkpoint.
    (True, 1),
    (False, 0),
    (4294967296, 1),
    (-4294967297, 1),
    (1234567890123, 1912276436),
    (2**63 - 1, 2147483648),
    (-(2**63), 2147483648),
    (2**63, 3039990132),
    (2**64, 4050780397),
    (-(2**63) - 1, 3088817482),
    (10**40, 730769466),
    (-(10**40), 1069492209),
    (0.0, 0),
    (-0.0, 0),
    (1.0, 1),
    (3.14, 300063655),
    (-2.5, 3221487616),
    (1e300, 4167399032),
    (2.0**63, 3039990132),
    (float("inf"), 2146435072),
    (float("-inf"), 4293918720),
    (5e-324, 1),
    ("", 0),
    ("a", 3904355907),
    ("hello", 907060870),
    ("flink", 3350737693),
    ("user_42", 712180813),
    ("Hello, World!", 3964322768),
    ("\u4e2d\u6587", 1510599991),
    ("\U0001f600", 88978756),
    ("\ud800", 499426600),
    ("x" * 100, 1577999759),
    (b"", 0),
    (b"a", 3904355907),
    (b"\x00\xff", 1826356594),
    ((), 1),
    ((1, 2), 994),
    (("a", 1), 775949791),
    (("a", (1, 2.5)), 1849954750),
    (dt.datetime(1970, 1, 1), 0),
    (dt.datetime(2024, 2, 29, 12, 30, 15, 123456), 1810273412),
    (dt.datetime(2024, 7, 1, 14, tzinfo=WARSAW), 1445792814),
    (dt.datetime(1, 1, 1), 4294377473),
    (dt.date(1970, 1, 1), 0),
    (dt.date(2024, 2, 29), 19782),
    (dt.date(1, 1, 1), 4294248134),
    (uuid.UUID(int=0), 3971697493),
    (uuid.UUID("12345678-1234-5678-1234-567812345678"), 1773289872),
]


@pytest.mark.parametrize("row", INT_GOLDENS.split("; "))
def test_sg1_int_keys_have_their_golden_values(row: str) -> None:
    """sG1: murmur value, group at 128 and subtask at 4 and 3 of int keys are fixed for ever."""
    key, mixed, group, subtasks = row.split("->")
    at_4, at_3 = subtasks.split("/")
    assert (int(mixed), int(group)) == (kg.murmur(kg.key_hash(int(key))), kg.key_group(int(key), 128))
    assert [int(at_4), int(at_3)] == [kg.operator_index_for_key_group(128, p, int(group)) for p in (4, 3)]
    assert [int(group)] == kg.key_groups_of_arrow(pa.array([int(key)], pa.int64()), 128).tolist()


@pytest.mark.parametrize(("key", "golden"), OTHER_GOLDENS, ids=lambda v: repr(v)[:30])
def test_other_keys_have_their_golden_values(key: Any, golden: int) -> None:
    """sG2: hashes of every other key type are fixed for ever; text has CRC-32, and True is 1."""
    assert golden == kg.key_hash(key)


def test_64_bit_ints_fold_their_words() -> None:
    """sG2: a key beyond 32 bits hashes as its low word xor its high word."""
    expected = {4294967296: 86, 1234567890123: 92, 2**63 - 1: 108, -(2**63): 108}
    assert list(expected.values()) == [kg.key_group(key, 128) for key in expected]


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True),
        (0, 0.0, -0.0, False),
        (2**40, float(2**40)),
        (2**80, float(2**80)),
        ((1, "a"), (1.0, "a"), (True, "a")),
        (
            dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC),
            dt.datetime(2024, 7, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2024, 7, 1, 14, tzinfo=WARSAW),
        ),
        (
            dt.datetime(2024, 10, 27, 2, 30, tzinfo=WARSAW),
            dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=WARSAW),
        ),
        (dt.datetime(1999, 1, 1), dt.datetime(1999, 1, 1, fold=1)),
    ],
)
def test_equal_keys_hash_equal(equal: tuple[Any, ...]) -> None:
    """Keys that one dict entry holds have one hash."""
    assert len(set(equal)) == 1
    assert len({kg.key_hash(key) for key in equal}) == 1


def test_datetime_at_the_end_of_time_has_a_hash() -> None:
    """An aware datetime without a UTC counterpart is hashed all the same."""
    edge = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    assert 0 <= kg.key_hash(edge) < 2**32


@pytest.mark.parametrize(
    "key", [None, math.nan, [1], {"a": 1}, (1, None), np.int64(3), object(), frozenset({1}), dt.timedelta(1)]
)
def test_what_is_no_key_is_refused(key: Any) -> None:
    """None, NaN and foreign types are refused, one by one and in a batch."""
    with pytest.raises(UsageError, match="a key is"):
        kg.key_hash(key)
    with pytest.raises(UsageError, match="a key is"):
        kg.key_groups_of_keys([key, key], 128)


def test_refusal_names_the_type() -> None:
    """The message names the offending type and what is allowed."""
    with pytest.raises(UsageError, match=r"of type numpy.int64; expected int, str, .*tuple of these"):
        kg.key_hash(np.int64(3))


any_int = st.integers(-(2**31), 2**31 - 1) | st.integers(-(2**63), 2**63 - 1) | st.integers()
any_text = st.text(max_size=80) | st.text(alphabet=st.characters(), max_size=5)
scalar = (
    any_int
    | any_text
    | st.binary(max_size=80)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(dt.UTC))
    | st.uuids()
)
keys = scalar | st.tuples(scalar, scalar) | st.tuples() | st.lists(scalar, max_size=3).map(tuple)


@small
@given(st.lists(keys, max_size=30), st.sampled_from([1, 7, 128, 1000, 32768]))
def test_mixed_lists_hash_as_their_keys(batch: list[Any], max_parallelism: int) -> None:
    """A list of any keys gives the groups of its keys one by one."""
    expected = [kg.key_group(key, max_parallelism) for key in batch]
    assert expected == kg.key_groups_of_keys(batch, max_parallelism).tolist()


@small
@given(
    st.one_of(
        st.lists(any_int),
        st.lists(any_text),
        st.lists(st.binary()),
        st.lists(st.floats(allow_nan=False)),
        st.lists(st.tuples(any_text, any_int)),
        st.lists(st.booleans()),
    ),
    st.sampled_from([7, 128, 32768]),
)
def test_homogeneous_lists_hash_as_their_keys(batch: list[Any], max_parallelism: int) -> None:
    """A list of keys of one type, on its fast path, gives the groups of its keys one by one."""
    expected = [kg.key_group(key, max_parallelism) for key in batch]
    assert expected == kg.key_groups_of_keys(batch, max_parallelism).tolist()


@pytest.mark.parametrize("distinct", [10, 100_000])
def test_long_batches_hash_as_their_keys(distinct: int) -> None:
    """Batches of many steps, repetitive or not, short and long strings, give the scalar values."""
    chance = random.Random(5)
    batch = ["k" * chance.randrange(90) + str(chance.randrange(distinct)) for _ in range(40_000)]
    batch = chance.choices(batch[:distinct], k=40_000)
    expected = [key_hash(key) for key in batch]
    assert expected == vec.hashes_of_keys(batch).tolist()
    assert expected == vec.hashes_of_arrow(pa.array(batch)).tolist()


def test_a_surrogate_in_a_long_batch_is_hashed() -> None:
    """A lone surrogate hashes by its three bytes, also where the batch takes the Arrow path."""
    batch = ["plain"] * 1000 + ["\ud800"]
    assert [kg.key_hash(key) for key in batch] == vec.hashes_of_keys(batch).tolist()


ARROW_COLUMNS: list[tuple[list[Any], pa.DataType]] = [
    *(([0, 1, 100, 127], kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(([0, 255], kind) for kind in (pa.uint8(), pa.uint16())),
    ([-1, -128, -(2**31), 2**31, -(2**63), 2**63 - 1, -5_000_000_000], pa.int64()),
    ([0, 2**31, 2**32 - 1], pa.uint32()),
    ([0, 2**31, 2**63, 2**64 - 1], pa.uint64()),
    ([True, False], pa.bool_()),
    *((["", "a", "żółw", "x" * 200], kind) for kind in (pa.utf8(), pa.large_utf8(), pa.string_view())),
    *(([b"", b"\xff\x00", b"y" * 100], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    ([b"abcd", b"efgh"], pa.binary(4)),
    ([0.0, -0.0, 1.5, 1e300, -(2.0**63), 2.0**63, math.inf, 3.14], pa.float64()),
    ([0.5, 1.0, 0.1], pa.float32()),
    ([dt.datetime(1969, 1, 1, 3, 4, 5, 6), dt.datetime(2024, 1, 1)], pa.timestamp("us")),
    ([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", tz="Europe/Warsaw")),
    ([dt.datetime(2024, 1, 1), dt.datetime(1901, 5, 5)], pa.timestamp("s")),
    ([dt.datetime(2024, 1, 1, 1, 1, 1, 5000)], pa.timestamp("ms")),
    ([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date32()),
    ([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date64()),
    ([uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes], pa.uuid()),
]


@pytest.mark.parametrize(("values", "kind"), ARROW_COLUMNS, ids=lambda v: str(v)[:24])
def test_arrow_columns_hash_as_their_python_values(values: list[Any], kind: pa.DataType) -> None:
    """Every column type, whole, sliced, chunked and dictionary-encoded, gives the scalar hashes."""
    column = (
        pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
        if isinstance(kind, pa.UuidType)
        else pa.array(values, kind)
    )
    expected = [kg.key_hash(value) for value in column.to_pylist()]
    assert expected == vec.hashes_of_arrow(column).tolist()
    assert expected[1:] == vec.hashes_of_arrow(column[1:]).tolist()
    assert expected * 2 == vec.hashes_of_arrow(pa.chunked_array([column, column])).tolist()
    assert vec.hashes_of_arrow(column[:0]).tolist() == []
    if not isinstance(kind, pa.UuidType) and "view" not in str(kind) and kind != pa.binary(4):
        encoded = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1, 0], pa.int8()), column)
        assert [expected[-1], expected[0]] == vec.hashes_of_arrow(encoded).tolist()


def test_columns_together_are_tuples() -> None:
    """Several columns give the groups of the tuples of their values."""
    columns = [pa.array(["a", "b", "a"]), pa.array([1, 2, 3])]
    expected = [kg.key_group(key, 128) for key in (("a", 1), ("b", 2), ("a", 3))]
    assert expected == kg.key_groups_of_arrow(columns, 128).tolist()
    assert [kg.key_group((1,), 128)] == kg.key_groups_of_arrow([pa.array([1])], 128).tolist()


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (pa.array([1, None]), "nulls"),
        (pa.array([None]), "nulls"),
        (pa.array(["a", None]).dictionary_encode(), "nulls"),
        (pa.array([1.0, math.nan]), "NaN"),
        (pa.array([[1]]), "type list"),
        (pa.array([1], pa.timestamp("ns")), "no Python datetime"),
    ],
)
def test_columns_that_are_no_keys_are_refused(column: pa.Array[Any], why: str) -> None:
    """Nulls, NaN, foreign types and nanoseconds are refused by name."""
    with pytest.raises(UsageError, match=why):
        kg.key_groups_of_arrow(column, 128)


def test_dictionary_with_an_unused_null_is_a_key_column() -> None:
    """A null entry of a dictionary that no row uses does no harm."""
    column = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array([None, "b"]))
    assert [kg.key_hash("b")] * 2 == vec.hashes_of_arrow(column).tolist()


RANGES = {
    (128, 3): "0-42, 43-85, 86-127",
    (128, 5): "0-25, 26-51, 52-76, 77-102, 103-127",
    (128, 7): "0-18, 19-36, 37-54, 55-73, 74-91, 92-109, 110-127",
    (10, 3): "0-3, 4-6, 7-9",
    (13, 2): "0-6, 7-12",
    (4, 3): "0-1, 2-2, 3-3",
    (7, 7): "0-0, 1-1, 2-2, 3-3, 4-4, 5-5, 6-6",
    (32768, 3): "0-10922, 10923-21845, 21846-32767",
}


@pytest.mark.parametrize(("setup", "ranges"), RANGES.items())
def test_sg3_ranges_are_golden(setup: tuple[int, int], ranges: str) -> None:
    """sG3: each subtask's first and last key group is fixed by max parallelism and parallelism."""
    got = [kg.key_group_range(*setup, index) for index in range(setup[1])]
    assert ranges == ", ".join(f"{first}-{last}" for first, last in got)


def test_sg4_default_max_parallelism_is_golden() -> None:
    """sG4: one and a half times the parallelism, as a power of two from 128 to 32768."""
    expected = {1: 128, 85: 128, 86: 256, 171: 256, 1000: 2048, 10000: 16384, 21845: 32768, 32768: 32768}
    assert expected == {p: kg.default_max_parallelism(p) for p in expected}


@pytest.mark.parametrize("setup", [(128, 129), (128, 0), (128, -1), (32769, 1), (0, 1), (32768, 32769)])
def test_sg4_parallelism_that_does_not_fit_is_refused(setup: tuple[int, int]) -> None:
    """sG4: more subtasks than key groups, none, or more than 32768 groups are refused."""
    with pytest.raises(UsageError, match="expected 1 to"):
        kg.key_group_range(*setup, 0)


@pytest.mark.parametrize("parallelism", [0, 32769])
def test_sg4_default_max_parallelism_refuses(parallelism: int) -> None:
    """sG4: no default exists for a parallelism that no job can have."""
    with pytest.raises(UsageError, match="parallelism is"):
        kg.default_max_parallelism(parallelism)


@small
@given(st.integers(1, 32768).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, m))), st.data())
def test_sg4_every_group_is_in_the_range_of_its_subtask(setup: tuple[int, int], data: st.DataObject) -> None:
    """sG4: group to subtask and subtask to range are inverse, and both forms agree."""
    group = data.draw(st.integers(0, setup[0] - 1))
    index = kg.operator_index_for_key_group(*setup, group)
    first, last = kg.key_group_range(*setup, index)
    assert first <= group <= last
    assert [index] == kg.operator_indexes_of_key_groups(np.array([group]), *setup).tolist()


@pytest.mark.parametrize("channels", [1, 2, 1024])
def test_sg4_equal_keys_go_to_the_same_channel(channels: int) -> None:
    """sG4: two records with equal keys meet in one subtask, also when their batches differ."""
    keys = [f"key-{number}" for number in range(500)]
    alone = [kg.operator_index_for_key_group(32768, channels, kg.key_group(key, 32768)) for key in keys]
    batch = kg.operator_indexes_of_key_groups(kg.key_groups_of_keys(keys[::-1], 32768), 32768, channels)
    assert alone == batch.tolist()[::-1]
    assert set(alone) <= set(range(channels))


def test_moments_of_a_zone_have_the_hash_of_their_keys() -> None:
    """A column routes a record to where state has its key, also in the hour that is repeated."""
    first = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC)
    column = pa.array([first, first + dt.timedelta(hours=1)], pa.timestamp("ms", "Europe/Berlin"))
    assert vec.hashes_of_arrow(column).tolist() == [kg.key_hash(key) for key in column.to_pylist()]
