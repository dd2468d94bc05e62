"""Turns errors in the stored description of a serializer into a StorageError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import HeadgateError, StorageError


@contextmanager
def stored_description() -> Iterator[None]:
    """Guard code that walks over the stored description of a serializer."""
    try:
        yield
    except HeadgateError:
        raise
    except UNDECODABLE as error:
        raise StorageError(
            f"the stored description of a serializer is damaged ({type(error).__name__}: {error}); restore "
            "an older checkpoint"
        ) from error
