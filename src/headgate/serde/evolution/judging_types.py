"""Judges whether stored values can become those of a declared type, and gives a function that reads them.

`older_shapes` judges built-in types, with records in `evolved_records`. Where a program's own serializer has
written the values, or is to read them, `custom_serializers` asks the new serializer's snapshot.
"""

from __future__ import annotations

from typing import TypeVar

from headgate.common.plain_data import Description
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.evolution.custom_serializers import judge_stored, reader_of_stored
from headgate.serde.evolution.older_shapes import Reader, holds_custom, judge_description, reading_serializer
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.serializer import TypeSerializer
from headgate.serde.verdicts import Compatibility

T = TypeVar("T")


@stored_description()
def judge(stored: Description, current: TypeSerializer[T]) -> Compatibility:
    """Return the verdict on reading values of `stored` with `current`; StorageError: `stored` is damaged."""
    if _by_snapshots(stored, current):
        return judge_stored(stored, current).verdict
    return judge_description(stored, current)


@stored_description()
def reader_for(stored: Description, current: TypeSerializer[T]) -> Reader:
    """Return a function that reads batches of a stored description as values of `current`, a declared type.

    It takes a batch's bytes and its number of values. UsageError where no such function can read them.
    """
    if _by_snapshots(stored, current):
        return reader_of_stored(stored, current)
    return reading_serializer(stored, current).decode_many


def _by_snapshots(stored: Description, current: TypeSerializer[T]) -> bool:
    return holds_custom(stored) or not isinstance(current, FormSerializer | DynamicSerializer)
