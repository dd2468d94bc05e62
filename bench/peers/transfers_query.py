"""The transfers in SQL: credits and debits of each account, joined and added up.

Each of the programs beside this one is told by an `Order` where the transfers lie, as JSON lines. It reports
`answers`: (transfers, total) of each answer that its sink has received, in this order; or, where the engine
refuses the query, why it `cannot`.
"""

from __future__ import annotations

QUERY = """
    SELECT SUM(came) AS transfers, SUM(balance) AS total FROM (
        SELECT came, COALESCE(credit, 0) - COALESCE(debit, 0) AS balance
        FROM (
            SELECT `to` AS account, SUM(amount) AS credit, COUNT(*) AS came FROM transfers GROUP BY `to`
        ) AS credits FULL JOIN (
            SELECT `from` AS account, SUM(amount) AS debit FROM transfers GROUP BY `from`
        ) AS debits ON credits.account = debits.account
    ) AS balances
"""
