"""Tables whose rows are corrected: what they become, and where they are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE, Change
from headgate.relational.relations import Relation


def refuse_updates(verb: str, relation: Relation) -> None:
    """Raise PlanError if rows of plan `relation` are corrected, which the call `verb` cannot follow."""
    if relation.schema.updating:
        raise PlanError(
            f"{verb}() ({user_site()}): rows of the table are corrected as more come, and {verb}() would "
            "take each correction for a row; group by a window, whose rows come once, or send the changes by "
            "write_changelog(), write_database() or to_changes(); collect() returns the rows at the end"
        )


def folded(changes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table after all its changes; the order of changes of different rows is free.

    Example:
        >>> row = {"k": 1, "n": 5, "__change": 0}
        >>> folded([row, row | {"__change": 1}, row | {"n": 6, "__change": 2}])
        [{'k': 1, 'n': 6}]
    """
    counts: dict[bytes, int] = {}
    rows: dict[bytes, dict[str, Any]] = {}
    for row in changes:
        kind = Change(row.pop(CHANGE))
        key = msgspec.msgpack.encode(row)
        rows.setdefault(key, row)
        counts[key] = counts.get(key, 0) + (1 if kind.adds else -1)
    wrong = [rows[key] for key, count in counts.items() if count < 0]
    assert not wrong, f"a row left that had not come: {wrong[0]}"
    return [rows[key] for key, count in counts.items() for _ in range(count)]
