"""Pathway: the total of transfers between accounts, and all its corrections as a subscriber receives them.

    pathway_transfers.py ORDER.json

Its own reader takes all files at once, so here a subject reads them, and commits every so many transfers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pathway as pw
from orders import Order, carry_out, report, versions

COMMITTED = 500
"""Transfers of one commit."""


class Transfers(pw.io.python.ConnectorSubject):
    """Reads the files of a folder, in turns."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)

    def run(self) -> None:
        """Give all transfers."""
        files = [path.read_text().splitlines() for path in sorted(self._folder.iterdir())]
        for number, line in enumerate(line for lines in zip(*files, strict=True) for line in lines):
            self.next(**json.loads(line))
            if number % COMMITTED == COMMITTED - 1:
                self.commit()


def total(moved: Any) -> Any:
    """The sum of all balances, and of how many transfers it is."""
    amount = pw.reducers.sum(pw.this.amount)
    came = moved.groupby(pw.this["to"]).reduce(account=pw.this["to"], credit=amount, came=pw.reducers.count())
    went = moved.groupby(pw.this["from"]).reduce(account=pw.this["from"], debit=amount)
    both = came.join_outer(went, came.account == went.account)
    balances = both.select(
        came=pw.coalesce(pw.left.came, 0),
        balance=pw.coalesce(pw.left.credit, 0) - pw.coalesce(pw.right.debit, 0),
    )
    return balances.reduce(transfers=pw.reducers.sum(pw.this.came), total=pw.reducers.sum(pw.this.balance))


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    files, answers = order.tables["transfers"], list[tuple[int, int]]()
    schema = pw.schema_from_types(**{name: int for name, _ in files.columns})
    moved = pw.io.python.read(Transfers(files.folder), schema=schema, autocommit_duration_ms=None)

    def change(row: dict[str, Any], is_addition: bool, **_others: Any) -> None:
        if is_addition:
            answers.append((row["transfers"], row["total"]))

    pw.io.subscribe(total(moved), on_change=change)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    report(answers=answers, versions=versions("pathway"))


if __name__ == "__main__":
    carry_out(main)
