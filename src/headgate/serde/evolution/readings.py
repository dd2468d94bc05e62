"""What a judgement of stored bytes comes to: a way to read them, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from headgate.serde.codecs.type_codec import Annotation, Convert
from headgate.serde.compatibility import AfterMigration, Compatibility, Reconfigured, combined


class Reading(NamedTuple):
    """How stored values become values of the declared type.

    Attributes:
        verdict: never incompatible.
        wire: the type that msgspec decodes.
        convert: from that to the value; None when it is the value.
    """

    verdict: Compatibility
    wire: Annotation
    convert: Convert | None


class Refused(Exception):
    """Stored values cannot become values of the declared type."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class PartRefused(Refused):
    """The type is the right one, and something in it is not: no other alternative is meant."""


def prefixed(where: str, judge: Callable[[], Reading]) -> Reading:
    """A part's reading, whose changes and refusal say where the part is."""
    try:
        reading = judge()
    except Refused as refused:
        raise PartRefused(f"{where}: {refused.why}") from None
    verdict = reading.verdict
    if isinstance(verdict, AfterMigration | Reconfigured):
        verdict = type(verdict)(tuple(f"{where}: {change}" for change in verdict.changes))
    return Reading(verdict, reading.wire, reading.convert)


def changed(reading: Reading, change: str) -> Reading:
    """The reading of a type that was widened: a migration, whatever its parts need."""
    verdict = combined([AfterMigration((change,)), reading.verdict])
    return Reading(verdict, reading.wire, reading.convert)


def stored_sources(
    stored: Collection[str], fields: Iterable[tuple[str, Collection[str]]], owner: str
) -> list[str | None]:
    """The stored field that each new field takes, given by its name and its aliases; None for an added one.

    An alias counts where the new name is not stored. The old name may have been given to another
    field since, which is an added one then.
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
