"""Where a source of a Structured Streaming query stands, as it goes into a checkpoint.

Numbers of epochs alone do not say: a query that was begun anew behind an older checkpoint counts on from
there, and its epochs may hold other rows than the same numbers of the query before it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headgate.api.source import Plain
from headgate.common.errors import StorageError, UsageError
from headgate.connectors.dataframe.stream_log import damage

_KIND: Final = "spark-stream"
VERSION: Final = 1
_NAME: Final = re.compile(r"[0-9a-f]{1,64}")
"""Of lines and queries: they are names of folders, too."""


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
            StorageError: it is damaged, or names what is none of Spark's.

        Example:
            >>> before = Position(Mark("3f9c", "a01b", 3), {})
            >>> Position.from_plain(before.to_plain(), "orders") == before
            True
        """
        kind = stored.get("kind") if isinstance(stored, dict) else None
        if kind != _KIND:
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
        return cls(Mark(stored["line"], stored["query"], stored["epoch"]), stored["log"])


def _damage(stored: Mapping[str, Plain]) -> str | None:
    for field in ("line", "query"):
        found = stored.get(field)
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            return f"its {field} is {found!r:.80}, expected hexadecimal digits"
    epoch = stored.get("epoch")
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not -1 <= epoch < 1 << 63:
        return f"its epoch is {epoch!r:.80}, expected a number from -1 on"
    return damage(stored.get("log"))
