"""Parent-first patterns: names of modules that mean the framework's copy, whatever the user brings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.common.settings.loader_options import DEFAULT_PATTERNS, MANDATORY_PATTERNS


@dataclass(frozen=True, slots=True)
class ParentFirst:
    """The patterns in force.

    A pattern is a plain prefix of a module's name with a dot behind it: "attr." is the package
    `attr` and what is in it; "attr" is also `attrs` and `attrlib`.

    Attributes:
        readded: those that an option had left out and that cannot be left out.

    Example:
        >>> found = parent_first(["yaml."], ["attr"])
        >>> found.match("attrs.converters"), found.match("yaml"), found.match("yamlish")
        ('attr', 'yaml.', None)
        >>> found.readded
        ('headgate.', 'pyspark.', 'py4j.')
    """

    patterns: tuple[str, ...]
    readded: tuple[str, ...] = ()

    def match(self, name: str) -> str | None:
        """The first pattern that a module's name fits."""
        dotted = f"{name}."
        if not dotted.startswith(self.patterns):  # of most names, and asked for every module
            return None
        return next((pattern for pattern in self.patterns if dotted.startswith(pattern)), None)


def parent_first(default: Iterable[str] = DEFAULT_PATTERNS, additional: Iterable[str] = ()) -> ParentFirst:
    """What two options say together."""
    chosen = tuple(default)
    missing = tuple(pattern for pattern in MANDATORY_PATTERNS if pattern not in chosen)
    return ParentFirst((*missing, *chosen, *additional), missing)
