"""Flink SQL: the total of transfers between accounts, and all its corrections as a sink receives them.

flink_transfers.py ORDER.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flink_query import CHANGES, columns, environment, free_port, source
from orders import Order, carry_out, report, versions
from transfers_query import QUERY


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    tables = environment(order, free_port())
    tables.execute_sql(source(order, "transfers"))
    where = f"'connector'='filesystem', 'path'='file://{order.out}', {CHANGES}"
    tables.execute_sql(f"CREATE TABLE answer ({columns(order.columns)}) WITH ({where})")
    tables.execute_sql(f"INSERT INTO answer {QUERY}").wait()
    report(answers=answers(Path(str(order.out))), versions=versions("apache-flink"))


def answers(folder: Path) -> list[tuple[int, int]]:
    """What comes, of the changes in the files of a sink; their names end with their numbers."""
    found, paths = [], list(folder.glob("part-*"))
    # The sum of all is of one subtask, and so is its sink: files are in the order in which changes came.
    assert len({path.name.rpartition("-")[0] for path in paths}) == 1, paths
    for path in sorted(paths, key=lambda path: int(path.name.rpartition("-")[2])):
        for line in path.read_text().splitlines():
            change = json.loads(line)
            if change["type"] == "INSERT":
                found += [(row["transfers"], row["total"]) for row in change["data"]]
    return found


if __name__ == "__main__":
    carry_out(main)
