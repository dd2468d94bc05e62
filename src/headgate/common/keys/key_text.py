"""Keys as JSON text, for asking a job about one: exact for every type that a key can have.

Text, numbers and booleans are themselves, a tuple is an array. What JSON lacks is an object with one field
that says what it is: ``bytes`` (base64), ``date``, ``datetime`` or ``uuid``.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import uuid
from collections.abc import Callable, Hashable
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.common.keys.key_hashes import Key
from headgate.common.plain_data import Json

_FIELDS: Final[dict[str, Callable[[str], Key]]] = {
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "date": dt.date.fromisoformat,
    "datetime": dt.datetime.fromisoformat,
    "uuid": uuid.UUID,
}


def key_text(key: Hashable) -> str:
    """Return a key as JSON text, for a request to a running job; UsageError for None and types no key has.

    Example:
        >>> key_text(("ada", 7)), key_text(dt.date(2026, 1, 2))
        ('["ada", 7]', '{"date": "2026-01-02"}')
    """
    return json.dumps(_plain(key))


def key_of_text(text: str) -> Key | None:
    r"""Return the key from JSON text that :func:`key_text` wrote (null: None); UsageError if it is no key.

    Example:
        >>> key_of_text('["ada", 7]'), key_of_text('{"bytes": "AP8="}')
        (('ada', 7), b'\x00\xff')
    """
    try:
        return _key(json.loads(text))
    except (ValueError, RecursionError, TypeError) as error:
        raise UsageError(
            f"the key is not readable as JSON ({error}); expected text in quotes, a number, true or false, "
            'an array for a tuple, or an object such as {"date": "2026-01-02"}'
        ) from None


def _plain(key: Hashable) -> Json:
    match key:
        case tuple():
            return [_plain(part) for part in key]
        case bytes():
            return {"bytes": base64.b64encode(key).decode()}
        case dt.datetime():
            return {"datetime": key.isoformat()}
        case dt.date():
            return {"date": key.isoformat()}
        case uuid.UUID():
            return {"uuid": str(key)}
        case str() | int() | float():
            return key
    raise UsageError(f"a key of type {type(key).__name__} cannot be asked for; no stream has such keys")


def _key(value: Json) -> Key | None:
    if isinstance(value, list):
        parts: tuple[Any, ...] = tuple(_key(part) for part in value)
        return parts
    if isinstance(value, dict):
        ((field, text),) = value.items() if len(value) == 1 else [("", "")]
        if field not in _FIELDS or not isinstance(text, str):
            raise ValueError(f"an object has one field of {', '.join(_FIELDS)}, with text")
        return _FIELDS[field](text)
    return value
