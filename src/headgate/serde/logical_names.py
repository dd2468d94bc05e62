"""Logical names: the names by which stored data refers to classes, and the classes for them."""

from __future__ import annotations

import importlib
import sys
import types
import weakref
from pathlib import PurePath
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.process.process_exceptions import let_pass

_shipped: Final[weakref.WeakValueDictionary[str, type]] = weakref.WeakValueDictionary()
_NOTED: Final = "__headgate_logical_name__"


def logical_name(cls: type) -> str:
    """Return "module.qualified name" of a class, the same whether its file is run as script or imported."""
    noted = vars(cls).get(_NOTED)
    if isinstance(noted, str):
        return noted
    generic = generic_model(cls)
    if generic is None:
        module = cls.__module__ if cls.__module__ != "__main__" else _script_name() or "__main__"
        return f"{module}.{cls.__qualname__}"
    # It has the module of the model that it is made of, which may have been shipped here.
    return logical_name(generic[0]).removesuffix(generic[0].__qualname__) + cls.__qualname__


def generic_model(cls: type) -> tuple[type, tuple[Hint, ...]] | None:
    """Return the generic pydantic model that a class is made of, and its arguments; None for other classes.
    Such a class, as `Page[int]`, is made when it is first used, and is in no module.
    """
    made = getattr(cls, "__pydantic_generic_metadata__", None)
    return (made["origin"], made["args"]) if made and made["origin"] is not None else None


def note_logical_name(cls: type) -> None:
    """Set a `__main__` class's logical name on it, for workers; keep any class weakly for `known_class()`."""
    if cls.__module__ == "__main__" and _NOTED not in vars(cls) and generic_model(cls) is None:
        setattr(cls, _NOTED, logical_name(cls))
    _shipped[logical_name(cls)] = cls


def class_named(name: str) -> Any:
    """Return the object at the top of a module that `name`, "module.object", means; import the module for it.
    The running script is not imported again. UsageError: the import fails, or the module lacks the object.
    """
    module_name, _, qualname = name.rpartition(".")
    try:
        module = _running_script(module_name) or importlib.import_module(module_name)
    except BaseException as error:  # a module may raise whatever it likes
        let_pass(error)
        raise UsageError(f"{name} cannot be found: importing its module failed ({error})") from None
    found = getattr(module, qualname, None)
    if found is None:
        raise UsageError(f"{name} cannot be found: module {module_name} has no {qualname}")
    return found


def known_class(name: str, main: types.ModuleType | None = None) -> type:
    """Return the class of a logical name among those that this process has already; imports nothing.

    `main` is the module that runs as the program's script. UsageError if no class has the name.
    """
    shipped = _shipped.get(name)
    if shipped is not None and generic_model(shipped) is not None:
        return shipped  # a cell that ran again has made the model anew; its module has both
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        for module in (main, sys.modules.get(".".join(parts[:length]))):
            found: types.ModuleType | type | None = module
            for part in parts[length:]:
                found = getattr(found, part, None)
            if isinstance(found, type) and logical_name(found) == name:
                return found
    if name in _shipped:
        return _shipped[name]
    raise UsageError(f"class {name} is not known here; import its module in the program")


def _running_script(module: str) -> types.ModuleType | None:
    # Importing a script that is running would run it again.
    return sys.modules.get("__main__") if module in ("__main__", _script_name()) else None


def _script_name() -> str | None:
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else PurePath(file).stem if file else None
