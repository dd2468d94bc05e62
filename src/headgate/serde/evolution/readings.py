"""The result of judging stored bytes: a way to read them, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from headgate.common.hints import Hint
from headgate.serde.codecs.type_codec import Convert
from headgate.serde.verdicts import AfterMigration, Compatibility, combined, placed


class Reading(NamedTuple):
    """A way to read stored values: msgspec decodes type `wire`, `convert` (None: not) makes values of it."""

    verdict: Compatibility  # never incompatible
    wire: Hint  # the type that msgspec decodes
    convert: Convert | None  # from that to the value; None when it is the value


class Refused(Exception):
    """Raised where stored values cannot become values of the declared type."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class PartRefused(Refused):
    """Raised where the stored type fits, but a field or element does not: a union tries no other type."""


def prefixed(where: str, judge: Callable[[], Reading]) -> Reading:
    """Return a part's reading from `judge()`, changes put after `where`; Refused becomes PartRefused."""
    try:
        reading = judge()
    except Refused as refused:
        raise PartRefused(f"{where}: {refused.why}") from None
    return reading._replace(verdict=placed(where, reading.verdict))


def changed(reading: Reading, change: str) -> Reading:
    """Return the reading of a widened type, its verdict made "after migration" at least, with `change`."""
    return reading._replace(verdict=combined([AfterMigration((change,)), reading.verdict]))


def stored_sources(
    stored: Collection[str], fields: Iterable[tuple[str, Collection[str]]], owner: str
) -> list[str | None]:
    """Return the stored field of each new field, given by its name and its aliases; None for an added one.

    An alias counts where the new name is not stored. A field whose name was claimed by another one's alias
    counts as added. PartRefused, naming `owner`, if two fields claim the same stored field.
    """
    names: list[str] = []
    claimed: dict[str, str] = {}
    for name, aliases in fields:
        names.append(name)
        former = next((alias for alias in aliases if alias in stored), None)
        if name in stored or former is None:
            continue
        if former in claimed:
            raise PartRefused(
                f"fields {claimed[former]!r} and {name!r} of {owner} both have the alias "
                f"{former!r}; only one can have been it"
            )
        claimed[former] = name
    sources = {name: former for former, name in claimed.items()}
    return [sources.get(name, name if name in stored and name not in claimed else None) for name in names]
