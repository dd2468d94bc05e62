"""How a program names the key or the time of a record. A type only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KeySelector = str | tuple[str, ...] | Callable[[Any], Any]
"""A field or column name, several of them (the key is then a tuple), or a function of the record."""
