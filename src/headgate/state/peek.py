"""What live state holds under one key becomes bytes for somebody outside its operator, and a value there."""

from __future__ import annotations

from typing import Any

from headgate.common.errors import UsageError
from headgate.common.layered import MISSING
from headgate.state.backend import StoredValue
from headgate.state.stored.blob_format import Section
from headgate.state.stored.value_readers import value_reader
from headgate.state.targets import Target


def stored_value(name: str, target: Target, value: Any) -> StoredValue | None:
    """The bytes of a live value; None where there is none.

    `value`: what its table holds under a key, or MISSING.
    """
    if value is MISSING:
        return None
    try:
        return StoredValue(target.schema, target.serializer.encode_checked([value]))
    except UsageError as error:
        raise UsageError(f"state {name!r} cannot be shown: {error}") from None


def value_of(name: str, stored: StoredValue, target: Target) -> Any:
    """The counterpart of :func:`stored_value`, where the same state is declared.

    Example:
        >>> from headgate.api.declared.keyed_states import StateDescriptor
        >>> from headgate.state.targets import target_of
        >>> count = target_of(StateDescriptor("count", "value", (int,), int))
        >>> value_of("count", stored_value("count", count, 7), count)
        7
    """
    return value_reader(Section(name, stored.schema, []), target)(stored.data, 1)[0]
