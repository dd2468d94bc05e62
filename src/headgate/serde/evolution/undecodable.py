"""Turns errors in reading a serializer's stored description into a StorageError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import HeadgateError, StorageError


@contextmanager
def stored_description() -> Iterator[None]:
    """Run code that walks over a serializer's stored description; its decoding errors become StorageError."""
    try:
        yield
    except HeadgateError:
        raise
    except UNDECODABLE as error:
        raise StorageError(
            f"the stored description of a serializer is damaged ({type(error).__name__}: {error}); restore "
            "an older checkpoint"
        ) from error
