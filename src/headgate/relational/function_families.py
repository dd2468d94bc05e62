"""Loads the modules of `relational.functions`, which put their rules into the registry."""

from __future__ import annotations

import importlib
from functools import cache
from keyword import iskeyword
from typing import Final

from headgate.relational.rules import ALIASES, RULES

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
"""Modules of `relational.functions` that have rules."""


@cache
def load_families() -> None:
    """Import the modules of all families, so that `RULES` is complete; only the first call does so."""
    for family in FAMILIES:
        importlib.import_module(f"headgate.relational.functions.{family}")


def function_names() -> list[str]:
    """Return the names of all functions, aliases and `try_` forms among them, in alphabetical order.

    Example:
        >>> "upper" in function_names(), "try_divide" in function_names(), "uper" in function_names()
        (True, True, False)
    """
    load_families()
    names = {name for name in (*RULES, *ALIASES) if name.isidentifier() and not iskeyword(name)}
    return sorted(names | {f"try_{name}" for name in names if RULES[ALIASES.get(name, name)].fails})
