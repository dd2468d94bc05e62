"""Loads the files of `relational.functions`, which put their rules into the registry."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

FAMILIES: Final = (
    "arithmetic",
    "bits",
    "comparison",
    "conditional",
    "hashes",
    "logic",
    "mathematical",
    "nested.element_functions",
    "nested.combined",
    "nested.maps",
    "nested.structs",
    "numerals",
    "rounding",
    "row_hashes",
    "strings.encodings",
    "strings.text_formats",
    "strings.joining",
    "strings.letters",
    "strings.parts",
    "strings.regexes",
    "strings.searching",
    "times.calendar",
    "times.time_fields",
    "times.time_formats",
    "times.instants",
)
"""The files that have rules."""


@cache
def load_families() -> None:
    """Import every family once."""
    for family in FAMILIES:
        importlib.import_module(f"headgate.relational.functions.{family}")
