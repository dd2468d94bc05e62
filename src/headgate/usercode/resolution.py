"""Decides whose copy of a module a name means: the framework's, the user's, or the dependency layer's.

A pure table. What lies where is asked of :class:`Surroundings`, and each decision is made once::

    1  builtins, __main__, atexit             each namespace has its own
    2  standard library                       framework, always
    3  a parent-first pattern fits            framework, if it has the module
    4  order "parent-first"                   framework, then user, then layer
    5  order "child-first"                    user, then layer, then framework
    6  part of a regular package              where its package is; never mixed
    7  part of a namespace package            by 4 or 5, portion by portion
    8  nowhere                                user: import hooks of the user's may make it
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from headgate.common.settings.loader_options import DEFAULT_PATTERNS, MANDATORY_PATTERNS, ResolveOrder

STANDARD_LIBRARY: Final = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names)
OF_EACH_NAMESPACE: Final = frozenset({"builtins", "__main__", "__mp_main__", "atexit"})


@dataclass(frozen=True, slots=True)
class ParentFirst:
    """Parent-first patterns: names of modules that mean the framework's copy, whatever the user brings.

    A pattern is a plain prefix of a module's name followed by a dot: "attr." is the package `attr` and what
    is in it; "attr" is also `attrs` and `attrlib`. `readded` are those of `patterns` that the user's option
    left out, and that are in force all the same, as they are mandatory.

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
        """Return the first pattern that a module's name fits, None if there is none."""
        dotted = f"{name}."
        if not dotted.startswith(self.patterns):  # of most names, and asked for every module
            return None
        return next((pattern for pattern in self.patterns if dotted.startswith(pattern)), None)


def parent_first(default: Iterable[str] = DEFAULT_PATTERNS, additional: Iterable[str] = ()) -> ParentFirst:
    """Return the patterns `default` and `additional` as one, plus those that must never be left out."""
    chosen = tuple(default)
    missing = tuple(pattern for pattern in MANDATORY_PATTERNS if pattern not in chosen)
    return ParentFirst((*missing, *chosen, *additional), missing)


class Origin(Enum):
    """Who owns the copy of a module that a name means."""

    PARENT = "framework"
    CHILD = "user"
    LAYER = "dependency layer"


_OWNER: Final = {Origin.PARENT: "framework's", Origin.CHILD: "user's", Origin.LAYER: "layer's"}
ASKED: Final = {
    ResolveOrder.CHILD_FIRST: (Origin.CHILD, Origin.LAYER, Origin.PARENT),
    ResolveOrder.PARENT_FIRST: (Origin.PARENT, Origin.CHILD, Origin.LAYER),
}


class Surroundings(Protocol):
    """What a :class:`Resolver` asks: which modules the framework, the user and the dependency layer have."""

    def has(self, origin: Origin, name: str) -> bool:
        """Return whether owner `origin` has a module; if a submodule, in its own part of the package."""

    def is_namespace(self, origin: Origin, name: str) -> bool:
        """Return whether owner `origin`'s package is a namespace package, one without `__init__`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The owner whose copy a module's name means, and the reason."""

    origin: Origin
    reason: str


class Resolver:
    """Decides by patterns, order and files whose copy a module name means in one namespace; keeps answers.

    `surroundings` tells which owner has which module; `identical` are the top-level modules of compiled
    packages for which `native.policy` chose the framework's copy, whatever the order.

    Example:
        >>> class Disk:
        ...     def has(self, origin, name):
        ...         return name in {Origin.CHILD: {"attr"}, Origin.PARENT: {"attr", "yaml"}}.get(origin, ())
        ...     def is_namespace(self, origin, name):
        ...         return False
        >>> resolver = Resolver(ParentFirst(("headgate.",)), ResolveOrder.CHILD_FIRST, Disk())
        >>> [resolver.decide(name).origin.value for name in ("attr", "attr.x", "yaml", "json")]
        ['user', 'user', 'framework', 'framework']
        >>> resolver.decide("attr.x").reason
        "part of the user's package 'attr'"
    """

    def __init__(
        self,
        patterns: ParentFirst,
        order: ResolveOrder,
        surroundings: Surroundings,
        identical: frozenset[str] = frozenset(),
    ) -> None:
        self._patterns, self._order, self._identical = patterns, order, identical
        self._surroundings = surroundings
        self._decided: dict[str, Decision] = {}

    def decide(self, name: str) -> Decision:
        """Return whose copy of a module the name means, and why; the answer is the same at every call."""
        decision = self._decided.get(name)
        if decision is None:
            decision = self._decided[name] = self._decide(name)
        return decision

    def _decide(self, name: str) -> Decision:
        top, _, _ = name.partition(".")
        if name in OF_EACH_NAMESPACE:
            return Decision(Origin.CHILD, "every namespace has its own")
        if top in STANDARD_LIBRARY:
            return Decision(Origin.PARENT, "standard library")
        package, _, _ = name.rpartition(".")
        pattern = self._patterns.match(name)
        if pattern is not None and self._surroundings.has(Origin.PARENT, name):
            return Decision(Origin.PARENT, f"parent-first pattern {pattern!r}")
        origin = self.decide(package).origin if package else None
        if origin is not None and not self._surroundings.is_namespace(origin, package):
            return Decision(origin, f"part of the {_OWNER[origin]} package {package!r}")
        if top in self._identical:
            return Decision(Origin.PARENT, "the user's native package is the framework's own")
        return self._first(name, package)

    def _first(self, name: str, package: str) -> Decision:
        where = f"portion of namespace package {package!r}" if package else self._order.value
        for origin in ASKED[self._order]:
            if self._surroundings.has(origin, name):
                return Decision(origin, f"{where}: the {_OWNER[origin]} copy")
        return Decision(Origin.CHILD, "found nowhere: left to import hooks of the user's")
