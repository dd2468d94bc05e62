"""The type of `key_by()`'s argument: how a program names the key of a record, and likewise its event time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KeySelector = str | tuple[str, ...] | Callable[[Any], Any]
"""A field or column name, several of them (the key is then a tuple), or a function of the record."""
