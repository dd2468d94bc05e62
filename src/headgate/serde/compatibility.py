"""Whether stored bytes can be read by a serializer, judged from the descriptions of both.

The answer is one of a closed set. Today a description either equals the stored one or does not
fit; reading an older shape of a record and rewriting it needs further answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AsIs:
    """The bytes are what the serializer itself would write."""


@dataclass(frozen=True, slots=True)
class Incompatible:
    """The bytes must not be read by this serializer.

    Attributes:
        why: the first difference, in words.
    """

    why: str


Compatibility = AsIs | Incompatible


def compare(stored: Mapping[str, Any], current: Mapping[str, Any]) -> Compatibility:
    """Judge a stored description against the current one.

    Example:
        >>> compare({"kind": "int", "version": 1}, {"kind": "int", "version": 1})
        AsIs()
        >>> compare({"kind": "int", "version": 1}, {"kind": "str", "version": 1})
        Incompatible(why='kind was int and is str')
    """
    why = _difference(stored, current, "")
    return AsIs() if why is None else Incompatible(why)


def _difference(stored: Any, current: Any, path: str) -> str | None:
    if isinstance(stored, Mapping) and isinstance(current, Mapping):
        for name in [*stored, *(name for name in current if name not in stored)]:
            inner = f"{path}.{name}" if path else str(name)
            if name not in current:
                return f"{inner} was {_shown(stored[name])} and is gone"
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


def _shown(part: Any) -> str:
    return str(part["kind"]) if isinstance(part, Mapping) and "kind" in part else str(part)
