"""Functions and objects of user code as bytes: pickled and restored in their namespace, by its own code.

The framework's cloudpickle is loaded once more in each namespace, under a name that no package has. With the
user's own version payloads of another one could not be read; with the framework's module a restored function
would get the framework's builtins, and its imports would mean the framework's modules.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any, Final, TypeVar

from headgate.usercode.errors import UserCodeLoadError
from headgate.usercode.namespaces.context import pinned_to_framework
from headgate.usercode.namespaces.loader import Namespace

T = TypeVar("T")

PICKLER: Final = "_headgate_pickler"
_SOURCE: Final = "cloudpickle.cloudpickle"


def dumps(namespace: Namespace, thing: T) -> bytes:
    """Something of a namespace's; what is defined in its `__main__` travels by value."""
    payload: bytes = namespace.call(pickler_of(namespace).dumps, thing)
    return payload


def loads(namespace: Namespace, payload: bytes) -> Any:
    """What :func:`dumps` was given, made anew in this namespace, perhaps in another process."""
    pickler = pickler_of(namespace)
    try:
        return namespace.call(pickler.loads, payload)
    except (ImportError, AttributeError) as error:
        raise UserCodeLoadError(
            f"what the driver has sent cannot be restored in the user code of {namespace.name!r}: {error}; "
            "bring the module that defines it, in the version that the driver has"
        ) from error


def pickler_of(namespace: Namespace) -> ModuleType:
    """The namespace's copy of cloudpickle, loaded when it is first asked for."""
    loaded = namespace.modules.get(PICKLER)
    if loaded is None:
        with pinned_to_framework():
            spec = importlib.util.find_spec(_SOURCE)
        assert spec is not None, "cloudpickle is one of the framework's requirements"
        assert spec.origin is not None, "it is a file"
        loaded = namespace.load_private(PICKLER, spec.origin)
    return loaded
