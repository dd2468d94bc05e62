"""Flink SQL by PyFlink: the total of all balances after each transfer, as its changelog has it.

    flink_transfers.py FOLDER RESULT.json

FOLDER has transfers as JSON lines; the result is a list of [transfers, total], in order.
"""

from __future__ import annotations

import json
import sys

from pyflink.common import Configuration
from pyflink.common.types import RowKind
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

QUERY = """
SELECT SUM(came) AS transfers, SUM(COALESCE(credit, 0) - COALESCE(debit, 0)) AS total FROM
    (SELECT `to` AS account, SUM(amount) AS credit, COUNT(*) AS came FROM moved GROUP BY `to`) AS credits
    FULL JOIN (SELECT `from` AS account, SUM(amount) AS debit FROM moved GROUP BY `from`) AS debits
    ON credits.account = debits.account
"""


def main(folder: str, result: str) -> None:
    """The program."""
    configuration = Configuration()
    configuration.set_string("parallelism.default", "2")
    tables = StreamTableEnvironment.create(
        StreamExecutionEnvironment.get_execution_environment(configuration)
    )
    tables.execute_sql(
        "CREATE TABLE moved (`from` BIGINT, `to` BIGINT, amount BIGINT) "
        f"WITH ('connector'='filesystem', 'path'='file://{folder}', 'format'='json')"
    )
    comes = (RowKind.INSERT, RowKind.UPDATE_AFTER)
    with tables.execute_sql(QUERY).collect() as rows:
        found = [list(row) for row in rows if row.get_row_kind() in comes]
    with open(result, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
