"""A user's program with a broadcast side: types go through connect(). Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

import headgate as hg


class Priced(hg.BroadcastProcessFunction[str, tuple[str, int], float]):
    """Without a key."""

    prices: hg.BroadcastState[str, int] = hg.broadcast_state()

    def process(self, record: str, ctx: hg.BroadcastContext) -> Iterator[float]:
        """A price."""
        assert_type(ctx.timestamp, int | None)
        yield float(self.prices.get(record) or 0)

    def process_broadcast(self, record: tuple[str, int], ctx: hg.BroadcastContext) -> None:
        """A new price."""
        self.prices.put(*record)


class Counted(hg.KeyedBroadcastProcessFunction[int, str, tuple[str, int], str]):
    """With a key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: str, ctx: hg.KeyedContext[int]) -> Iterator[str]:
        """Count."""
        self.count.value += ctx.key
        yield record

    def process_broadcast(self, record: tuple[str, int], ctx: hg.KeyedBroadcastContext[int]) -> list[str]:
        """Tell all counts."""
        told = ctx.apply_to_all_keys(self.count, self.tell)
        assert_type(told, list[str])
        return told

    def tell(self, key: int, count: hg.ValueState[int]) -> Iterator[str]:
        """One of them."""
        yield f"{key} {count.value}"


env = hg.Environment()
words = env.from_collection(["tea"])
prices = env.from_collection([("tea", 3)]).broadcast()
assert_type(prices, hg.BroadcastStream[tuple[str, int]])
assert_type(words.connect(prices), hg.BroadcastConnectedStream[str, tuple[str, int]])
assert_type(words.connect(prices).process(Priced()), hg.DataStream[float])
assert_type(words.key_by(len).connect(prices).process(Counted()), hg.DataStream[str])
assert_type(prices.map(str), hg.DataStream[str])
