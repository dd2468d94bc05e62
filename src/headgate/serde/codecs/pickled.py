"""Everything that is pickled: rows between authenticated workers, and state that a program marks so.

Nothing falls back to this on its own but rows between the workers of one job. A checkpoint holds pickle
only where an annotation says ``hg.pickled``, and its bytes are verified before they are unpickled.
"""

from __future__ import annotations

import io
import operator
import pickle
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from headgate.common.errors import UsageError
from headgate.common.process.interruptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.logical_names import generic_model

V = TypeVar("V")

_PROTOCOL: Final = 5


class ClassNames(Protocol):
    """Names of classes that no module of the receiver has, such as those of the running script."""

    def name_of(self, cls: type) -> str | None:
        """The name of a class that every worker of the job knows; None for every other class."""

    def class_of(self, name: str) -> type:
        """The class of a name; a `LookupError` says that no such class came with the program."""


class ShippedClasses:
    """Names the classes that came to a worker by value, as part of the program.

    The pickler gives every class that it ships by value an id, and each worker that loads the program
    notes under this id the class that it makes. An id that is not in the program's bytes belongs to a
    class that other workers need not have.
    """

    def __init__(self, pickler: types.ModuleType, program: bytes) -> None:
        tables = pickler.Pickler.dump.__globals__
        self._ids: Mapping[type, str] = tables["_DYNAMIC_CLASS_TRACKER_BY_CLASS"]
        self._classes: Mapping[str, type] = tables["_DYNAMIC_CLASS_TRACKER_BY_ID"]
        self._program = program
        self._shipped: dict[str, bool] = {}

    def name_of(self, cls: type) -> str | None:
        """See :class:`ClassNames`."""
        name = self._ids.get(cls)
        return name if name is not None and self._is_shipped(name) else None

    def class_of(self, name: str) -> type:
        """See :class:`ClassNames`."""
        if not self._is_shipped(name):
            raise LookupError(f"class {name!r} did not come with the program")
        return self._classes[name]

    def _is_shipped(self, name: str) -> bool:
        if name not in self._shipped:
            self._shipped[name] = name.encode() in self._program
        return self._shipped[name]


class OwnClasses:
    """Names classes for rows that stay in this process, wherever the classes were defined."""

    def __init__(self) -> None:
        self._classes: dict[str, type] = {}

    def name_of(self, cls: type) -> str:
        """See :class:`ClassNames`."""
        name = f"{id(cls):x}"
        self._classes[name] = cls
        return name

    def class_of(self, name: str) -> type:
        """See :class:`ClassNames`."""
        return self._classes[name]


def encode_rows(rows: Sequence[V], names: ClassNames | None = None) -> bytes:
    """Encode rows of types that no serializer holds.

    `names` are those of classes that are in no module of the receiver.
    """
    out = io.BytesIO()
    try:
        _RowPickler(out, names).dump(list(rows))
    except Exception as error:  # classes define how they are pickled, and raise what they like
        raise UsageError(
            f"a batch of {len(rows)} records cannot be sent to another worker "
            f"({type(error).__name__}: {error}); emit plain values or a dataclass of them"
        ) from None
    return out.getvalue()


def decode_rows(data: bytes | memoryview, names: ClassNames | None = None) -> list[V]:
    """Decode rows; the caller has authenticated the sender and verified the checksum."""
    rows: list[V] = _RowUnpickler(io.BytesIO(data), names).load()
    return rows


def encode_class(cls: type, names: ClassNames | None = None) -> bytes:
    """Encode a reference to a class."""
    return encode_rows([cls], names)


def decode_class(data: bytes, names: ClassNames | None = None) -> type:
    """Find the class of a reference; the caller has authenticated the sender."""
    classes: list[type] = decode_rows(data, names)
    return classes[0]


def _shipped_class(name: str) -> type:
    """Stand in pickled rows for the lookup that :class:`_RowUnpickler` does."""
    raise pickle.UnpicklingError(f"class {name!r} can be found by the workers of its job only")


class _RowPickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, names: ClassNames | None) -> None:
        super().__init__(out, protocol=_PROTOCOL)
        self._names = names

    def reducer_override(self, obj: V) -> Any:
        """Refer to a shipped class by its name, and to one that a generic model makes by what makes it."""
        if not isinstance(obj, type):
            return NotImplemented
        generic = generic_model(obj)
        if generic is not None:
            return operator.getitem, generic
        name = None if self._names is None else self._names.name_of(obj)
        return NotImplemented if name is None else (_shipped_class, (name,))


class _RowUnpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, names: ClassNames | None) -> None:
        super().__init__(data)
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        """Find shipped classes by their names."""
        if self._names is not None and (module, name) == (__name__, _shipped_class.__name__):
            return self._names.class_of
        return super().find_class(module, name)


def dump_value(value: V, declared: type) -> bytes:
    """Pickle one value of state.

    The declared class stands in the bytes as "the declared class" and not by its module, which is another one
    when the program's file is run instead of imported.
    """
    out = io.BytesIO()
    try:
        _Pickler(out, declared).dump(value)
    except BaseException as error:  # classes define how they are pickled, and raise what they like
        let_pass(error)
        raise ValueError(f"it cannot be pickled: {text_with_line(error)}") from None
    return out.getvalue()


def load_value(data: bytes, declared: type) -> Any:
    """Unpickle what :func:`dump_value` gave; the caller has verified the checksum. Runs code of the bytes."""
    try:
        return _Unpickler(io.BytesIO(data), declared).load()
    except BaseException as error:  # as above
        let_pass(error)
        raise ValueError(f"it cannot be unpickled: {text_with_line(error)}") from None


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, declared: type) -> None:
        super().__init__(out, protocol=_PROTOCOL)
        self._declared = declared

    def persistent_id(self, obj: V) -> int | None:
        """Zero stands for the declared class."""
        return 0 if obj is self._declared else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, declared: type) -> None:
        super().__init__(data)
        self._declared = declared

    def persistent_load(self, pid: int) -> type:
        """The declared class."""
        if pid != 0:
            raise pickle.UnpicklingError(f"it refers to {pid!r}; expected the declared class only")
        return self._declared
