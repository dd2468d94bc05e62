"""Bytewax: the total of transfers between accounts, as each step of the dataflow tells it to its sink.

    bytewax_transfers.py ORDER.json

Run so, it starts two processes of the dataflow that this file has, and puts together what they report.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax_parts import JsonFiles, run
from orders import Order, carry_out, report, versions


class Kept(StatelessSinkPartition):
    """Keeps the answers that it receives, and writes them into a file when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path, self._answers = path, list[Any]()

    def write_batch(self, items: list[Any]) -> None:
        """Take answers."""
        self._answers += [answer for _, answer in items]

    def close(self) -> None:
        """Write them. All of them have one key, so one process has all of them."""
        self._path.write_text(json.dumps(self._answers))


class Keeping(DynamicSink):
    """A sink for each process."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Kept:
        """The sink of one of them."""
        return Kept(self._folder / f"answers-{worker_index}.json")


def added(state: Any, amount: int) -> Any:
    """The sum of an account, and of how many transfers it is."""
    found = (state or (0, 0))[0] + amount, (state or (0, 0))[1] + 1
    return found, found


def balanced(state: Any, item: Any) -> Any:
    """The total of all accounts, after one of them has changed."""
    account, (credit, debit) = item
    balances, transfers, total = state or ({}, 0, 0)
    (credited, came), (debited, _) = credit or (0, 0), debit or (0, 0)
    before_came, before = balances.get(account, (0, 0))
    balances[account] = came, credited - debited
    found = transfers + came - before_came, total + credited - debited - before
    return (balances, *found), found


def flow_of(order: Order) -> Dataflow:
    """The dataflow."""
    flow = Dataflow("transfers")
    moved = op.input("moved", flow, JsonFiles(order.tables["transfers"].folder))
    sides = []
    for name, column in (("credits", "to"), ("debits", "from")):
        keyed = op.map(f"{name}-key", moved, lambda each, column=column: (str(each[column]), each["amount"]))
        sides.append(op.stateful_map(name, keyed, added))
    accounts = op.join("accounts", *sides, emit_mode="running")
    one = op.map("one", accounts, lambda item: ("all", item))
    op.output("answers", op.stateful_map("total", one, balanced), Keeping(order.work))
    return flow


def main() -> None:
    """The program."""
    run("bytewax_transfers:flow", [], {"BENCH_ORDER": sys.argv[1]})
    files = Path(Order.read(sys.argv[1]).work).glob("answers-*.json")
    answers = [answer for path in files for answer in json.loads(path.read_text())]
    report(answers=answers, versions=versions("bytewax"))


if __name__ == "__main__":
    carry_out(main)
elif "BENCH_ORDER" in os.environ:
    flow = flow_of(Order.read(os.environ["BENCH_ORDER"]))
