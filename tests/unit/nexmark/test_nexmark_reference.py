"""The right answers: DuckDB's SQL on inputs whose answer one can see, and against plain Python."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from nexmark_samples import Bid, dataset_of

from headgate.common.errors import UsageError
from headgate.nexmark import (
    ANSWERS,
    FileFormat,
    NexmarkSettings,
    generate_files,
    open_files,
    ordered,
    q0,
    q1,
    q2,
    q5,
    q7,
    q8,
    q10,
    q11,
    q12,
    q14,
    q21,
    q22,
)

needs_duckdb = pytest.mark.skipif(
    find_spec("duckdb") is None, reason="the reference answers need duckdb: pip install 'headgate[nexmark]'"
)
S = 1000
"""Milliseconds of a second."""


def rows(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    """The rows of a table, or of some of its columns; times in milliseconds since 1970."""
    chosen = table.select(list(columns or table.column_names))
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in chosen.columns
    ]
    times = [pa.types.is_timestamp(column.type) for column in chosen.columns]
    values = [
        [each // 1000 for each in column.to_pylist()] if time else column.to_pylist()
        for column, time in zip(plain, times)
    ]
    return list(zip(*values))


# -- without DuckDB ------------------------------------------------------------------------------------


def test_a_missing_duckdb_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    dataset = dataset_of(tmp_path, Bid())
    for name, (answer, _) in ANSWERS.items():
        if name.startswith("cep"):
            continue  # plain Python finds patterns
        with pytest.raises(UsageError, match=r"need the package duckdb.*: pip install 'headgate\[nexmark\]'"):
            answer(dataset)


def test_ordered_tables_of_equal_rows_are_equal() -> None:
    """Whatever their order and their chunks; texts go by their bytes, and missing values come last."""
    table = pa.table({"a": [2, 1, 1, 1], "b": ["x", "ä", "Z", None], "c": [Decimal("1.5"), None, None, None]})
    other = pa.concat_tables([table.slice(2), table.slice(0, 2)])
    assert ordered(table).equals(ordered(other))
    assert ordered(table)["b"].to_pylist() == ["Z", "ä", None, "x"]


# -- one query at a time -------------------------------------------------------------------------------


@needs_duckdb
def test_q0_returns_all_bids(tmp_path: Path) -> None:
    """Ordered, and equal ones as often as they are."""
    dataset = dataset_of(tmp_path, Bid(2, 7, 5, 30), Bid(1, 8, 6, 20), Bid(2, 7, 5, 30))
    assert rows(q0(dataset)) == [(1, 8, 6, 20, "x"), (2, 7, 5, 30, "x"), (2, 7, 5, 30, "x")]


@needs_duckdb
def test_q1_is_exact(tmp_path: Path) -> None:
    """No price passes through a float."""
    dataset = dataset_of(tmp_path, Bid(price=1), Bid(price=100), Bid(price=9_007_199_254_740_993))
    assert rows(q1(dataset), "price") == [
        (Decimal("0.908"),),
        (Decimal("90.800"),),
        (Decimal("8178536923304821.644"),),
    ]


@needs_duckdb
def test_q2_takes_multiples_of_123(tmp_path: Path) -> None:
    """Auction and price of them."""
    dataset = dataset_of(tmp_path, Bid(1106, price=1), Bid(1107, price=2), Bid(1230, price=3), Bid(1231))
    assert rows(q2(dataset)) == [(1107, 2), (1230, 3)]


@needs_duckdb
def test_q5_slides_by_two_seconds(tmp_path: Path) -> None:
    """A bid is in five windows; one at the end of a window is not in it."""
    assert rows(q5(dataset_of(tmp_path / "one", Bid(1, ms=100 * S)))) == [(1, 1)] * 5
    dataset = dataset_of(tmp_path / "two", Bid(1, ms=100 * S), Bid(1, ms=110 * S - 1), Bid(2, ms=110 * S))
    # Windows that begin at 92, 94, 96, 98: the first bid. At 100: both of auction 1. At 102 to 108: the
    # second and the third tie. At 110: the third.
    assert rows(q5(dataset)) == [(1, 1)] * 8 + [(1, 2)] + [(2, 1)] * 5


@needs_duckdb
def test_q5_keeps_ties(tmp_path: Path) -> None:
    """All auctions with the highest count of a window, and no other."""
    bids = [Bid(auction, ms=100 * S + number) for number, auction in enumerate((1, 2, 3, 2, 1))]
    assert rows(q5(dataset_of(tmp_path, *bids))) == [(1, 2)] * 5 + [(2, 2)] * 5


@needs_duckdb
def test_q5_windows_before_1970(tmp_path: Path) -> None:
    """They are aligned as the others are."""
    dataset = dataset_of(tmp_path, Bid(1, ms=-1), Bid(2, ms=-2 * S), Bid(2, ms=-3 * S))
    # Beginnings -12: auction 2 once; -10, -8, -6, -4: auction 2 twice; -2: both once.
    assert rows(q5(dataset)) == [(1, 1), (2, 1), (2, 1), (2, 2), (2, 2), (2, 2), (2, 2)]


@needs_duckdb
def test_q7_keeps_all_bids_with_the_highest_price(tmp_path: Path) -> None:
    """Of their window."""
    dataset = dataset_of(
        tmp_path,
        Bid(1, 7, 50, 100 * S),
        Bid(2, 8, 50, 109 * S),
        Bid(3, 9, 49, 105 * S),
        Bid(4, 9, 20, 111 * S),
    )
    assert rows(q7(dataset), "auction", "price", "bidder") == [(1, 50, 7), (2, 50, 8), (4, 20, 9)]


@needs_duckdb
def test_q7_includes_the_end_of_a_window(tmp_path: Path) -> None:
    """A bid at the very end counts for the window before, too, and twice if it wins both; a later one not."""
    end = 110 * S
    before = dataset_of(
        tmp_path / "before",
        Bid(1, price=50, ms=end - 1),
        Bid(2, price=50, ms=end),
        Bid(3, price=90, ms=end + 1),
    )
    assert rows(q7(before), "auction") == [(1,), (2,), (3,)]
    both = dataset_of(tmp_path / "both", Bid(1, price=50, ms=end - 1), Bid(2, price=50, ms=end))
    assert rows(q7(both), "auction") == [(1,), (2,), (2,)]
    later = dataset_of(
        tmp_path / "later",
        Bid(1, price=50, ms=end - 1),
        Bid(2, price=50, ms=end + 1),
        Bid(3, price=90, ms=end + 2),
    )
    assert rows(q7(later), "auction") == [(1,), (3,)]


@needs_duckdb
def test_q8_joins_within_a_window(tmp_path: Path) -> None:
    """Once for each person, however many auctions; the windows must be the same one."""
    persons = [
        {"id": 1, "name": "Ada", "dateTime": 100 * S * S},
        {"id": 2, "name": "Bo", "dateTime": 109 * S * S},
    ]
    auctions = [
        {"seller": 1, "dateTime": 101 * S * S},
        {"seller": 1, "dateTime": 109 * S * S},
        {"seller": 2, "dateTime": 110 * S * S},
        {"seller": 3, "dateTime": 101 * S * S},
    ]
    dataset = dataset_of(tmp_path, persons=persons, auctions=auctions)
    assert rows(q8(dataset)) == [(1, "Ada", 100 * S)]


@needs_duckdb
def test_q8_needs_no_bids(tmp_path: Path) -> None:
    """A dataset that was opened without them does."""
    dataset_of(tmp_path, persons=[{"id": 5}], auctions=[{"seller": 5}])
    assert rows(q8(open_files(tmp_path, ["persons", "auctions"]))) == [(5, "x", 0)]
    with pytest.raises(UsageError, match="was opened without bids"):
        q0(open_files(tmp_path, ["persons", "auctions"]))


@needs_duckdb
def test_q10_adds_day_and_minute(tmp_path: Path) -> None:
    """In UTC, whatever the zone of the machine."""
    dataset = dataset_of(tmp_path, Bid(ms=0), Bid(ms=86_400_000 - 1), Bid(ms=1_436_918_400_000))
    found = rows(q10(dataset), "dt", "hm")
    assert found == [("1970-01-01", "00:00"), ("1970-01-01", "23:59"), ("2015-07-15", "00:00")]


@needs_duckdb
def test_q11_joins_sessions_that_touch(tmp_path: Path) -> None:
    """A pause of exactly 10 s is within a session, a longer one ends it."""
    dataset = dataset_of(
        tmp_path,
        Bid(bidder=1, ms=0),
        Bid(bidder=1, ms=10 * S),
        Bid(bidder=1, ms=20 * S + 1),
        Bid(bidder=2, ms=5 * S),
    )
    assert rows(q11(dataset)) == [
        (1, 1, 20 * S + 1, 30 * S + 1),
        (1, 2, 0, 20 * S),
        (2, 1, 5 * S, 15 * S),
    ]


@needs_duckdb
def test_q11_counts_bids_of_one_moment_together(tmp_path: Path) -> None:
    """Also where they begin a session, in whatever order they are."""
    bids = [Bid(bidder=number % 7, ms=30 * S * (number % 3), price=number) for number in range(2100)]
    found = rows(q11(dataset_of(tmp_path, *bids)))
    assert found == [
        (bidder, 100, 30 * S * each, 30 * S * each + 10 * S) for bidder in range(7) for each in range(3)
    ]


@needs_duckdb
def test_q12_takes_the_times_it_is_given(tmp_path: Path) -> None:
    """One for each bid, in the order of the files; without them, those of the events."""
    dataset = dataset_of(tmp_path, Bid(bidder=1, ms=3), Bid(bidder=2, ms=1), Bid(bidder=1, ms=2))
    assert rows(q12(dataset)) == [(1, 2, 0, 10 * S), (2, 1, 0, 10 * S)]
    times = pa.array([5 * S * S, 15 * S * S, 19_999_999], pa.int64()).cast(pa.timestamp("us", "UTC"))
    expected = [(1, 1, 0, 10 * S), (1, 1, 10 * S, 20 * S), (2, 1, 10 * S, 20 * S)]
    assert rows(q12(dataset, times)) == expected
    assert rows(q12(dataset, pa.chunked_array([times[:1], times[1:]]))) == expected
    with pytest.raises(UsageError, match="q12 got 2 processing times for 3 bids in"):
        q12(dataset, times[:2])


@needs_duckdb
def test_q14_excludes_both_bounds(tmp_path: Path) -> None:
    """Of 10^6 < 0.908 * price < 5 * 10^7."""
    prices = (1_101_321, 1_101_322, 55_066_079, 55_066_080, 250 * 4000, 1000)
    found = q14(dataset_of(tmp_path, *(Bid(price=price) for price in prices)))
    assert rows(found, "price") == [(Decimal("1000000.376"),), (Decimal("49999999.732"),)]


@needs_duckdb
def test_q14_tells_day_from_night(tmp_path: Path) -> None:
    """8 to 18 is day, 20 to 6 is night, by the hour that has begun; 7 and 19 are neither."""
    bids = [Bid(hour, price=2_000_000, ms=hour * 3_600_000 + 3_599_999) for hour in range(24)]
    found = dict(rows(q14(dataset_of(tmp_path, *bids)), "auction", "bidTimeType"))  # type: ignore[arg-type]
    night, day = ["nightTime"], ["dayTime"]
    assert list(found.values()) == [*night * 7, "otherTime", *day * 11, "otherTime", *night * 4]


@needs_duckdb
def test_q14_counts_letters(tmp_path: Path) -> None:
    """Small c only."""
    extras = ("", "C", "abc", "cc c", "äc")
    found = q14(dataset_of(tmp_path, *(Bid(price=2_000_000, extra=extra) for extra in extras)))
    assert dict(rows(found, "extra", "c_counts")) == {"": 0, "C": 0, "abc": 1, "cc c": 3, "äc": 1}  # type: ignore[arg-type]


@needs_duckdb
def test_q21_finds_ids_of_channels(tmp_path: Path) -> None:
    """Hot ones by name in any case, others in the URL, with an empty id too; bids without one are dropped."""
    dataset = dataset_of(
        tmp_path,
        Bid(1, channel="Apple"),
        Bid(2, channel="GOOGLE", url="u?channel_id=77"),
        Bid(3, channel="facebook"),
        Bid(4, channel="Baidu"),
        Bid(5, channel="c", url="http://h/i?q=1&channel_id=99&x=1"),
        Bid(6, channel="c", url="channel_id=5"),
        Bid(7, channel="c", url="http://h/i?channel_id=5"),
        Bid(8, channel="c", url="http://h/i?q=1&channel_id="),
        Bid(9, channel="c", url="http://h/i?q=1"),
    )
    assert rows(q21(dataset), "auction", "channel_id") == [
        (1, "0"), (2, "1"), (3, "2"), (4, "3"), (5, "99"), (6, "5"), (8, ""),
    ]  # fmt: skip


@needs_duckdb
def test_q22_cuts_urls(tmp_path: Path) -> None:
    """At each slash; what is not there is null."""
    dataset = dataset_of(
        tmp_path, Bid(1, url="https://h/a/b/c/d"), Bid(2, url="https://h//b"), Bid(3, url="")
    )
    assert rows(q22(dataset), "auction", "dir1", "dir2", "dir3") == [
        (1, "a", "b", "c"), (2, "", "b", None), (3, None, None, None),
    ]  # fmt: skip


# -- generated events ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 s of events, shuffled, in both formats."""
    top = tmp_path_factory.mktemp("nexmark")
    settings = NexmarkSettings(rate=200, out_of_order_group_size=50)
    for file_format in FileFormat:
        generate_files(top / file_format, settings, 6000, file_format=file_format, files=3)
    return top


@needs_duckdb
@pytest.mark.parametrize("query", ANSWERS)
def test_answers_are_ordered_tables_of_their_columns(folder: Path, query: str) -> None:
    """The same from JSON lines, and not empty."""
    answer, schema = ANSWERS[query]
    found = answer(open_files(folder / "parquet"))
    assert found.schema == schema
    assert found.num_rows > 0
    assert ordered(found).equals(found)
    assert answer(open_files(folder / "json")).equals(found)


def generated(folder: Path) -> list[Bid]:
    """The generated bids, with times in milliseconds."""
    columns = ["auction", "bidder", "price", "dateTime", "channel", "url", "extra"]
    return [Bid(*row) for row in rows(open_files(folder / "parquet").read("bids"), *columns)]  # type: ignore[arg-type]


@needs_duckdb
def test_q5_in_plain_python(folder: Path) -> None:
    """Windows of bids, counted one by one."""
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in generated(folder):
        last = bid.ms - bid.ms % 2000
        for start in range(last - 8000, last + 1, 2000):
            windows[start][bid.auction] += 1
    expected = sorted(
        (auction, num)
        for counts in windows.values()
        for auction, num in counts.items()
        if num == max(counts.values())
    )
    assert rows(q5(open_files(folder / "parquet"))) == expected


@needs_duckdb
def test_q7_in_plain_python(folder: Path) -> None:
    """The highest price of each window, and who offered it."""
    bids = generated(folder)
    highest: dict[int, int] = defaultdict(int)
    for bid in bids:
        highest[bid.ms // 10_000] = max(highest[bid.ms // 10_000], bid.price)
    expected = sorted(
        (bid.auction, bid.price, bid.bidder, bid.ms, bid.extra)
        for window, price in highest.items()
        for bid in bids
        if bid.price == price and window * 10_000 <= bid.ms <= window * 10_000 + 10_000
    )
    assert rows(q7(open_files(folder / "parquet"))) == expected


def sessions(times: list[int]) -> Iterator[tuple[int, int, int]]:
    """Count, beginning and end of each session of one bidder."""
    times = sorted(times)
    while times:
        length = next((n for n in range(1, len(times)) if times[n] - times[n - 1] > 10_000), len(times))
        yield length, times[0], times[length - 1] + 10_000
        times = times[length:]


@needs_duckdb
def test_q11_in_plain_python(folder: Path) -> None:
    """Sessions of each bidder, of which some have several."""
    times: dict[int, list[int]] = defaultdict(list)
    for bid in generated(folder):
        times[bid.bidder].append(bid.ms)
    expected = sorted((bidder, *session) for bidder, each in times.items() for session in sessions(each))
    assert len(expected) > len(times)
    assert rows(q11(open_files(folder / "parquet"))) == expected
