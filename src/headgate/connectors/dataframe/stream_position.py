"""Where a source of a Structured Streaming query stands, as it goes into a checkpoint.

Numbers of epochs alone do not say: a query that was begun anew behind an older checkpoint counts on from
there, and its epochs may hold other rows than the same numbers of the query before it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headgate.api.source import Plain
from headgate.common.errors import UsageError

_KIND: Final = "spark-stream"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """An epoch of one query.

    Attributes:
        line: of queries, each of which goes on behind an epoch of another.
        query: the one that made the epoch.
        epoch: the last one, -1 before the first.
    """

    line: str
    query: str
    epoch: int

    @classmethod
    def of_new_query(cls, begin: Position | None) -> Mark:
        """Where a query stands that goes on behind `begin`."""
        name = secrets.token_hex(6)
        return cls(name, name, -1) if begin is None else cls(begin.mark.line, name, begin.mark.epoch)

    def at(self, epoch: int) -> Mark:
        """The same query at another epoch."""
        return Mark(self.line, self.query, epoch)


@dataclass(frozen=True, slots=True)
class Position:
    """What a checkpoint holds of such a source.

    Attributes:
        mark: the last epoch in it.
        log: what Spark needs to go on behind it, see :mod:`stream_log`.
    """

    mark: Mark
    log: Mapping[str, bytes]

    def to_plain(self) -> Plain:
        """As it is stored."""
        mark = {"line": self.mark.line, "query": self.mark.query, "epoch": self.mark.epoch}
        return {"kind": _KIND, "version": VERSION, **mark, "log": dict(self.log)}

    @classmethod
    def from_plain(cls, stored: Plain, name: str) -> Position:
        """The stored position.

        Args:
            stored: by :meth:`to_plain`.
            name: of the source, for the message.

        Raises:
            UsageError: it is of another kind of source, or of a newer version.

        Example:
            >>> before = Position(Mark("line", "query", 3), {"metadata": b"..."})
            >>> Position.from_plain(before.to_plain(), "orders") == before
            True
        """
        kind = stored.get("kind") if isinstance(stored, dict) else None
        if kind != _KIND:
            raise UsageError(
                f"the checkpoint has a position of source {name!r} that is none of a streaming DataFrame; "
                "give the source its old form back, or another uid to begin it anew"
            )
        if stored["version"] != VERSION:
            raise UsageError(
                f"the position of source {name!r} has version {stored['version']}; expected {VERSION}; "
                "restore it with the Headgate that wrote it, or a newer one"
            )
        return cls(Mark(stored["line"], stored["query"], stored["epoch"]), stored["log"])
