"""Nexmark's stream of events, persons, auctions and bids, as Arrow batches; seed and id determine an event.

Events have the ids 0, 1, 2, ... Of 50 in a row the first is a person, three are auctions and 46 are bids.
They arrive in the order of their ids, or shuffled within groups of a fixed size. The rules are those of the
public benchmark, apart from where the random numbers come from, and from the lists of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import ConfigError
from headgate.nexmark.bid_channels import CHANNELS, HOT_CHANNELS, channel_names, channel_urls
from headgate.nexmark.random_numbers import Draws, Integers, Purpose
from headgate.nexmark.random_texts import POOL_BYTES, letters_pool, words_pool

GENERATOR_VERSION: Final = 1
"""Goes up whenever the same settings give other bytes: files of an older version must not pass for new
ones."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

PERSONS: Final = pa.schema(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "emailAddress": pa.string(),
        "creditCard": pa.string(),
        "city": pa.string(),
        "state": pa.string(),
        "dateTime": _TIMESTAMP,
        "extra": pa.string(),
    }
)
"""Columns of the persons who register."""

AUCTIONS: Final = pa.schema(
    {
        "id": pa.int64(),
        "itemName": pa.string(),
        "description": pa.string(),
        "initialBid": pa.int64(),  # cents
        "reserve": pa.int64(),  # cents
        "dateTime": _TIMESTAMP,
        "expires": _TIMESTAMP,
        "seller": pa.int64(),  # id of a person
        "category": pa.int64(),
        "extra": pa.string(),
    }
)
"""Columns of the auctions that open."""

BIDS: Final = pa.schema(
    {
        "auction": pa.int64(),  # id of an auction
        "bidder": pa.int64(),  # id of a person
        "price": pa.int64(),  # cents
        "channel": pa.string(),
        "url": pa.string(),
        "dateTime": _TIMESTAMP,
        "extra": pa.string(),
    }
)
"""Columns of the bids."""

EVENTS_MAX: Final = 10**12
"""Ids are below this; the time of such an event still fits into microseconds at one event per second."""

BATCH_EVENTS_MAX: Final = 20_000_000
"""Events of one batch: the texts of a column must stay below 2 GiB."""

_CYCLE: Final = 50  # a person, three auctions, 46 bids
_AUCTIONS_PER_CYCLE: Final = 3
_SHUFFLE_FACTOR: Final = 953  # a prime: position * 953 mod size is a permutation unless it divides the size
_FIRST_ID: Final = 1000  # of persons and auctions alike
_ACTIVE_PERSONS: Final = 1000
_OPEN_AUCTIONS: Final = 100
_LEAD: Final = 10  # so many ids may be named before they exist
_HOT_GROUP: Final = 100  # of so many persons or auctions one is hot
_FIRST_CATEGORY: Final = 10
_CATEGORIES: Final = 5
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100  # on average, with the padding; urls do not count
_MS_US: Final = 1000

_FIRST_NAMES: Final = pa.array(
    ["Ada", "Boris", "Chiara", "David", "Elena", "Femi", "Grace", "Hugo", "Ines", "Jonas", "Kenji"]
)
_LAST_NAMES: Final = pa.array(
    ["Adler", "Brook", "Castro", "Dunn", "Evans", "Fischer", "Garcia", "Hansen", "Ito"]
)
_CITIES: Final = pa.array(
    ["Tucson", "Fresno", "Oakland", "Nampa", "Salem", "Eugene", "Tacoma", "Spokane", "Laramie", "San Diego"]
)
_STATES: Final = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])


@dataclass(frozen=True)
class NexmarkSettings:
    """What the events depend on, apart from their ids.

    Arguments:
        seed: of all random numbers, 0 to 2^64 - 1.
        rate: events per second of event time, 1 to 10^9.
        out_of_order_group_size: events arrive shuffled within groups of this size; 1 is in order, and so are
            the divisors of 952. A multiple of 953 would repeat events, and is refused.
        base_time_ms: event time of event 0, in milliseconds since 1970, from 0 to 10^14.

    Raises:
        ConfigError: a value is out of its range.
    """

    seed: int = 1
    rate: int = 10_000
    out_of_order_group_size: int = 1
    base_time_ms: int = 1_436_918_400_000  # 15 July 2015, 0:00 UTC, as in other Nexmark generators

    def __post_init__(self) -> None:
        _check("seed", self.seed, 0, 2**64 - 1)
        _check("rate", self.rate, 1, 10**9)
        _check("out_of_order_group_size", self.out_of_order_group_size, 1, 10**6)
        _check("base_time_ms", self.base_time_ms, 0, 10**14)
        if self.out_of_order_group_size % _SHUFFLE_FACTOR == 0:
            raise ConfigError(
                f"Nexmark's out_of_order_group_size is {self.out_of_order_group_size}, a multiple of "
                f"{_SHUFFLE_FACTOR}, with which events would repeat; choose another size"
            )


class Events(NamedTuple):
    """The events of a range, each kind in the order of arrival.

    Attributes:
        persons: a batch with the schema `PERSONS`.
        auctions: a batch with the schema `AUCTIONS`.
        bids: a batch with the schema `BIDS`.
    """

    persons: pa.RecordBatch
    auctions: pa.RecordBatch
    bids: pa.RecordBatch


SCHEMAS: Final = {"persons": PERSONS, "auctions": AUCTIONS, "bids": BIDS}
"""Table -> its columns; the names are those of the fields of `Events`, in the same order."""


def events(settings: NexmarkSettings, first: int, stop: int) -> Events:
    """Return the events that arrive at the positions `first` to `stop` - 1, counted from 0.

    An event is the same whatever the range it is asked for with. In order, which is the default, the position
    is the event's id. With a group size g above 1, the ids of a range are complete where `first` and `stop`
    are multiples of g.

    Raises:
        ConfigError: the range is empty backwards, longer than `BATCH_EVENTS_MAX`, or beyond `EVENTS_MAX`.

    Example:
        >>> first = events(NexmarkSettings(seed=1), 0, 50)
        >>> [batch.num_rows for batch in first]
        [1, 3, 46]
        >>> first.auctions["id"].to_pylist()
        [1000, 1001, 1002]
    """
    _check("range's end", stop, 0, EVENTS_MAX)
    _check("range's beginning", first, max(0, stop - BATCH_EVENTS_MAX), stop)
    ids = _ids_at(np.arange(first, stop, dtype=np.int64), settings.out_of_order_group_size)
    places = ids % _CYCLE
    return Events(
        _persons(settings, ids[places == 0]),
        _auctions(settings, ids[(places > 0) & (places <= _AUCTIONS_PER_CYCLE)]),
        _bids(settings, ids[places > _AUCTIONS_PER_CYCLE]),
    )


def event_batches(settings: NexmarkSettings, first: int, stop: int, size: int = 50_000) -> Iterator[Events]:
    """Yield the events of :func:`events` in pieces of `size` events, which need little memory.
    The last piece may be smaller. ConfigError as of :func:`events`, for a piece; `size` is at least 1.

    Example:
        >>> [piece.bids.num_rows for piece in event_batches(NexmarkSettings(), 0, 250, size=100)]
        [92, 92, 46]
    """
    for begin in range(first, stop, size):
        yield events(settings, begin, min(begin + size, stop))


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"Nexmark's {name} is {value}; expected {low} to {high}")


def _ids_at(positions: Integers, group: int) -> Integers:
    if group == 1:
        return positions
    begins = positions - positions % group
    return begins + positions * _SHUFFLE_FACTOR % group


def _time_ms(settings: NexmarkSettings, ids: Integers) -> Integers:
    return settings.base_time_ms + ids * 1000 // settings.rate


def _persons(settings: NexmarkSettings, ids: Integers) -> pa.RecordBatch:
    draws = Draws(settings.seed, ids)
    words = words_pool(settings.seed)
    columns = [
        _joined(
            _drawn(draws, Purpose.FIRST_NAME, _FIRST_NAMES),
            " ",
            _drawn(draws, Purpose.LAST_NAME, _LAST_NAMES),
        ),
        _joined(
            words.words(draws, Purpose.MAILBOX_LENGTH, Purpose.MAILBOX_START, 7),
            "@",
            words.words(draws, Purpose.DOMAIN_LENGTH, Purpose.DOMAIN_START, 5),
            ".com",
        ),
        _cards(settings.seed, ids),
        _drawn(draws, Purpose.CITY, _CITIES),
        _drawn(draws, Purpose.STATE, _STATES),
    ]
    used = 8 + _text_bytes(*columns)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(ids // _CYCLE + _FIRST_ID),
            *columns,
            _timestamps(_time_ms(settings, ids)),
            _padding(settings.seed, draws, _PERSON_BYTES - used),
        ],
        schema=PERSONS,
    )


def _auctions(settings: NexmarkSettings, ids: Integers) -> pa.RecordBatch:
    draws = Draws(settings.seed, ids)
    words = words_pool(settings.seed)
    name = words.words(draws, Purpose.ITEM_LENGTH, Purpose.ITEM_START, 20)
    description = words.words(draws, Purpose.DESCRIPTION_LENGTH, Purpose.DESCRIPTION_START, 100)
    initial_bid = draws.prices(Purpose.INITIAL_BID)
    last_person = ids // _CYCLE
    hot_seller = last_person // _HOT_GROUP * _HOT_GROUP
    is_hot = draws.below(Purpose.IS_HOT_SELLER, 4) > 0
    seller = np.where(is_hot, hot_seller, _any_person(draws, Purpose.SELLER, last_person))
    time_ms = _time_ms(settings, ids)
    used = 48 + _text_bytes(name, description)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(last_person * _AUCTIONS_PER_CYCLE + ids % _CYCLE - 1 + _FIRST_ID),
            name,
            description,
            pa.array(initial_bid),
            pa.array(initial_bid + draws.prices(Purpose.RESERVE)),
            _timestamps(time_ms),
            _timestamps(time_ms + _durations_ms(settings, draws, ids)),
            pa.array(seller + _FIRST_ID),
            pa.array(_FIRST_CATEGORY + draws.below(Purpose.CATEGORY, _CATEGORIES)),
            _padding(settings.seed, draws, _AUCTION_BYTES - used),
        ],
        schema=AUCTIONS,
    )


def _durations_ms(settings: NexmarkSettings, draws: Draws, ids: Integers) -> Integers:
    # On average, until `_OPEN_AUCTIONS` others have opened.
    ahead = _OPEN_AUCTIONS * _CYCLE // _AUCTIONS_PER_CYCLE
    horizon_ms = _time_ms(settings, ids + ahead) - _time_ms(settings, ids)
    return 1 + draws.below(Purpose.DURATION, np.maximum(2 * horizon_ms, 1))


def _bids(settings: NexmarkSettings, ids: Integers) -> pa.RecordBatch:
    draws = Draws(settings.seed, ids)
    last_person = ids // _CYCLE
    last_auction = last_person * _AUCTIONS_PER_CYCLE + _AUCTIONS_PER_CYCLE - 1
    is_hot = draws.below(Purpose.IS_HOT_AUCTION, 2) > 0
    auction = np.where(is_hot, last_auction // _HOT_GROUP * _HOT_GROUP, _any_auction(draws, last_auction))
    # One more than the hot seller, so that the two are different persons.
    hot_bidder = last_person // _HOT_GROUP * _HOT_GROUP + 1
    is_hot = draws.below(Purpose.IS_HOT_BIDDER, 4) > 0
    bidder = np.where(is_hot, hot_bidder, _any_person(draws, Purpose.BIDDER, last_person))
    is_hot = draws.below(Purpose.IS_HOT_CHANNEL, 2) > 0
    bounds = np.where(is_hot, HOT_CHANNELS, CHANNELS)
    channel = draws.below(Purpose.CHANNEL, bounds) + np.where(is_hot, 0, HOT_CHANNELS)
    channels = pa.array(channel.astype(np.int32))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(auction + _FIRST_ID),
            pa.array(bidder + _FIRST_ID),
            pa.array(draws.prices(Purpose.PRICE)),
            channel_names().take(channels),
            channel_urls(settings.seed).take(channels),
            _timestamps(_time_ms(settings, ids)),
            _padding(settings.seed, draws, np.full(len(ids), _BID_BYTES - 32)),
        ],
        schema=BIDS,
    )


def _any_person(draws: Draws, purpose: Purpose, last: Integers) -> Integers:
    # One who is active, or will register soon.
    active = np.minimum(last + 1, _ACTIVE_PERSONS)
    return last + 1 - active + draws.below(purpose, active + _LEAD)


def _any_auction(draws: Draws, last: Integers) -> Integers:
    # One that is open, or will open soon.
    oldest = np.maximum(last - _OPEN_AUCTIONS, 0)
    return oldest + draws.below(Purpose.AUCTION, last - oldest + 1 + _LEAD)


def _cards(seed: int, ids: Integers) -> pa.StringArray:
    groups = Draws(seed, (ids[:, None] * 4 + np.arange(4)).ravel()).below(Purpose.CARD, 10_000).reshape(-1, 4)
    return pc.binary_join_element_wise(
        *(_four_digits().take(pa.array(groups[:, each])) for each in range(4)), " "
    )


@cache
def _four_digits() -> pa.StringArray:
    return pa.array([f"{number:04d}" for number in range(10_000)])


def _drawn(draws: Draws, purpose: Purpose, texts: pa.StringArray) -> pa.StringArray:
    return texts.take(pa.array(draws.below(purpose, len(texts))))


def _joined(*parts: pa.StringArray | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")


def _text_bytes(*columns: pa.StringArray) -> Integers:
    lengths = np.array([np.asarray(pc.binary_length(column)) for column in columns], dtype=np.int64)
    total: Integers = lengths.sum(axis=0)
    return total


def _timestamps(time_ms: Integers) -> pa.TimestampArray:
    return pa.array(time_ms * _MS_US).view(_TIMESTAMP)


def _padding(seed: int, draws: Draws, wanted: Integers) -> pa.StringArray:
    # Of `wanted` bytes give or take a fifth; empty where `wanted` is negative.
    average = np.maximum(wanted, 0)
    spread = (2 * average + 5) // 10
    lengths = average - spread + draws.below(Purpose.EXTRA_LENGTH, np.maximum(2 * spread, 1))
    return letters_pool(seed).cut(draws.below(Purpose.EXTRA_START, POOL_BYTES), lengths)
