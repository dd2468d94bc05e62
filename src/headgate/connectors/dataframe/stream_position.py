"""Position of a Structured Streaming source in a checkpoint: query, last epoch, and a copy of its log.

Epoch numbers alone do not suffice: a query that was begun anew after an older checkpoint continues their
count, and its epochs may hold other rows than those of the same numbers of the query before it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Plain, mapping_in, text_in
from headgate.connectors.dataframe.stream_log import damage

_KIND: Final = "spark-stream"
VERSION: Final = 1
_NAME: Final = re.compile(r"[0-9a-f]{1,64}")  # of lineages and queries: they are names of folders, too


@dataclass(frozen=True, slots=True)
class QueryEpoch:
    """One epoch of one query: lineage (queries that continue each other), name of the query, and number."""

    line: str  # the lineage: queries of which each resumes after an epoch of another
    query: str  # the one that made the epoch
    epoch: int  # its number, -1 before the first

    @classmethod
    def of_new_query(cls, begin: Position | None) -> QueryEpoch:
        """Return the epoch after which a new query resumes, with a random name for that query.
        It has the lineage and number of the last epoch in `begin`; where that is None a new lineage and -1.
        """
        name = secrets.token_hex(6)
        return cls(name, name, -1) if begin is None else cls(begin.last.line, name, begin.last.epoch)

    def at(self, epoch: int) -> QueryEpoch:
        return QueryEpoch(self.line, self.query, epoch)


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a streaming source in a checkpoint: the last epoch, and the log to resume after it."""

    last: QueryEpoch  # the last epoch in it
    log: Mapping[str, bytes]  # what Spark needs to resume after it, see :mod:`stream_log`

    def to_plain(self) -> Mapping[str, Plain]:
        last: dict[str, Plain] = {"line": self.last.line, "query": self.last.query, "epoch": self.last.epoch}
        return {"kind": _KIND, "version": VERSION, **last, "log": dict(self.log)}

    @classmethod
    def from_plain(cls, stored: Plain, name: str) -> Position:
        """Return the position that a checkpoint stores for the source `name`.
        UsageError if it is of another kind of source or version, StorageError if it is damaged.

        Example:
            >>> before = Position(QueryEpoch("3f9c", "a01b", 3), {})
            >>> Position.from_plain(before.to_plain(), "orders") == before
            True
        """
        if not isinstance(stored, dict) or stored.get("kind") != _KIND:
            raise UsageError(
                f"the checkpoint has a position of source {name!r} that is none of a streaming DataFrame; "
                "give the source its old form back, or another uid to begin it anew"
            )
        if stored.get("version") != VERSION:
            raise UsageError(
                f"the position of source {name!r} has version {stored.get('version')!r:.40}; expected "
                f"{VERSION}; restore it with the Headgate that wrote it, or a newer one"
            )
        wrong = _damage(stored)
        if wrong is not None:
            raise StorageError(
                f"the position of source {name!r} is damaged: {wrong}; begin from another checkpoint"
            )
        epoch, log = stored["epoch"], mapping_in(stored, "log")
        assert isinstance(epoch, int), "it is not damaged"
        last = QueryEpoch(text_in(stored, "line"), text_in(stored, "query"), epoch)
        return cls(last, {name: data for name, data in log.items() if isinstance(data, bytes)})


def _damage(stored: Mapping[str, Plain]) -> str | None:
    for field in ("line", "query"):
        found = stored.get(field)
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            return f"its {field} is {found!r:.80}, expected hexadecimal digits"
    epoch = stored.get("epoch")
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not -1 <= epoch < 1 << 63:
        return f"its epoch is {epoch!r:.80}, expected a number from -1 on"
    return damage(stored.get("log"))
