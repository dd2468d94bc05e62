"""A namespace as the runtime knows it: a place for the code of a job's user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from headgate.usercode.namespaces import crossing, pickling
from headgate.usercode.namespaces.loader import Namespace
from headgate.usercode.patterns import ParentFirst

T = TypeVar("T")


class NamespaceCode:
    """Implements `common.ports.UserCode`: objects of the packages `data_plane` must not leave the namespace
    where it has copies of its own.
    """

    def __init__(self, namespace: Namespace, data_plane: Sequence[str]) -> None:
        self.namespace, self._data_plane = namespace, ParentFirst(tuple(data_plane))

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """A function called in the namespace: once for a batch, never for a record."""
        return self.namespace.call(function, *args)

    @property
    def refuse_leaving(self) -> Callable[[Iterable[Any]], None] | None:
        """See the protocol."""
        return crossing.leaving(self.namespace, self._data_plane)

    def pickler(self) -> ModuleType:
        """The namespace's own copy of cloudpickle."""
        return pickling.pickler_of(self.namespace)

    def load(self, payload: bytes) -> Any:
        """Restore in the namespace what another process of the job has pickled; see `namespaces.pickling`."""
        return pickling.loads(self.namespace, payload)
