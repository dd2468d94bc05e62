"""Whether stored values can become those of a declared type, and what reads them.

The built-in serializers have rules of their own; where a serializer of the user's has written, or is to
read, the new serializer's snapshot judges.
"""

from __future__ import annotations

from typing import TypeVar

from headgate.common.plain_data import Description
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.compatibility import Compatibility
from headgate.serde.evolution.older_shapes import (
    Reader,
    holds_custom,
    judge_description,
    reading_serializer,
)
from headgate.serde.evolution.snapshot_judgement import judge_stored, reader_of_stored
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")


@stored_description()
def judge(stored: Description, current: TypeSerializer[T]) -> Compatibility:
    """Whether bytes of a stored description can become values of a declared type.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> judge(serializer_for(int).describe(), serializer_for(int | None))
        AfterMigration(changes=('int became int | None',))
        >>> judge(serializer_for(str).describe(), serializer_for(int))
        Incompatible(why='was str and is int')
    """
    if _by_snapshots(stored, current):
        return judge_stored(stored, current).verdict
    return judge_description(stored, current)


@stored_description()
def reader_for(stored: Description, current: TypeSerializer[T]) -> Reader:
    """What reads batches of a stored description as values of a declared type.

    Bytes that are as the serializer itself would write them are left to it.
    """
    if _by_snapshots(stored, current):
        return reader_of_stored(stored, current)
    return reading_serializer(stored, current).decode_many


def _by_snapshots(stored: Description, current: TypeSerializer[T]) -> bool:
    return holds_custom(stored) or not isinstance(current, FormSerializer | DynamicSerializer)
