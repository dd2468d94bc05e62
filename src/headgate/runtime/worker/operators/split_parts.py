"""Metrics of the splits that a reader has: how much of each is still to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from headgate.api.source import InputLeft
from headgate.common.errors import UsageError
from headgate.common.refusals.texts import encodable
from headgate.metrics import of_parts as of
from headgate.metrics.metric import Metric, Place
from headgate.metrics.of_parts import Part

SPLITS_MAX: Final = 16
"""Of a reader with more splits than these, what is left of the further ones is reported as one split:"""
OTHERS: Final = "all others"


def parts_of_splits(left: Mapping[str, InputLeft]) -> list[Part]:
    """Return the metrics of a reader's splits; what is not known is None.

    Example:
        >>> parts_of_splits({"a.csv": InputLeft(bytes=7)})
        [Part(place='split', labels=['a.csv'], values=[None, 7, None])]
    """
    parts = [_part(name, [each]) for name, each in islice(left.items(), SPLITS_MAX)]
    if len(left) > SPLITS_MAX:
        parts.append(_part(OTHERS, list(islice(left.values(), SPLITS_MAX, None))))
    return parts


def check_left(label: str, left: object) -> None:
    """Raise UsageError, with the label of the operator, for what a program's reader must not return."""
    wrong: str | None
    if not isinstance(left, Mapping):
        wrong = type(left).__name__
    else:
        kinds = [type(each).__name__ for each in left.values() if not isinstance(each, InputLeft)]
        wrong = f"a mapping with a value of type {kinds[0]}" if kinds else None
    if wrong is not None:
        raise UsageError(
            f"{label}: left_to_read() returned {wrong}; expected a mapping of splits' ids to InputLeft, "
            "which is empty where nothing is known"
        )


def _part(name: str, lefts: Sequence[InputLeft]) -> Part:
    values = {
        of.PENDING_RECORDS: [each.records for each in lefts],
        of.PENDING_BYTES: [each.bytes for each in lefts],
        of.BEHIND: [each.behind_ms for each in lefts],
    }
    label = encodable(str(name))  # a file's name may have half a character
    return Part(Place.SPLIT.value, [label], [_merged(metric, values[metric]) for metric in of.OF_SPLITS])


def _merged(metric: Metric, values: Sequence[int | None]) -> int | None:
    # A sum that lacks a part would look like a split that is nearly read.
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return min(metric.merged(known), 2**63 - 1)  # some say "without an end" by the largest number
