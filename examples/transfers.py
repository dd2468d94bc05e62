"""Transfers between accounts: what is credited and what is debited add up to nothing, at every moment.

    python transfers.py

Each transfer is counted twice, as a credit of one account and as a debit of another one; both sums are
joined, and the balances of all accounts added up. The total is 0 for any part of the transfers, so whoever
sees another number has seen half of a transfer. The program tells what a sink sees while the job runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

import headgate as hg
import headgate.functions as F

TRANSFERS, ACCOUNTS = 50_000, 30
SCHEMA = pa.schema({"from": pa.int64(), "to": pa.int64(), "amount": pa.int64()})


def transfers() -> Iterator[dict[str, int]]:
    """Yield transfers between accounts, the same each time."""
    for number in range(TRANSFERS):
        yield {"from": number * 7 % ACCOUNTS, "to": number * 11 % ACCOUNTS, "amount": number % 50 + 1}


def total(moved: hg.Table) -> hg.Table:
    """Return the sum of all balances, and of how many transfers it is: groups of one table, joined."""
    credit, debit = F.sum("amount").alias("credit"), F.sum("amount").alias("debit")
    came = moved.group_by("to").agg(credit, F.count("*").alias("came"), uid="credits")
    came = came.rename({"to": "account"})
    went = moved.group_by("from").agg(debit, uid="debits").rename({"from": "account"})
    accounts = came.join(went, "account", "full", uid="accounts")
    balance = F.coalesce(F.col("credit"), F.lit(0)) - F.coalesce(F.col("debit"), F.lit(0))
    balances = accounts.select("came", balance.alias("balance"))
    whole = F.sum("balance").alias("total"), F.sum("came").alias("transfers")
    return balances.group_by().agg(*whole, uid="total")


class Seen(hg.Sink[Any]):
    """Keeps (transfers, total) of each answer that reaches it, in the memory of the process that runs it."""

    answers: ClassVar[list[tuple[int, int]]] = []

    def create_writer(self, context: Any, restored: Any) -> hg.SinkWriter[Any]:
        return _Writer()


class _Writer(hg.SinkWriter[Any]):
    def write(self, records: Any) -> None:
        comes = (row for row in records if row["__change"] in (0, 2))
        Seen.answers += [(row["transfers"], row["total"]) for row in comes]

    def prepare_commit(self) -> list[Any]:
        return []


def seen(emission: str) -> list[tuple[int, int]]:
    """Return what a sink sees while the job runs; `emission` is "marks", or "eager": corrections at once."""
    from headgate.testing import MiniCluster

    Seen.answers = []
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    env.config("execution.changelog-emission", emission).config("execution.mark-interval", "5ms")
    moved = env.from_collection(list(transfers())).to_table(SCHEMA)
    total(moved).to_changes().sink_to(Seen(), uid="seen").set_parallelism(1)
    env.execute("transfers")
    return Seen.answers


if __name__ == "__main__":
    for emission in ("marks", "eager"):
        found = seen(emission)
        wrong = sum(total != 0 for _, total in found)
        print(f"{emission}: {len(found)} totals were seen, {wrong} of them not 0")
