"""Adds up what each customer has spent; the prices of foreign orders are converted far too slowly.

headgate run orders.py OUTPUT
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import headgate as hg
from headgate.connectors.generator import generator_source

USERS = ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")


def order(number: int) -> dict[str, Any]:
    user, price = USERS[number * 7 % len(USERS)], number * 31 % 200
    return {"user": user, "price": "free" if number % 997 == 500 else price}


def in_euros(price: int) -> float:
    time.sleep(0.004)  # asks somebody, for each order anew
    return round(price * 0.93, 2)


class Spent(hg.KeyedProcessFunction[str, dict[str, Any], dict[str, Any]]):
    """The sum of a customer's orders."""

    total: hg.ValueState[float] = hg.value_state(default=0.0)
    orders: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: dict[str, Any], ctx: hg.KeyedContext[str]) -> Iterator[dict[str, Any]]:
        self.orders.value += 1
        self.total.value = round(self.total.value + in_euros(int(record["price"])), 2)
        yield {"user": ctx.key, "orders": self.orders.value, "total": self.total.value}


def main(output: str) -> None:
    env = hg.Environment()
    source = generator_source(order, count=10_000_000, rate_per_s=2_000, splits=1)
    spent = (
        env.from_source(source, uid="orders")
        .key_by("user")
        .process(Spent(), uid="spent", on_error=hg.quarantine)
    )
    spent.write_json(output, uid="out")
    env.execute("orders")


if __name__ == "__main__":
    main(sys.argv[1])
