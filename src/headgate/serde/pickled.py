"""Everything that is pickled: rows between authenticated workers, and state that a program marks so.

Nothing falls back to this on its own but rows between the workers of one job. A checkpoint holds pickle
only where an annotation says ``hg.pickled``, and its bytes are verified before they are unpickled.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, Final, cast

from headgate.common.errors import UsageError

_PROTOCOL: Final = 5


def encode_rows(rows: Sequence[Any]) -> bytes:
    """Encode rows of types that no serializer holds.

    Raises:
        UsageError: a row cannot be pickled.
    """
    try:
        return pickle.dumps(list(rows), protocol=_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"a batch of {len(rows)} records cannot be sent to another worker ({error}); "
            "emit plain values or a dataclass of them"
        ) from None


def decode_rows(data: bytes | memoryview) -> list[Any]:
    """Decode rows; the caller has authenticated the sender and verified the checksum."""
    return cast("list[Any]", pickle.loads(data))


def dump_value(value: Any, declared: type) -> bytes:
    """Pickle one value of state.

    Args:
        value: of the declared class.
        declared: stands in the bytes as "the declared class" and not by its module, which is another one
            when the program's file is run instead of imported.

    Raises:
        ValueError: it cannot be pickled.
    """
    out = io.BytesIO()
    try:
        _Pickler(out, declared).dump(value)
    except Exception as error:  # classes define how they are pickled, and raise what they like
        raise ValueError(f"it cannot be pickled: {type(error).__name__}: {error}") from None
    return out.getvalue()


def load_value(data: bytes, declared: type) -> Any:
    """Unpickle what :func:`dump_value` gave; the caller has verified the checksum. Runs code of the bytes.

    Raises:
        ValueError: it cannot be unpickled.
    """
    try:
        return _Unpickler(io.BytesIO(data), declared).load()
    except Exception as error:  # as above
        raise ValueError(f"it cannot be unpickled: {type(error).__name__}: {error}") from None


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, declared: type) -> None:
        super().__init__(out, protocol=_PROTOCOL)
        self._declared = declared

    def persistent_id(self, obj: Any) -> Any:
        """Zero stands for the declared class."""
        return 0 if obj is self._declared else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, declared: type) -> None:
        super().__init__(data)
        self._declared = declared

    def persistent_load(self, pid: Any) -> Any:
        """The declared class."""
        if pid != 0:
            raise pickle.UnpicklingError(f"it refers to {pid!r}; expected the declared class only")
        return self._declared
