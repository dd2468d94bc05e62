"""Loads the files of `relational.functions`, which put their rules into the registry."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

FAMILIES: Final = ("arithmetic", "comparison", "logic", "conditional")


@cache
def load_families() -> None:
    """Import every family once."""
    for family in FAMILIES:
        importlib.import_module(f"headgate.relational.functions.{family}")
