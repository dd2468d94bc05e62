"""What ``headgate savepoint diff`` shows: a line for each state, and some of the keys that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeVar

from headgate.stateprocessor.diff import Sample, StateDifference

V = TypeVar("V")

_SIGNS = {"changed": "~", "added": "+", "removed": "-"}
_WIDEST = 100


def render(found: Sequence[StateDifference]) -> str:
    """All states as text.

    Example:
        >>> one = StateDifference("counts", "count", ("value[int]", "value[int]"), same=3, changed=1)
        >>> one.samples.append(Sample("changed", "'ada'", 1, 2))
        >>> print(render([one]))
        counts/count  value[int]: 1 changed, 0 added, 0 removed, 3 the same
          ~ 'ada': 1 -> 2
    """
    if not found:
        return "neither snapshot has keyed state"
    lines = [line for one in found for line in _lines(one)]
    if not any(one.differs for one in found):
        lines.append("the keyed state of both is the same")
    return "\n".join(lines)


def _lines(one: StateDifference) -> list[str]:
    before, after = one.types
    types = (before or after or "") if before == after or None in one.types else f"{before} -> {after}"
    head = f"{one.uid}/{one.state}  {types}: "
    if one.unread is not None:
        return [head + one.unread]
    counts = f"{one.changed:,} changed, {one.added:,} added, {one.removed:,} removed, {one.same:,} the same"
    return [head + counts, *map(_sample, one.samples)]


def _sample(sample: Sample) -> str:
    shown = {
        "changed": f": {_text(sample.before)} -> {_text(sample.after)}",
        "added": f": {_text(sample.after)}",
        "removed": f": {_text(sample.before)}",
    }
    timer = sample.before is None and sample.after is None
    return f"  {_SIGNS[sample.change]} {sample.key}{'' if timer else shown[sample.change]}"


def _text(value: V) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def as_json(found: Sequence[StateDifference]) -> str:
    """The same for machines."""
    facts = {"same": not any(one.differs for one in found), "states": [asdict(one) for one in found]}
    return json.dumps(facts, default=str, indent=2)
