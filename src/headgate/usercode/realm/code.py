"""A realm as the runtime knows it: a place for the code of a job's user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from headgate.usercode.patterns import ParentFirst
from headgate.usercode.realm import crossing, pickling
from headgate.usercode.realm.loader import Realm

T = TypeVar("T")


class RealmCode:
    """Implements `common.ports.UserCode`.

    Args:
        realm: where the modules are.
        data_plane: packages whose objects must not leave the realm, where it has copies of its own.

    Attributes:
        realm: as given.
    """

    def __init__(self, realm: Realm, data_plane: Sequence[str]) -> None:
        self.realm, self._data_plane = realm, ParentFirst(tuple(data_plane))

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """A function called in the realm: once for a batch, never for a record."""
        found: T = self.realm.call(function, *args)
        return found

    @property
    def refuse_leaving(self) -> Callable[[Iterable[Any]], None] | None:
        """See the protocol."""
        return crossing.leaving(self.realm, self._data_plane)

    def pickler(self) -> Any:
        """The realm's own copy of cloudpickle."""
        return pickling.pickler_of(self.realm)

    def load(self, payload: bytes) -> Any:
        """What another process of the job has pickled, restored in the realm; see `realm.pickling`.

        Raises:
            UserCodeLoadError: the realm lacks what it refers to.
        """
        return pickling.loads(self.realm, payload)
