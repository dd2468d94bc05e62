"""Functions and objects of user code as bytes: pickled and restored in their realm, by code of the realm's.

The framework's cloudpickle is loaded once more in each realm, under a name that no package has. With the
user's own version payloads of another one could not be read; with the framework's module a restored function
would get the framework's builtins, and its imports would mean the framework's modules.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final

from headgate.usercode.errors import UserCodeLoadError
from headgate.usercode.realm.context import pinned_to_framework
from headgate.usercode.realm.loader import Realm

PICKLER: Final = "_headgate_pickler"
_SOURCE: Final = "cloudpickle.cloudpickle"


def dumps(realm: Realm, thing: Any) -> bytes:
    """Something of a realm's; what is defined in its `__main__` travels by value.

    Raises:
        ClosedUserCodeLoaderError: the realm has closed.
        Exception: what cannot be pickled raises what it likes.
    """
    payload: bytes = realm.call(pickler_of(realm).dumps, thing)
    return payload


def loads(realm: Realm, payload: bytes) -> Any:
    """What :func:`dumps` was given, made anew in this realm, perhaps in another process.

    Raises:
        ClosedUserCodeLoaderError: the realm has closed.
        UserCodeLoadError: the realm lacks a module or a name that the payload refers to.
    """
    pickler = pickler_of(realm)
    try:
        return realm.call(pickler.loads, payload)
    except (ImportError, AttributeError) as error:
        raise UserCodeLoadError(
            f"what the driver has sent cannot be restored in the user code of {realm.name!r}: {error}; "
            "bring the module that defines it, in the version that the driver has"
        ) from error


def pickler_of(realm: Realm) -> Any:
    """The realm's copy of cloudpickle, loaded when it is first asked for."""
    loaded = realm.modules.get(PICKLER)
    if loaded is None:
        with pinned_to_framework():
            spec = importlib.util.find_spec(_SOURCE)
        assert spec is not None, "cloudpickle is one of the framework's requirements"
        assert spec.origin is not None, "it is a file"
        loaded = realm.load_private(PICKLER, spec.origin)
    return loaded
