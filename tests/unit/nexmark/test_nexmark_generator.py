"""The generated events: fixed bytes, the same whatever the cut, and distributed as Nexmark says."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nexmark_samples import checksum

from headgate.common.errors import ConfigError
from headgate.nexmark import SCHEMAS, Events, NexmarkSettings, event_batches, events
from headgate.nexmark.generator import BATCH_EVENTS_MAX, EVENTS_MAX

MANY = 500_000
"""Events for distributions; a share of one half among its bids strays by less than 0.004."""


@cache
def many() -> Events:
    """The first events of seed 1."""
    return events(NexmarkSettings(), 0, MANY)


def ints(column: pa.Array) -> np.ndarray:
    """Numbers or times (in microseconds) as integers."""
    return np.asarray(column.cast(pa.int64()))


def ids_of_bids() -> np.ndarray:
    """The event ids of the bids of `many`, which arrive in order."""
    ids = np.arange(MANY)
    return ids[ids % 50 > 3]


# -- fixed bytes ---------------------------------------------------------------------------------------


def test_the_kinds_of_the_first_events() -> None:
    """Of 50 events one is a person, three are auctions and 46 are bids."""
    assert [batch.num_rows for batch in events(NexmarkSettings(), 0, 100_000)] == [2_000, 6_000, 92_000]
    assert [batch.num_rows for batch in events(NexmarkSettings(), 1, 5)] == [0, 3, 1]


def test_the_bytes_of_seed_1() -> None:
    """Generated files and published measurements rely on them: other bytes need a new GENERATOR_VERSION."""
    found = events(NexmarkSettings(), 0, 100_000)
    assert [checksum(batch) for batch in found] == [
        "9b8ddf23fbb79417",
        "ba6239115eb23e54",
        "14e445021a3822fe",
    ]


def test_the_bytes_of_a_shuffled_stream() -> None:
    """Groups of 1,000, another seed and rate, and ids far from 0."""
    settings = NexmarkSettings(seed=2**64 - 1, rate=7, out_of_order_group_size=1000, base_time_ms=0)
    found = events(settings, 10**11, 10**11 + 10_000)
    assert [checksum(batch) for batch in found] == [
        "387ef3b0e839ed8b",
        "ddb494038a28ed56",
        "64c83b7a0044ca40",
    ]


def test_the_first_person_auction_and_bid() -> None:
    """As they are, in words."""
    persons, auctions, bids = events(NexmarkSettings(), 0, 50)
    person, auction, bid = (batch.to_pylist()[0] for batch in (persons, auctions, bids))
    assert person["id"] == auction["id"] == auction["seller"] == 1000
    assert person["dateTime"].isoformat() == "2015-07-15T00:00:00+00:00"
    assert (
        person["name"],
        person["emailAddress"],
        person["creditCard"],
        person["city"],
        person["state"],
    ) == (
        "Ada Fischer",
        "hkeb@dwyv.com",
        "9578 5374 5659 0960",
        "Tucson",
        "OR",
    )
    assert (auction["itemName"], auction["initialBid"], auction["reserve"]) == ("ibbe djzn", 1287992, 5920063)
    assert (auction["expires"] - auction["dateTime"]).total_seconds() == 0.107
    assert (bid["auction"], bid["bidder"], bid["price"], bid["channel"]) == (1000, 1001, 5612, "Baidu")
    assert bid["url"] == "https://www.nexmark.com/ckmd/cnm/ch_s/item.htm?query=1"


# -- cuts and order ------------------------------------------------------------------------------------

any_settings = st.builds(
    NexmarkSettings,
    seed=st.sampled_from([0, 1, 2**64 - 1]),  # each costs a pool of texts
    rate=st.integers(1, 10**9),
    out_of_order_group_size=st.sampled_from([1, 2, 50, 954, 10**6]),
    base_time_ms=st.integers(0, 10**14),
)


@settings(max_examples=50)
@given(
    any_settings,
    st.integers(0, 10**9) | st.integers(EVENTS_MAX - 1000, EVENTS_MAX - 200),
    st.lists(st.integers(0, 200), max_size=3),
)
@example(NexmarkSettings(), 0, [0, 1, 4, 50])
def test_a_range_may_be_cut_anywhere(chosen: NexmarkSettings, first: int, cuts: list[int]) -> None:
    """Pieces in a row have the same rows as the whole range."""
    marks = sorted({0, 200, *cuts})
    pieces = [events(chosen, first + low, first + high) for low, high in pairwise(marks)]
    whole = events(chosen, first, first + 200)
    for table, batch in enumerate(whole):
        assert pa.Table.from_batches([piece[table] for piece in pieces]).combine_chunks().to_batches() == [
            batch
        ]


@pytest.mark.parametrize("size", [9, 49, 50, 1000])
def test_batches_have_the_events_of_the_range(size: int) -> None:
    """Whatever the size of a batch."""
    found = list(event_batches(NexmarkSettings(), 7, 250, size))
    whole = events(NexmarkSettings(), 7, 250)
    for table, batch in enumerate(whole):
        assert pa.Table.from_batches([piece[table] for piece in found]).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize("group", [3, 7, 50, 100, 1000])
def test_shuffled_groups_have_the_same_events(group: int) -> None:
    """In another order within each group, unless the size divides 952, and in no other group."""
    shuffled = NexmarkSettings(out_of_order_group_size=group)
    for first in (0, group * 3):
        here, there = events(shuffled, first, first + group), events(NexmarkSettings(), first, first + group)
        for some, others in zip(here, there):
            order = [(name, "ascending") for name in some.schema.names]
            assert some.sort_by(order) == others.sort_by(order)
    same = events(shuffled, 0, group * 50) == events(NexmarkSettings(), 0, group * 50)
    assert same is (group == 7)


def test_shuffled_events_arrive_by_the_rule() -> None:
    """At position n comes the event (n div g) * g + (n * 953) mod g."""
    settings = NexmarkSettings(out_of_order_group_size=50, rate=1000, base_time_ms=0)
    times = ints(events(settings, 0, 200).bids["dateTime"]) // 1000
    ids = [n // 50 * 50 + n * 953 % 50 for n in range(200)]
    assert times.tolist() == [each for each in ids if each % 50 > 3]


def test_another_seed_gives_other_events() -> None:
    """All columns differ but the ids and times of what is new."""
    one, other = events(NexmarkSettings(seed=1), 0, 5000), events(NexmarkSettings(seed=2), 0, 5000)
    for some, others in zip(one, other):
        for name in some.schema.names:
            assert (some[name] == others[name]) is (name in ("id", "dateTime")), name


# -- ids and times -------------------------------------------------------------------------------------


def test_batches_have_the_published_columns() -> None:
    """In this order; empty batches too."""
    assert [batch.schema for batch in many()] == list(SCHEMAS.values())
    assert [batch.schema for batch in events(NexmarkSettings(), 3, 3)] == list(SCHEMAS.values())


def test_ids_go_up_by_one() -> None:
    """From 1000, for persons and for auctions."""
    for batch in many()[:2]:
        assert (ints(batch["id"]) == 1000 + np.arange(batch.num_rows)).all()


@pytest.mark.parametrize("rate", [1, 3, 10_000, 10**9])
def test_times_follow_from_ids(rate: int) -> None:
    """In whole milliseconds, rounded down."""
    times = ints(events(NexmarkSettings(rate=rate, base_time_ms=5), 0, 1050).bids["dateTime"])
    ids = [number for number in range(1050) if number % 50 > 3]
    assert times.tolist() == [(5 + number * 1000 // rate) * 1000 for number in ids]


def test_auctions_stay_open_for_their_time() -> None:
    """From 1 ms to twice the time of 1,666 events, and for that time on average."""
    open_ms = (ints(many().auctions["expires"]) - ints(many().auctions["dateTime"])) // 1000
    assert open_ms.min() == 1
    assert 330 <= open_ms.max() <= 334
    assert open_ms.mean() == pytest.approx(167, abs=2)


def test_auctions_are_open_for_a_millisecond_at_least() -> None:
    """Also when a thousand events share one."""
    auctions = events(NexmarkSettings(rate=10**9), 0, 5000).auctions
    assert set((ints(auctions["expires"]) - ints(auctions["dateTime"])).tolist()) == {1000}


# -- distributions -------------------------------------------------------------------------------------


def share(flags: np.ndarray | pa.Array) -> float:
    """How many are true, of 1."""
    return float(np.asarray(flags).mean())


def test_half_of_the_bids_are_on_the_hot_auction() -> None:
    """The first of the last hundred; the others are on the last 101 auctions and ten that are to come."""
    auction, last = ints(many().bids["auction"]) - 1000, ids_of_bids() // 50 * 3 + 2
    hot = auction == last // 100 * 100
    assert share(hot) == pytest.approx(0.5 + 0.5 / 111, abs=0.005)
    assert (last - auction)[~hot].min() == -10
    assert (last - auction)[~hot].max() == 100
    assert share(auction > last) == pytest.approx(0.5 * 10 / 111, abs=0.002)


def test_three_of_four_bids_are_by_the_hot_bidder() -> None:
    """The second of the last hundred persons; the others by a thousand persons, and ten that are to come."""
    bidder, last = ints(many().bids["bidder"]) - 1000, ids_of_bids() // 50
    hot = bidder == last // 100 * 100 + 1
    assert share(hot) == pytest.approx(0.75, abs=0.005)
    settled = last > 1000
    assert (last - bidder)[~hot & settled].min() == -10
    assert (last - bidder)[~hot & settled].max() == 999
    assert bidder.min() == 0


def test_three_of_four_auctions_are_of_the_hot_seller() -> None:
    """The first of the last hundred persons."""
    seller = ints(many().auctions["seller"]) - 1000
    last = np.arange(len(seller)) // 3
    assert share(seller == last // 100 * 100) == pytest.approx(0.75, abs=0.015)
    assert (last - seller)[last > 1000].min() == -10


def test_prices_are_log_uniform() -> None:
    """From 100 to 10^8 cents: a sixth of them in each power of ten."""
    for prices in (ints(many().bids["price"]), ints(many().auctions["initialBid"])):
        tolerance = 3 / len(prices) ** 0.5
        for place in np.linspace(0.1, 0.9, 9):
            assert share(prices < 10 ** (2 + 6 * place)) == pytest.approx(place, abs=tolerance)
        assert 100 <= prices.min() < 102
        assert 9e7 < prices.max() <= 10**8
    auctions = many().auctions
    raised = ints(auctions["reserve"]) - ints(auctions["initialBid"])
    assert 100 <= raised.min() <= raised.max() <= 10**8
    assert abs(np.corrcoef(np.log(raised), np.log(ints(auctions["initialBid"])))[0, 1]) < 0.03


def test_channels() -> None:
    """Half of the bids come by one of four, which have no id in their URL; nine of ten others have one."""
    bids = many().bids.select(["channel", "url"])
    counts = {
        row["values"]: row["counts"] / bids.num_rows for row in pc.value_counts(bids["channel"]).to_pylist()
    }
    for hot in ("Google", "Facebook", "Baidu", "Apple"):
        assert counts.pop(hot) == pytest.approx(1 / 8, abs=0.004)
    assert len(counts) == 10_000
    assert max(counts.values()) < 5 * 0.5 / 10_000
    pairs = pa.Table.from_batches([bids]).group_by(["channel", "url"]).aggregate([]).to_pylist()
    assert len(pairs) == 10_004, "each channel has one URL"
    without_id = {pair["channel"] for pair in pairs if "&channel_id=" not in pair["url"]}
    assert without_id > {"Google", "Facebook", "Baidu", "Apple"}
    assert len(without_id) / 10_000 == pytest.approx(0.1, abs=0.01)


def test_urls_have_three_folders_and_the_mirrored_number() -> None:
    """Of three or four characters each."""
    pattern = r"https://www\.nexmark\.com(/[a-z_]{3,4}){3}/item\.htm\?query=1(&channel_id=[0-9]+)?"
    urls = dict(zip(many().bids["channel"].to_pylist(), many().bids["url"].to_pylist()))
    assert pc.all(pc.match_substring_regex(pa.array(urls.values()), f"^{pattern}$")).as_py()
    assert any("_" in url for url in urls.values())
    shown = {name: int(url.partition("channel_id=")[2]) for name, url in urls.items() if "channel_id" in url}
    for name, number in shown.items():
        mirrored = int(f"{int(name.removeprefix('channel-')):032b}"[::-1], 2)
        assert number == min(mirrored, 2**32 - mirrored)


def test_sizes_are_right_on_average() -> None:
    """200 bytes a person, 500 an auction, 100 a bid: 8 for a number, and texts; the padding sees to that."""
    persons, auctions, bids = many()

    def average(batch: pa.RecordBatch, numbers: int, *texts: str) -> float:
        return 8 * numbers + sum(float(pc.mean(pc.binary_length(batch[text])).as_py()) for text in texts)

    assert average(
        persons, 1, "name", "emailAddress", "creditCard", "city", "state", "extra"
    ) == pytest.approx(200, abs=1)
    assert average(auctions, 6, "itemName", "description", "extra") == pytest.approx(500, abs=2)
    assert average(bids, 4, "extra") == pytest.approx(100, abs=1)
    lengths = np.asarray(pc.binary_length(bids["extra"]))
    assert (lengths.min(), lengths.max()) == (54, 81)


def test_texts_are_of_their_alphabets() -> None:
    """Words may have spaces within, and nowhere else; paddings are of letters, all as frequent."""
    persons, auctions, bids = many()
    patterns = [
        (persons["name"], r"[A-Z][a-z]+ [A-Z][a-z]+"),
        (persons["creditCard"], r"[0-9]{4}( [0-9]{4}){3}"),
        (persons["emailAddress"], r"([a-z]([a-z ]{0,4}[a-z])?)?@([a-z]([a-z ]{0,2}[a-z])?)?\.com"),
        (persons["state"], r"AZ|CA|ID|OR|WA|WY"),
        (persons["extra"], r"[a-z]*"),
        (auctions["itemName"], r"([a-z]([a-z ]{0,17}[a-z])?)?"),
        (auctions["description"], r"([a-z]([a-z ]{0,97}[a-z])?)?"),
        (auctions["extra"], r"[a-z]*"),
        (bids["extra"], r"[a-z]{54,81}"),
    ]
    for column, pattern in patterns:
        assert pc.all(pc.match_substring_regex(column, f"^({pattern})$")).as_py(), pattern
    assert len(persons["city"].unique()) == 10
    assert len(persons["name"].unique()) == 99
    text = "".join(bids["extra"].slice(0, 20_000).to_pylist())
    for letter in "abcdefghijklmnopqrstuvwxyz":
        assert text.count(letter) / len(text) == pytest.approx(1 / 26, abs=0.001)
    text = "".join(auctions["description"].to_pylist())
    assert text.count(" ") / len(text) == pytest.approx(1 / 13, abs=0.003)


def test_categories_are_all_as_frequent() -> None:
    """10 to 14."""
    counts = np.bincount(ints(many().auctions["category"]))
    assert counts[:10].tolist() == [0] * 10
    assert counts[10:] / counts.sum() == pytest.approx(np.full(5, 0.2), abs=0.012)


# -- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seed": -1}, "seed is -1; expected 0 to 18446744073709551615"),
        ({"rate": 0}, "rate is 0; expected 1 to"),
        ({"out_of_order_group_size": 0}, "group_size is 0; expected 1 to"),
        ({"out_of_order_group_size": 1906}, "a multiple of 953, with which events would repeat; choose"),
        ({"base_time_ms": -1}, "base_time_ms is -1; expected 0 to"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, int], says: str) -> None:
    """Before anything is generated, with what was expected."""
    with pytest.raises(ConfigError, match=says):
        NexmarkSettings(**wrong)


@pytest.mark.parametrize(
    ("first", "stop"), [(-1, 5), (5, 4), (0, BATCH_EVENTS_MAX + 1), (EVENTS_MAX, EVENTS_MAX + 1)]
)
def test_wrong_ranges_are_refused(first: int, stop: int) -> None:
    """Backwards, beyond the last event, or larger than texts can be."""
    with pytest.raises(ConfigError, match="expected"):
        events(NexmarkSettings(), first, stop)
