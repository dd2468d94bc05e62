"""What the finder and the import function of a namespace ask of it; `loader.Namespace` implements this."""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

from headgate.usercode.namespaces.context import Handle, Modules
from headgate.usercode.namespaces.places import Places
from headgate.usercode.resolution import Decision


class Importing(Protocol):
    """A namespace, for the import statements of its code."""

    modules: Modules
    foreign: Modules
    handle: Handle

    def remember(self, name: str) -> None:
        """Note a module of another table, so that the next statement finds it in one look."""
        ...


class Searched(Importing, Protocol):
    """A namespace, for the finder of its modules."""

    artifacts: frozenset[str]
    places: Places

    @property
    def layer(self) -> Searched | None:
        """The namespace below, with packages that stay."""
        ...

    def decide(self, name: str) -> Decision:
        """Whose copy of a module a name means."""
        ...

    def store(self, name: str, module: ModuleType) -> None:
        """Enter a module, for this namespace alone."""
        ...

    def claim_native(self, name: str, file: str) -> None:
        """Note that an extension module is about to be loaded."""
        ...
