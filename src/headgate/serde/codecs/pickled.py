"""Values that are pickled: rows between authenticated workers, and state that a program marks so.

Without being asked for, only rows that stay among the workers of one job are pickled. A checkpoint holds
pickle only where an annotation says ``hg.pickled``, and its bytes are verified before they are unpickled.
"""

from __future__ import annotations

import io
import operator
import pickle
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar, get_origin

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, text_in
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.codecs.type_codec import Form, copier, describe
from headgate.serde.descriptions import kinds_in
from headgate.serde.evolution.readings import Reading, Refused
from headgate.serde.logical_names import generic_model, logical_name

V = TypeVar("V")

PICKLE: Final = "pickle"  # the kind in descriptions

_PROTOCOL: Final = 5
_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


class ClassNames(Protocol):
    """Names for classes that the receiver cannot import, such as those of the running script."""

    def name_of(self, cls: type) -> str | None:
        """Return a name by which every worker of the job finds the class; None for a class without one."""

    def class_of(self, name: str) -> type:
        """Return the class of a name; raise LookupError if no such class came with the program."""


class ShippedClasses:
    """Names the classes that came to a worker by value, as part of the program.

    `pickler`, cloudpickle's module, gives each class that it ships by value an id, under which every worker
    that loads the bytes `program` registers it. Other workers may lack a class whose id is not in them.
    """

    def __init__(self, pickler: types.ModuleType, program: bytes) -> None:
        tables = pickler.Pickler.dump.__globals__
        self._ids: Mapping[type, str] = tables["_DYNAMIC_CLASS_TRACKER_BY_CLASS"]
        self._classes: Mapping[str, type] = tables["_DYNAMIC_CLASS_TRACKER_BY_ID"]
        self._program = program
        self._shipped: dict[str, bool] = {}

    def name_of(self, cls: type) -> str | None:
        name = self._ids.get(cls)
        return name if name is not None and self._is_shipped(name) else None

    def class_of(self, name: str) -> type:
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
        name = f"{id(cls):x}"
        self._classes[name] = cls
        return name

    def class_of(self, name: str) -> type:
        return self._classes[name]


def encode_rows(rows: Sequence[V], names: ClassNames | None = None) -> bytes:
    """Return rows pickled in one piece, for workers of the same job; UsageError if that fails.
    `names` names the classes that the receiver cannot import; None: it can import all.
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
    """Return the rows of :func:`encode_rows`, with the same kind of `names`.
    This runs code of `data`: first authenticate the sender and verify the bytes. Errors are of any type.
    """
    rows: list[V] = _RowUnpickler(io.BytesIO(data), names).load()
    return rows


def encode_class(cls: type, names: ClassNames | None = None) -> bytes:
    return encode_rows([cls], names)


def decode_class(data: bytes, names: ClassNames | None = None) -> type:
    """Return the class that a reference names, which unpickling may import: first authenticate the sender."""
    classes: list[type] = decode_rows(data, names)
    return classes[0]


def _shipped_class(name: str) -> type:
    raise pickle.UnpicklingError(f"class {name!r} can be found by the workers of its job only")


class _RowPickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, names: ClassNames | None) -> None:
        super().__init__(out, protocol=_PROTOCOL)
        self._names = names

    def reducer_override(self, obj: V) -> Any:
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
        if self._names is not None and (module, name) == (__name__, _shipped_class.__name__):
            return self._names.class_of
        return super().find_class(module, name)


def dump_value(value: V, declared: type) -> bytes:
    """Return the pickle of one value of state; ValueError if it cannot be pickled.

    The bytes refer to the declared class as that and not by its module, which is another one when the
    program's file is run instead of imported.
    """
    out = io.BytesIO()
    try:
        _Pickler(out, declared).dump(value)
    except BaseException as error:  # classes define how they are pickled, and raise what they like
        let_pass(error)
        raise ValueError(f"it cannot be pickled: {text_with_line(error)}") from None
    return out.getvalue()


def load_value(data: bytes, declared: type) -> Any:
    """Return the value that :func:`dump_value` pickled, with the same class `declared`.
    This runs code of `data`: verify the bytes first. ValueError if that fails.
    """
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
        return 0 if obj is self._declared else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, declared: type) -> None:
        super().__init__(data)
        self._declared = declared

    def persistent_load(self, pid: int) -> type:
        if pid != 0:
            raise pickle.UnpicklingError(f"it refers to {pid!r}; expected the declared class only")
        return self._declared


def pickled_form(hint: Hint) -> Form:
    """Return the codec of ``Annotated[hint, hg.pickled]``: values are a checksum and a pickle.
    Values of subclasses are allowed too. UsageError unless `hint` is a class or Any.
    """
    cls: Any = object if hint is Any else get_origin(hint) or hint
    if not isinstance(cls, type) or cls is types.UnionType:
        raise UsageError(
            f"hg.pickled marks {hint}, which is no class; mark the class itself, as in "
            "Annotated[Model, hg.pickled] | None"
        )
    name = "Any" if hint is Any else logical_name(cls)

    def to_plain(value: V) -> tuple[int, bytes]:
        if not isinstance(value, cls):
            raise TypeError(f"got {type(value).__qualname__}, expected {name}")
        data = dump_value(value, cls)
        return crc32(data), data

    def from_plain(plain: tuple[int, bytes]) -> Any:
        checksum, data = plain
        if type(data) is not bytes or crc32(data) != checksum:
            raise ValueError("the checksum of a pickled value is wrong")
        value = load_value(data, cls)
        if not isinstance(value, cls):
            raise ValueError(f"a pickled {type(value).__qualname__} was found, expected {name}")
        return value

    return Form(
        name=f"pickled {cls.__qualname__ if hint is not Any else 'Any'}",
        description=describe(PICKLE, name=name, python=_PYTHON),
        wire=tuple[int, bytes],
        to_plain=to_plain,
        from_plain=from_plain,
        classes=frozenset() if hint is Any else frozenset({cls}),
        immutable=False,
        copy=copier(False, False),
    )


def evolve_pickled(stored: Description, new: Form) -> Reading:
    """Raise Refused always: this is called where class or Python changed, and such pickles are not read."""
    now, was = new.description, text_in(stored, "name")
    if now["kind"] != PICKLE or was != now["name"]:
        current = f"pickled {now['name']!s}" if now["kind"] == PICKLE else new.name
        raise Refused(f"was pickled {was} and is {current}; pickled values do not evolve")
    python = text_in(stored, "python")
    raise Refused(
        f"was pickled by Python {python} and this is {now['python']!s}; pickled values do not cross "
        f"versions of Python, restore with {python}"
    )


def holds_pickle(description: Description) -> bool:
    return PICKLE in kinds_in(description)
