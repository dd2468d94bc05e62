"""What decoders stumble over when bytes are not what was written, and how that is told.

A checksum catches what happens to bytes by chance. Behind it, every reader still raises its own declared
error for any bytes at all, so that no damage ends as a riddle in the middle of a restore.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from headgate.common.errors import HeadgateError, StorageError

UNDECODABLE: Final[tuple[type[Exception], ...]] = (
    msgspec.MsgspecError,
    struct.error,
    ValueError,  # of msgspec itself, too: text that is no UTF-8
    TypeError,
    AttributeError,
    ArithmeticError,
    LookupError,  # of zoneinfo, too: a zone that it does not know
    OSError,  # of zoneinfo: a name that is a folder of its database, or too long for a file
    RecursionError,  # of msgspec: nested too deeply
)
"""What decoding raises for bytes that are something else."""


@contextmanager
def stored_description() -> Iterator[None]:
    """Around what walks over the stored description of a serializer.

    Raises:
        StorageError: the description lacks a part or has one of another type.

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
