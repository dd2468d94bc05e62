"""A program of which some records are quarantined, and its next version that can process them.

Settings of the environment: FOLDER for everything; MENDED: the version, "" or "1"; AGAIN: whether the
quarantine is read as well; RELEASE: under which the totals hold records, "" for not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headgate as hg

FOLDER = Path(os.environ["FOLDER"])
MENDED = bool(os.environ.get("MENDED"))


class Totals(hg.KeyedProcessFunction[str, dict[str, Any], Any]):
    """Adds up the amounts of a user; the first version fails on amounts that are texts, and both on None."""

    total: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, order: dict[str, Any], ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.total.value += 1_000
        amount = int(order["amount"]) if MENDED else order["amount"] + 0
        self.total.value += amount - 1_000
        ctx.side_output(hg.OutputTag("seen"), amount)
        yield [order["n"], order["user"], self.total.value]


def half(order: dict[str, Any]) -> Any:
    """Fails on amounts that are texts, as long as it is not mended."""
    amount = int(order["amount"] or 0) if MENDED else order["amount"]
    return [order["n"], amount / 2]


def build(env: hg.Environment) -> None:
    """Count orders of files."""
    orders = env.read_json(str(FOLDER / "orders"), uid="orders")
    orders.map(half, uid="half", on_error=hg.quarantine).write_json(str(FOLDER / "halves"), uid="halves")
    if os.environ.get("AGAIN"):
        again = env.from_quarantine(FOLDER / "quarantine", operator="totals", uid="again")
        orders = orders.union(again)
    release = os.environ.get("RELEASE")
    policy = hg.quarantine(hold=100, release=release) if release else hg.quarantine
    totals = orders.key_by("user").process(Totals(), uid="totals", on_error=policy)
    totals.write_json(str(FOLDER / "out"), uid="out")


if __name__ == "__main__":
    environment = hg.Environment(
        parallelism=int(os.environ.get("PARALLELISM", "1")),
        executor="mini-cluster",
        config={
            "quarantine.dir": str(FOLDER / "quarantine"),
            "execution.checkpointing.savepoint-dir": str(FOLDER / "savepoints"),
            "quarantine.max-share": 1.0,
        },
    )
    environment.checkpoints(every="20ms", storage=str(FOLDER / "checkpoints"))
    build(environment)
    environment.execute("totals")
