"""Rows as pickle: only between authenticated workers of one job, and never in anything stored."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, cast

from headgate.common.errors import UsageError


def encode_rows(rows: Sequence[Any]) -> bytes:
    """Encode rows of types that no serializer holds.

    Raises:
        UsageError: a row cannot be pickled.
    """
    try:
        return pickle.dumps(list(rows), protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"a batch of {len(rows)} records cannot be sent to another worker ({error}); "
            "emit plain values or a dataclass of them"
        ) from None


def decode_rows(data: bytes | memoryview) -> list[Any]:
    """Decode rows; the caller has authenticated the sender and verified the checksum."""
    return cast("list[Any]", pickle.loads(data))
