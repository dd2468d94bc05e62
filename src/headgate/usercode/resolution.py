"""Which copy of a module a name means: the framework's, the user's, or that of the user's dependency layer.

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
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.patterns import ParentFirst

STANDARD_LIBRARY: Final = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names)
OF_EACH_NAMESPACE: Final = frozenset({"builtins", "__main__", "__mp_main__", "atexit"})


class Origin(Enum):
    """Whose copy of a module."""

    PARENT = "framework"
    CHILD = "user"
    LAYER = "dependency layer"


ASKED: Final = {
    ResolveOrder.CHILD_FIRST: (Origin.CHILD, Origin.LAYER, Origin.PARENT),
    ResolveOrder.PARENT_FIRST: (Origin.PARENT, Origin.CHILD, Origin.LAYER),
}


class Surroundings(Protocol):
    """What lies where."""

    def has(self, origin: Origin, name: str) -> bool:
        """Whether a module can be found there; for a part of a package, in that origin's portion of it."""
        ...

    def is_namespace(self, origin: Origin, name: str) -> bool:
        """Whether a package is there an implicit namespace package, one without `__init__`."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What a name means, and why."""

    origin: Origin
    reason: str


class Resolver:
    """The table above for one namespace.

    Args:
        identical: top-level modules whose native distribution is the framework's own, byte by byte.

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
        """Whose copy of a module is meant."""
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
        of_package = self.decide(package) if package else None
        if of_package is not None and not self._is_namespace(package, of_package):
            return Decision(of_package.origin, f"part of the {_whose(of_package.origin)} package {package!r}")
        if top in self._identical:
            return Decision(Origin.PARENT, "the user's native package is the framework's own")
        return self._first(name, package)

    def _first(self, name: str, package: str) -> Decision:
        where = f"portion of namespace package {package!r}" if package else self._order.value
        for origin in ASKED[self._order]:
            if self._surroundings.has(origin, name):
                return Decision(origin, f"{where}: the {_whose(origin)} copy")
        return Decision(Origin.CHILD, "nobody has it: left to import hooks of the user's")

    def _is_namespace(self, package: str, decided: Decision) -> bool:
        return self._surroundings.is_namespace(decided.origin, package)


def _whose(origin: Origin) -> str:
    return {Origin.PARENT: "framework's", Origin.CHILD: "user's", Origin.LAYER: "layer's"}[origin]
