"""How the stored description of a serializer is walked over: what is wrong with it is a StorageError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import HeadgateError, StorageError


@contextmanager
def stored_description() -> Iterator[None]:
    """Around what walks over the stored description of a serializer.

    Example:
        >>> with stored_description():
        ...     {"version": 1}["kind"]
        Traceback (most recent call last):
            ...
        headgate.common.errors.StorageError: the stored description of a serializer is damaged ...
    """
    try:
        yield
    except HeadgateError:
        raise
    except UNDECODABLE as error:
        raise StorageError(
            f"the stored description of a serializer is damaged ({type(error).__name__}: {error}); restore "
            "an older checkpoint"
        ) from error
