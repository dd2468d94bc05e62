"""The verdicts on whether a program can read stored bytes, and how they combine.

The judging begins in :func:`headgate.serde.evolution.judging_types.judge`: `older_shapes` judges built-in
types, and `custom_serializers` what a program's own serializer wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.common.plain_data import Description, Plain


@dataclass(frozen=True, slots=True)
class AsIs:
    """Verdict: the bytes are what the serializer itself would write, so it reads them."""


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """Verdict: the description differs, as `changes` say, but the bytes mean the same: no conversion."""

    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AfterMigration:
    """Verdict: the bytes are of an older shape, as `changes` say; each value is converted when it is read."""

    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Incompatible:
    """Verdict: the serializer must not read the bytes, for the reason `why`."""

    why: str


Compatibility = AsIs | Reconfigured | AfterMigration | Incompatible


def combined(verdicts: Iterable[Compatibility]) -> Compatibility:
    """Return the worst of the verdicts on a value's parts, with all changes or the first refusal's reason."""
    found = list(verdicts)
    for verdict in found:
        if isinstance(verdict, Incompatible):
            return verdict
    changed = [verdict for verdict in found if isinstance(verdict, AfterMigration | Reconfigured)]
    changes = tuple(change for verdict in changed for change in verdict.changes)
    if any(isinstance(verdict, AfterMigration) for verdict in changed):
        return AfterMigration(changes)
    return Reconfigured(changes) if changed else AsIs()


def placed(where: str, verdict: Compatibility) -> Compatibility:
    """Return a part's verdict with `where`, the part's place, put before each change or the reason."""
    match verdict:
        case AsIs():
            return verdict
        case Incompatible(why):
            return Incompatible(f"{where}: {why}")
    return type(verdict)(tuple(f"{where}: {change}" for change in verdict.changes or ("changed",)))


def compare(stored: Description, current: Description) -> AsIs | Incompatible:
    """Return AsIs if both descriptions are equal, else Incompatible with the first difference."""
    why = _difference(stored, current, "")
    return AsIs() if why is None else Incompatible(why)


def _difference(stored: Plain, current: Plain, path: str) -> str | None:
    if isinstance(stored, Mapping) and isinstance(current, Mapping):
        for name in [*stored, *(name for name in current if name not in stored)]:
            inner = f"{path}.{name}" if path else str(name)
            if name not in current:
                return f"{inner} was {_shown(stored[name])} and was removed"
            if name not in stored:
                return f"{inner} is {_shown(current[name])} and was not there"
            why = _difference(stored[name], current[name], inner)
            if why is not None:
                return why
        # Fields are stored in this order.
        return None if list(stored) == list(current) else f"{path or 'the parts'} changed their order"
    if isinstance(stored, (list, tuple)) and isinstance(current, (list, tuple)):
        if len(stored) != len(current):
            return f"{path} had {len(stored)} parts and has {len(current)}"
        differences = (
            _difference(s, c, f"{path}[{i}]") for i, (s, c) in enumerate(zip(stored, current, strict=True))
        )
        return next((why for why in differences if why is not None), None)
    return None if stored == current else f"{path} was {_shown(stored)} and is {_shown(current)}"


def _shown(part: Plain) -> str:
    return str(part["kind"]) if isinstance(part, Mapping) and "kind" in part else str(part)
