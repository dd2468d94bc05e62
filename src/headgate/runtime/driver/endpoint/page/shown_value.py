"""Shows a value of keyed state as JSON, for the page and the command `headgate query`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.common.plain_data import Json

TEXT_MAX: Final = 10_000  # characters of a value that is shown as text


def shown_value(value: Any) -> dict[str, Json]:
    """Return a value of keyed state as JSON: `value`, if JSON has its like, and its repr, cut at 10,000.

    Example:
        >>> shown_value({"a": 1})
        {'value': {'a': 1}, 'in_json': True, 'text': "{'a': 1}"}
        >>> shown_value(2 + 1j)
        {'value': None, 'in_json': False, 'text': '(2+1j)'}
    """
    text = repr(value)
    shown = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
    try:
        plain_value, in_json = msgspec.to_builtins(value, str_keys=True), True
    except (TypeError, ValueError, RecursionError):
        plain_value, in_json = None, False
    return {"value": plain_value, "in_json": in_json, "text": shown}
